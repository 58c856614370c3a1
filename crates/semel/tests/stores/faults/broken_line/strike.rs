//! One message of a call meets with trouble: the first, the second, and so on until none is left to hit.

use super::line::{Line, SLACK};
use crate::faults::race::fresh_key;
use semel::{ErrorKind, Key, Once};
use semel_testkit::Fault;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

/// Long enough for a store to notice that an answer does not come, and to ask again.
const LEASE: Duration = Duration::from_secs(20);
/// More messages than any call needs, connecting included.
const MESSAGES_MAX: u64 = 40;
/// More deliveries than any call needs: each waits for a lease at most.
const DELIVERIES_MAX: u32 = 20;

/// Connections that are closed or reset, also while they are being made again.
pub(super) async fn broken_connections(line: &Line) {
    for fault in [Fault::Refuse, Fault::Reset] {
        for is_cold in [false, true] {
            sweep(line, fault, is_cold).await;
        }
    }
}

/// Messages that were carried out, and whose replies are lost.
pub(super) async fn lost_replies(line: &Line) {
    for is_cold in [false, true] {
        sweep(line, Fault::CutReply, is_cold).await;
    }
}

/// Messages that nobody ever answers.
pub(super) async fn vanished_messages(line: &Line) {
    sweep(line, Fault::BlackHole, false).await;
}

/// A line that passes everything on, late.
pub(super) async fn slow_line(line: &Line) {
    let once = line.once(LEASE).await;
    line.proxy.set(Fault::Delay(Duration::from_millis(20)));
    for _ in 0..3 {
        let key = fresh_key();
        let calls = deliver(&once, &key, &AtomicU32::new(0)).await;
        assert_eq!((calls.deliveries, line.completed(&key).await), (1, Some(1)));
    }
    line.proxy.heal();
}

/// Calls with trouble at their first message, their second, and so on. A run may be followed by another only if it
/// was reported as unconfirmed, which only a line that stays silent can bring about.
async fn sweep(line: &Line, fault: Fault, is_cold: bool) {
    let once = line.once(LEASE).await;
    for nth in 1..=MESSAGES_MAX {
        if is_cold {
            // All connections are gone; what makes them again is hit as well.
            line.proxy.set(Fault::Refuse);
            line.proxy.heal();
        }
        line.proxy.strike(nth, fault);
        let key = fresh_key();
        let runs = AtomicU32::new(0);
        let calls = deliver(&once, &key, &runs).await;
        let is_swept = line.proxy.heal();
        let told = format!("{fault:?} at message {nth}, cold: {is_cold}: {calls:?}");
        let runs = runs.into_inner();
        assert_eq!(runs, 1 + calls.unconfirmed, "{told}");
        assert!(calls.unconfirmed == 0 || fault == Fault::BlackHole, "{told}");
        assert_eq!(line.completed(&key).await, Some(calls.value), "{told}");
        if is_swept {
            // A call is a claim and a completion at least.
            assert!(nth > 2, "{told}");
            return;
        }
    }
    panic!("{fault:?}: a call has more than {MESSAGES_MAX} messages");
}

/// How a call went that was delivered until it succeeded.
#[derive(Debug, Default)]
struct Calls {
    deliveries: u32,
    /// Runs that succeeded, and of which the store did not say so in time.
    unconfirmed: u32,
    value: u32,
}

/// Delivers a call again and again until it succeeds, each time in bounded time.
async fn deliver(once: &Once, key: &Key, runs: &AtomicU32) -> Calls {
    let mut calls = Calls::default();
    while calls.deliveries < DELIVERIES_MAX {
        calls.deliveries += 1;
        match attempt(once, key, runs).await {
            Ok(value) => return Calls { value, ..calls },
            Err(ErrorKind::Unconfirmed | ErrorKind::Lapsed) => calls.unconfirmed += 1,
            Err(ErrorKind::Store | ErrorKind::InProgress { .. }) => {}
            Err(kind) => panic!("{kind:?} after {calls:?}"),
        }
    }
    panic!("the call never succeeded: {calls:?}");
}

/// One delivery, which counts its run and gives that number.
async fn attempt(once: &Once, key: &Key, runs: &AtomicU32) -> Result<u32, ErrorKind> {
    let start = Instant::now();
    let result = once.call_key(key.clone()).run(async |_| Ok(runs.fetch_add(1, Ordering::SeqCst) + 1)).await;
    assert!(start.elapsed() < LEASE * 2 + SLACK, "an answer after {:?}: {result:?}", start.elapsed());
    result.map_err(|error| {
        assert!(error.is_transient(), "what heals may be tried again: {error}: {:?}", source(&error));
        error.kind()
    })
}

fn source(error: &semel::Error) -> String {
    let mut told = String::new();
    let mut source = std::error::Error::source(error);
    while let Some(it) = source {
        told = format!("{told}: {it}");
        source = it.source();
    }
    told
}
