//! A store that cannot be reached for a while.

use super::line::{Line, SLACK};
use crate::faults::race::fresh_key;
use semel::{Begin, Error, ErrorKind, How, Key, OnBusy, Once};
use semel_testkit::Fault;
use std::time::{Duration, Instant};

/// Short, because its end is waited for in real time; and still many times what a call needs.
const LEASE: Duration = Duration::from_secs(4);
const OUTAGES: [Fault; 3] = [Fault::Refuse, Fault::Reset, Fault::BlackHole];
/// How long a store may take to find back to a server that is there again.
const RECOVERY_MAX: Duration = Duration::from_mins(1);

/// Away from the start: the call is refused in bounded time, the handler does not run, and all is well when the
/// line heals.
pub(super) async fn before_the_claim(line: &Line) {
    let once = line.once(LEASE).await;
    for fault in OUTAGES {
        let key = fresh_key();
        line.proxy.set(fault);
        let start = Instant::now();
        let error = refused(&once, &key).await;
        assert!(start.elapsed() < LEASE + SLACK, "{fault:?}: {:?}", start.elapsed());
        assert!(error.is_transient(), "{fault:?}: {error}");
        line.proxy.heal();
        assert_eq!(recover(&once, &key).await, 7, "{fault:?}");
        assert_eq!(line.completed(&key).await, Some(7), "{fault:?}");
    }
}

async fn refused(once: &Once, key: &Key) -> Error {
    let run = once.call_key(key.clone()).run(async |_| -> Result<u32, semel::HandlerError> {
        panic!("the claim cannot have been stored");
    });
    run.await.unwrap_err()
}

/// Away from the moment the handler is done: the caller is told that nobody knows, in bounded time.
pub(super) async fn before_the_completion(line: &Line) {
    let once = line.once(LEASE).await;
    for fault in OUTAGES {
        let key = fresh_key();
        let start = Instant::now();
        let run = once.call_key(key.clone()).run(async |_| {
            line.proxy.set(fault);
            Ok(7)
        });
        let error = run.await.unwrap_err();
        assert!(start.elapsed() < LEASE * 2 + SLACK, "{fault:?}: {:?}", start.elapsed());
        assert_eq!(error.kind(), ErrorKind::Unconfirmed, "{fault:?}: {error}");
        assert_eq!(line.completed(&key).await, None, "{fault:?}");
        line.proxy.heal();
        assert_eq!(recover(&once, &key).await, 7, "{fault:?}");
    }
}

/// Away while the holder works, for longer than its lease: another takes over, and what the first one has to say
/// is not heard.
pub(super) async fn while_another_takes_over(line: &Line) {
    let once = line.once(LEASE).await;
    let other = Once::builder().on_busy(OnBusy::Wait { max: LEASE * 4 }).from_store(line.direct.clone());
    for fault in OUTAGES {
        let key = fresh_key();
        let Begin::Run(lease) = once.call_key(key.clone()).begin().await.unwrap() else {
            panic!("it is fresh")
        };
        line.proxy.set(fault);
        let taken_over = other.call_key(key.clone()).run_outcome(async |_| Ok(8)).await.unwrap();
        assert_eq!(taken_over.how, How::TakenOver, "{fault:?}");
        line.proxy.heal();
        let error = lease.complete(&7).await.unwrap_err();
        // A line that does not recover in the time that is left has nobody to ask.
        let is_told = matches!(error.kind(), ErrorKind::Superseded | ErrorKind::Unconfirmed);
        assert!(is_told, "{fault:?}: {error}");
        assert_eq!(recover(&once, &key).await, 8, "{fault:?}");
        assert_eq!(line.completed(&key).await, Some(8), "{fault:?}");
    }
}

/// Calls until the store is there again, and gives the outcome.
async fn recover(once: &Once, key: &Key) -> u32 {
    let start = Instant::now();
    loop {
        match once.call_key(key.clone()).run(async |_| Ok(7)).await {
            Ok(value) => return value,
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                assert!(start.elapsed() < RECOVERY_MAX, "still {error} after {RECOVERY_MAX:?}");
            }
        }
    }
}
