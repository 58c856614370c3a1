//! The tower layer: what is called, when, and what its callers get.

use semel::{
    ErrorKind, HandlerError, MemoryStore, OnBusy, Once,
    service::{IdempotentLayer, Leased, ServiceError},
};
use semel_testkit::ManualClock;
use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tower::{Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, service_fn};

/// Counts its calls and answers with the count; panics when it is called without having been polled ready.
#[derive(Default)]
struct Strict {
    calls: Arc<AtomicU32>,
    is_ready: bool,
}

/// A clone is never ready, however ready the original was.
impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { calls: Arc::clone(&self.calls), is_ready: false }
    }
}

impl Service<u32> for Strict {
    type Response = u32;
    type Error = Infallible;
    type Future = Ready<Result<u32, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: u32) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called without having been polled ready");
        ready(Ok(self.calls.fetch_add(1, Ordering::SeqCst)))
    }
}

/// A clock by hand, and a `Once` on it that does not wait.
fn world() -> (ManualClock, Once) {
    let clock = ManualClock::new();
    let once = Once::builder().on_busy(OnBusy::Reject).store(MemoryStore::with_clock(clock.arc()));
    (clock, once)
}

fn kind<T: std::fmt::Debug, E: std::fmt::Debug>(result: Result<T, ServiceError<E>>) -> ErrorKind {
    match result {
        Err(ServiceError::Semel(error)) => error.kind(),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn the_service_that_was_polled_ready_is_the_one_that_is_called() {
    let (_, once) = world();
    let strict = Strict::default();
    let mut service = ServiceBuilder::new()
        .layer(IdempotentLayer::new(once, "strict").key(|id: &u32| *id))
        .service(strict.clone());
    for id in [1, 2, 1, 3, 2] {
        service.ready().await.expect("it is always ready").call(id).await.expect("it never fails");
    }
    let mut clone = service.clone();
    clone.ready().await.expect("it is always ready").call(4).await.expect("it never fails");
    assert_eq!(strict.calls.load(Ordering::SeqCst), 4, "four requests, and two duplicates");
}

#[tokio::test]
async fn a_duplicate_gets_the_first_response() {
    let (_, once) = world();
    let service = ServiceBuilder::new()
        .layer(IdempotentLayer::new(once, "count").key(|id: &u32| *id))
        .service(Strict::default());
    let mut answers = Vec::new();
    for id in [7, 7, 8, 7] {
        answers.push(service.clone().oneshot(id).await.expect("it never fails"));
    }
    assert_eq!(answers, [0, 0, 1, 0]);
}

#[tokio::test]
async fn backpressure_is_passed_through_and_a_replay_gives_its_slot_back() {
    let (_, once) = world();
    let layer = IdempotentLayer::new(once, "limited").key(|id: &u32| *id);
    let hang = service_fn(async |id: u32| match id {
        0 => std::future::pending().await,
        id => Ok::<_, Infallible>(id),
    });
    let mut service = ServiceBuilder::new().layer(layer).layer(ConcurrencyLimitLayer::new(1)).service(hang);
    for _ in 0..3 {
        // A replay that kept its slot would leave none for the next.
        service.ready().await.expect("a slot is free").call(1).await.expect("it answers");
    }
    let mut hanging = service.ready().await.expect("a slot is free").call(0);
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(hanging.as_mut().poll(&mut context).is_pending());
    assert!(service.poll_ready(&mut context).is_pending(), "the only slot is taken");
    drop(hanging);
    assert!(service.poll_ready(&mut context).is_ready(), "the slot came back");
}

#[tokio::test]
async fn a_missing_key_is_refused_unless_running_unprotected_was_asked_for() {
    let (_, once) = world();
    let layer = || IdempotentLayer::new(once.clone(), "optional").key(|id: &Option<String>| id.clone());
    let calls = Arc::new(AtomicU32::new(0));
    let counting = || {
        let calls = Arc::clone(&calls);
        service_fn(move |_: Option<String>| ready(Ok::<_, Infallible>(calls.fetch_add(1, Ordering::SeqCst))))
    };
    let strict = ServiceBuilder::new().layer(layer()).service(counting());
    for missing in [None, Some(String::new()), Some("  ".to_owned())] {
        assert_eq!(kind(strict.clone().oneshot(missing).await), ErrorKind::KeyRequired);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0, "nothing ran");
    let lax = ServiceBuilder::new().layer(layer().run_unprotected_without_key()).service(counting());
    lax.clone().oneshot(None).await.expect("it runs");
    lax.clone().oneshot(None).await.expect("it runs again");
    assert_eq!(calls.load(Ordering::SeqCst), 2, "a duplicate without a key is not known as one");
    assert_eq!(kind(lax.oneshot(Some("line\nbreak".to_owned())).await), ErrorKind::InvalidKey);
}

#[tokio::test]
async fn another_payload_under_the_same_key_is_a_mismatch_and_nothing_runs() {
    let (_, once) = world();
    let strict = Strict::default();
    let inner = ServiceBuilder::new().map_request(|(_, amount): (u32, u32)| amount).service(strict.clone());
    let layer = IdempotentLayer::new(once, "pay").key(|(id, _): &(u32, u32)| *id).payload();
    let service = ServiceBuilder::new().layer(layer).service(inner);
    service.clone().oneshot((1, 10)).await.expect("it is fresh");
    service.clone().oneshot((1, 10)).await.expect("it is replayed");
    assert_eq!(kind(service.clone().oneshot((1, 11)).await), ErrorKind::Mismatch);
    assert_eq!(strict.calls.load(Ordering::SeqCst), 1);
}

/// What the inner service of the next tests says.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Refused {
    TryLater,
    NeverAgain,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the bank says {self:?}")
    }
}

#[tokio::test]
async fn a_plain_error_is_handed_on_as_it_is_and_the_next_request_runs_again() {
    let (_, once) = world();
    let calls = Arc::new(AtomicU32::new(0));
    let bank = {
        let calls = Arc::clone(&calls);
        move |_: u32| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => ready(Err(Refused::TryLater)),
            attempt => ready(Ok(attempt)),
        }
    };
    let service = ServiceBuilder::new()
        .layer(IdempotentLayer::new(once, "pay").key(|id: &u32| *id))
        .service(service_fn(bank));
    let error = service.clone().oneshot(1).await.expect_err("the first attempt fails");
    assert_eq!(error.inner(), Some(&Refused::TryLater));
    assert_eq!(service.clone().oneshot(1).await.expect("the second does not"), 1);
    assert_eq!(service.clone().oneshot(1).await.expect("it is replayed"), 1);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_fatal_error_is_kept_and_duplicates_are_told_so() {
    let (_, once) = world();
    let calls = Arc::new(AtomicU32::new(0));
    let bank = {
        let calls = Arc::clone(&calls);
        move |_: u32| {
            calls.fetch_add(1, Ordering::SeqCst);
            ready(Err::<(), _>(Refused::NeverAgain))
        }
    };
    let layer = IdempotentLayer::new(once, "pay").key(|id: &u32| *id);
    let layer = layer.is_fatal(|error: &Refused| *error == Refused::NeverAgain);
    let service = ServiceBuilder::new().layer(layer).service(service_fn(bank));
    let error = service.clone().oneshot(1).await.expect_err("it fails");
    assert_eq!(error.inner(), Some(&Refused::NeverAgain));
    let error = service.clone().oneshot(1).await.expect_err("it had failed");
    let error = error.semel().expect("the service was not called");
    assert!(matches!(error.kind(), ErrorKind::FailedBefore { .. }), "{error}");
    assert_eq!(error.detail(), Some("the bank says NeverAgain"));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_handlers_own_word_goes_before_the_layers() {
    let (_, once) = world();
    let layer = IdempotentLayer::new(once, "pay").key(|id: &u32| *id).is_fatal(|_: &HandlerError| true);
    let service = ServiceBuilder::new().layer(layer).service(service_fn(|id: u32| {
        ready(Err::<(), _>(match id {
            1 => HandlerError::retryable("try later"),
            2 => HandlerError::unknown("the line broke"),
            _ => HandlerError::from("plain"),
        }))
    }));
    let second = async |id: u32| {
        service.clone().oneshot(id).await.expect_err("it fails");
        service.clone().oneshot(id).await.expect_err("it fails again")
    };
    assert!(second(1).await.inner().is_some(), "a retryable error lets the next one run");
    assert_eq!(kind(Err::<(), _>(second(2).await)), ErrorKind::OutcomeUnknown);
    assert!(matches!(kind(Err::<(), _>(second(3).await)), ErrorKind::FailedBefore { .. }));
}

#[tokio::test]
async fn a_dropped_response_is_a_crash_and_the_next_request_takes_over_when_the_lease_has_lapsed() {
    let (clock, once) = world();
    let calls = Arc::new(AtomicU32::new(0));
    let first_hangs = {
        let calls = Arc::clone(&calls);
        move |_: u32| {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            async move {
                if call == 0 {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(call)
            }
        }
    };
    let service = ServiceBuilder::new()
        .layer(IdempotentLayer::new(once, "pay").key(|id: &u32| *id))
        .service(service_fn(first_hangs));
    let mut crashing = Box::pin(service.clone().oneshot(1));
    assert!(crashing.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
    drop(crashing);
    let refused = kind(service.clone().oneshot(1).await);
    assert!(matches!(refused, ErrorKind::InProgress { .. }), "its lease stands: {refused:?}");
    clock.advance(Duration::from_mins(2));
    assert_eq!(service.clone().oneshot(1).await.expect("it takes over"), 1);
}

#[tokio::test]
async fn the_service_can_have_its_lease_and_the_call_is_over_when_it_gave_it_back() {
    let (_, once) = world();
    let layer = IdempotentLayer::new(once, "pay").key(|id: &u32| *id).with_lease();
    let service = ServiceBuilder::new().layer(layer).service(service_fn(async |leased: Leased<u32>| {
        let (attempt, lease) = (leased.lease.attempt(), leased.lease);
        let elsewhere = tokio::spawn(async move {
            tokio::task::yield_now().await;
            assert!(!lease.is_cancelled(), "the call is open while somebody works under it");
        });
        drop(elsewhere);
        Ok::<_, Infallible>((leased.request, attempt))
    }));
    for _ in 0..2 {
        assert_eq!(service.clone().oneshot(5).await.expect("it answers"), (5, 1));
    }
}

#[tokio::test]
async fn duplicates_at_the_same_moment_share_one_call() {
    let clock = ManualClock::new();
    let once = Once::new(MemoryStore::with_clock(clock.arc()));
    let calls = Arc::new(AtomicU32::new(0));
    let slow = {
        let calls = Arc::clone(&calls);
        move |_: u32| {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(call)
            }
        }
    };
    let service = ServiceBuilder::new()
        .layer(IdempotentLayer::new(once, "pay").key(|id: &u32| *id))
        .service(service_fn(slow));
    let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(service.clone().oneshot(1))).collect();
    for task in tasks {
        assert_eq!(clock.drive(task).await.expect("no task panics").expect("it answers"), 0);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
