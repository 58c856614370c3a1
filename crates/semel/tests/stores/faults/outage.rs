//! A store that cannot be reached for a while.

use super::line::{LEASE, Line, SLACK, fresh_key};
use semel::{Error, ErrorKind, Key, OnBusy, Once};
use semel_testkit::Fault;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

const OUTAGES: [Fault; 3] = [Fault::Refuse, Fault::Reset, Fault::BlackHole];
/// How long a store may take to find back to a server that is there again.
const RECOVERY_MAX: Duration = Duration::from_secs(60);

/// Away from the start: the call is refused in bounded time, the handler does not run, and all is well when the
/// line heals.
pub(super) async fn before_the_claim(line: &Line) {
    for fault in OUTAGES {
        let key = fresh_key();
        line.proxy.set(fault);
        let start = Instant::now();
        let error = refused(line, &key).await;
        assert!(start.elapsed() < LEASE + SLACK, "{fault:?}: {:?}", start.elapsed());
        assert!(error.is_transient(), "{fault:?}: {error}");
        line.proxy.heal();
        assert_eq!(recover(&line.once(), &key).await, 7, "{fault:?}");
        assert_eq!(line.completed(&key).await, Some(7), "{fault:?}");
    }
}

async fn refused(line: &Line, key: &Key) -> Error {
    let run = line.once().call_key(key.clone()).run(async |_| -> Result<u32, semel::HandlerError> {
        panic!("the claim cannot have been stored");
    });
    run.await.unwrap_err()
}

/// Away from the moment the handler is done: the caller is told that nobody knows, in bounded time.
pub(super) async fn before_the_completion(line: &Line) {
    for fault in OUTAGES {
        let key = fresh_key();
        let start = Instant::now();
        let run = line.once().call_key(key.clone()).run(async |_| {
            line.proxy.set(fault);
            Ok(7)
        });
        let error = run.await.unwrap_err();
        assert!(start.elapsed() < LEASE * 2 + SLACK, "{fault:?}: {:?}", start.elapsed());
        assert_eq!(error.kind(), ErrorKind::Unconfirmed, "{fault:?}: {error}");
        assert_eq!(line.completed(&key).await, None, "{fault:?}");
        line.proxy.heal();
        assert_eq!(recover(&line.once(), &key).await, 7, "{fault:?}");
    }
}

/// Away while the handler works, for longer than its lease: another takes over, and what the first one has to say
/// is not heard.
pub(super) async fn while_another_takes_over(line: &Line) {
    for fault in OUTAGES {
        let key = fresh_key();
        let others = AtomicU32::new(0);
        let cut_off = line.once().call_key(key.clone()).run(async |_| {
            line.proxy.set(fault);
            let other = Once::builder().lease(LEASE).from_store(line.direct.clone());
            let other = other.call_key(key.clone()).on_busy(OnBusy::Wait { max: LEASE * 4 });
            let taken_over = other.run(async |_| Ok(others.fetch_add(1, Ordering::SeqCst) + 8)).await;
            line.proxy.heal();
            assert_eq!(taken_over.unwrap(), 8);
            Ok(7)
        });
        let error = cut_off.await.unwrap_err();
        line.proxy.heal();
        let is_told = matches!(error.kind(), ErrorKind::Lapsed | ErrorKind::Superseded);
        assert!(is_told, "{fault:?}: {error}");
        // If the holder was stopped when its lease was over, so was the other call inside of it.
        let value = recover(&line.once(), &key).await;
        assert_eq!(line.completed(&key).await, Some(value), "{fault:?}");
        assert!(value == 7 || value == 8, "{fault:?}: {value}");
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
