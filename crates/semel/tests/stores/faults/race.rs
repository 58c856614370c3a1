//! A thousand callers of one key.

use semel::{ErrorKind, Key, OnBusy, Once};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Barrier, task::JoinSet};

const CALLERS: usize = 1000;

/// Of a thousand callers one runs, and nobody is told anything else.
pub(in crate::faults) async fn for_one_key(once: impl Fn() -> Once) {
    let key = fresh_key();
    let runs = Arc::<AtomicU32>::default();
    let start = Arc::new(Barrier::new(CALLERS));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let call = once().call_key(key.clone()).on_busy(OnBusy::Reject).lease(Duration::from_mins(5));
        let (runs, start) = (runs.clone(), start.clone());
        callers.spawn(async move {
            start.wait().await;
            call.run(async |_| Ok(runs.fetch_add(1, Ordering::SeqCst))).await
        });
    }
    let answers = callers.join_all().await;
    assert_eq!(runs.load(Ordering::SeqCst), 1, "one winner");
    let mut succeeded = 0;
    for answer in answers {
        match answer {
            Ok(value) => {
                assert_eq!(value, 0, "another run's result");
                succeeded += 1;
            }
            Err(error) => assert!(matches!(error.kind(), ErrorKind::InProgress { .. }), "{error}"),
        }
    }
    assert!(succeeded > 0, "the winner has its result");
}

/// A key that no other test has.
pub(in crate::faults) fn fresh_key() -> Key {
    Key::new("faults", fastrand::u64(..)).unwrap()
}
