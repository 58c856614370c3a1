//! The library over the embedded store: what a process leaves behind, the next one finds.

use crate::support::{crash_at, never};
use semel::{ErrorKind, HandlerError, How, Key, Lease, OnBusy, OnLapse, Once, Provider, Resolution, Status};
use std::cell::RefCell;
use tempfile::TempDir;
use tokio::sync::Notify;

/// Where a handler crashes.
async fn stop(now: &Notify) -> Result<(), HandlerError> {
    now.notify_one();
    never().await
}

/// A directory, and a life of a process in it.
struct Life {
    directory: TempDir,
    once: Once,
}

impl Life {
    async fn begin() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let once = Once::open(directory.path()).await.unwrap();
        Self { directory, once }
    }

    /// The process dies, and another one opens the directory.
    async fn next(self) -> Self {
        let Self { directory, once } = self;
        drop(once);
        let once = Once::open(directory.path()).await.unwrap();
        Self { directory, once }
    }

    fn call(&self) -> semel::Call {
        self.once.call("pay", "evt-1").on_busy(OnBusy::Reject)
    }
}

#[tokio::test]
async fn a_result_is_replayed_in_the_next_life() {
    let life = Life::begin().await;
    life.call().payload(&1).run(async |_| Ok("paid".to_owned())).await.unwrap();
    let life = life.next().await;
    let outcome = life.call().payload(&1).run_outcome(async |_| Ok(String::new())).await.unwrap();
    assert_eq!((outcome.value.as_str(), outcome.how), ("paid", How::Replayed));
    let mismatch = life.call().payload(&2).run(async |_| Ok(String::new())).await.unwrap_err();
    assert_eq!(mismatch.kind(), ErrorKind::Mismatch);
}

#[tokio::test]
async fn a_handler_that_died_with_its_process_is_run_again_at_once() {
    let now = Notify::new();
    let life = Life::begin().await;
    crash_at(&now, life.call().run(async |_| stop(&now).await)).await;
    let life = life.next().await;
    let outcome = life.call().run_outcome(async |lease| Ok(lease.attempt())).await.unwrap();
    assert_eq!(outcome.value, 2);
}

#[tokio::test]
async fn work_done_elsewhere_keeps_its_lease_over_a_restart() {
    let now = Notify::new();
    let life = Life::begin().await;
    crash_at(&now, life.call().elsewhere().run(async |_| stop(&now).await)).await;
    let life = life.next().await;
    let busy = life.call().run(async |_| Ok(())).await.unwrap_err();
    assert!(matches!(busy.kind(), ErrorKind::InProgress { .. }));
}

#[tokio::test]
async fn a_call_that_must_be_reported_is_in_doubt_after_a_restart() {
    let now = Notify::new();
    let life = Life::begin().await;
    let call = life.call().on_lapse(OnLapse::Report);
    crash_at(&now, call.run(async |_| stop(&now).await)).await;
    let life = life.next().await;
    let unknown = life.call().run(async |_| Ok(())).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::OutcomeUnknown);
}

#[tokio::test]
async fn effects_survive_the_process_each_after_its_class() {
    let (now, sent) = (Notify::new(), RefCell::new(Vec::new()));
    let handle = async |lease: &Lease, hangs: bool| {
        let charge = lease.effect("charge").keyed(Provider::STRIPE);
        let send = async |key: semel::IdempotencyKey| {
            sent.borrow_mut().push(key.to_string());
            Ok::<_, HandlerError>(())
        };
        charge.run(send).await?;
        let mail = lease.effect("email").at_most_once().run(async || {
            sent.borrow_mut().push("email".to_owned());
            if hangs { stop(&now).await } else { Ok::<_, HandlerError>(()) }
        });
        mail.await?;
        Ok(())
    };
    let life = Life::begin().await;
    crash_at(&now, life.call().run(async |lease| handle(lease, true).await)).await;
    let life = life.next().await;
    let unknown = life.call().run(async |lease| handle(lease, false).await).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(sent.borrow().len(), 2, "one charge, one mail");
    let life = life.next().await;
    let email = Key::new("pay", "evt-1").unwrap().effect("email").unwrap();
    assert_eq!(life.once.get_key(&email).await.unwrap().unwrap().status(), Status::Failed);
    life.once.resolve(&email, Resolution::did_not_happen(), "ann", "not in the outbox").await.unwrap();
    let life = life.next().await;
    life.call().run(async |lease| handle(lease, false).await).await.unwrap();
    assert_eq!(sent.borrow().len(), 3, "one charge, and the mail that was missing");
}

#[tokio::test]
async fn a_second_process_is_told_what_to_do() {
    let life = Life::begin().await;
    let error = Once::open(life.directory.path()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false));
}
