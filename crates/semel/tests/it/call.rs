//! Every row of the table of questions that concerns one call.

use crate::support::{DAY, Fault, MINUTE, SECOND, World, crash, never, settle};
use semel::{
    Begin, Classify, ErrorKind, Fingerprint, HandlerError, Holder, How, OnBusy, OnLapse, Reason, Status,
};
use std::{cell::Cell, fmt};

#[tokio::test]
async fn a_completed_call_is_replayed_and_not_run() {
    let world = World::new();
    let runs = Cell::new(0);
    for _ in 0..3 {
        let result: u32 = world.call().run(async |_| Ok(runs.replace(runs.get() + 1) + 7)).await.unwrap();
        assert_eq!(result, 7);
    }
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn a_fatal_error_is_kept_and_replayed_as_a_replay() {
    let world = World::new();
    let first =
        world.call().run(async |_| Err::<(), _>(HandlerError::fatal("no such card"))).await.unwrap_err();
    assert_eq!((first.kind(), first.is_transient()), (ErrorKind::Handler, false));
    let again = world.call().run(async |_| Ok(())).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::FailedBefore { reason: Reason::Fatal });
    assert_eq!(again.detail(), Some("no such card"));
}

#[tokio::test]
async fn a_plain_error_is_retryable_and_keeps_the_attempts() {
    let world = World::new();
    let error = world.call().run(async |_| Ok("x".parse::<u32>()?)).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Handler, true));
    assert!(error.find::<std::num::ParseIntError>().is_some());
    let snapshot = world.once.get("pay", "evt-1").await.unwrap().unwrap();
    assert_eq!((snapshot.status(), snapshot.attempts()), (Status::Pending, 1));
    assert_eq!(snapshot.error(), Some("invalid digit found in string"));
    let outcome = world.call().run_outcome(async |lease| Ok(lease.attempt())).await.unwrap();
    assert_eq!((outcome.value, outcome.how), (2, How::Retried));
}

#[tokio::test]
async fn a_result_says_what_its_error_means() {
    let world = World::new();
    let error = world.call().run(async |_| Ok("x".parse::<u32>().fatal()?)).await.unwrap_err();
    assert!(!error.is_transient());
    let call = world.once.call("pay", "evt-2").is_fatal(|_| true);
    let error = call.run(async |_| Ok("x".parse::<u32>().retryable()?)).await.unwrap_err();
    assert!(error.is_transient(), "what the handler says itself goes first");
}

#[derive(Debug)]
struct CardDeclined;
impl fmt::Display for CardDeclined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("card declined")
    }
}
impl std::error::Error for CardDeclined {}

#[tokio::test]
async fn a_closure_tells_which_plain_errors_are_fatal() {
    let world = World::new();
    let call = || world.call().is_fatal(<dyn std::error::Error>::is::<CardDeclined>);
    let error = call().run(async |_| Ok("x".parse::<u32>()?)).await.unwrap_err();
    assert!(error.is_transient());
    let error = call().run(async |_| Err::<u32, _>(HandlerError::from(CardDeclined))).await.unwrap_err();
    assert!(!error.is_transient());
    let error = call().run(async |_| Ok(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedBefore { reason: Reason::Fatal });
}

#[tokio::test]
async fn a_handler_that_cannot_tell_leaves_the_call_in_doubt() {
    let world = World::new();
    let error = world.call().run(async |_| Err::<(), _>(HandlerError::unknown("cut off"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    world.clock.advance(DAY * 30);
    let again = world.call().run(async |_| Ok(())).await.unwrap_err();
    assert_eq!((again.kind(), again.detail()), (ErrorKind::OutcomeUnknown, Some("cut off")));
}

#[tokio::test]
async fn another_payload_is_a_mismatch_in_every_status() {
    let world = World::new();
    let with = |amount: u32| world.call().on_busy(OnBusy::Reject).payload(&amount);
    let mismatch = async || {
        let error = with(2).run(async |_| Ok(())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
    };
    let Begin::Run(lease) = with(1).begin().await.unwrap() else { panic!("it is fresh") };
    mismatch().await;
    lease.release("again").await.unwrap();
    mismatch().await;
    with(1).run(async |_| Ok(())).await.unwrap();
    mismatch().await;
    let other = world.once.call("pay", "evt-2").payload(&1);
    other.run(async |_| Err::<(), _>(HandlerError::fatal("no"))).await.unwrap_err();
    let error = world.once.call("pay", "evt-2").payload(&2).run(async |_| Ok(())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert_eq!(error.detail(), None, "nothing of the first call is revealed");
}

#[tokio::test]
async fn payloads_are_compared_by_what_they_say() {
    let world = World::new();
    world.call().payload_json(br#"{"a": 1, "b": 2}"#).run(async |_| Ok(())).await.unwrap();
    world.call().payload_json(br#"{"b":2,"a":1}"#).run(async |_| Ok(())).await.unwrap();
    let bytes = world.call().payload_bytes(br#"{"b":2,"a":1}"#).run(async |_| Ok(())).await.unwrap_err();
    assert_eq!(bytes.kind(), ErrorKind::Mismatch);
    let fingerprint = Fingerprint::of_json(br#"{"b":2,"a":1}"#).unwrap();
    world.call().fingerprint(fingerprint).run(async |_| Ok(())).await.unwrap();
}

#[tokio::test]
async fn a_bad_key_or_payload_is_reported_and_nothing_runs() {
    let world = World::new();
    let run = async |call: semel::Call| {
        call.run(async |_| -> Result<(), _> { panic!("it ran") }).await.unwrap_err()
    };
    let none = None::<&str>;
    assert_eq!(run(world.once.call("pay", none)).await.kind(), ErrorKind::KeyRequired);
    assert_eq!(run(world.once.call("pay", (none, none))).await.kind(), ErrorKind::KeyRequired);
    assert_eq!(run(world.once.call("pay", " ")).await.kind(), ErrorKind::KeyRequired);
    assert_eq!(run(world.once.call("", "evt-1")).await.kind(), ErrorKind::KeyRequired);
    assert_eq!(run(world.once.call("pay", "a\nb")).await.kind(), ErrorKind::InvalidKey);
    assert_eq!(run(world.once.call("pay", "x".repeat(5_000))).await.kind(), ErrorKind::InvalidKey);
    assert_eq!(run(world.call().payload_json(b"{")).await.kind(), ErrorKind::InvalidPayload);
    let unserialisable = std::collections::HashMap::from([(vec![1_u8], 1)]);
    assert_eq!(run(world.call().payload(&unserialisable)).await.kind(), ErrorKind::InvalidPayload);
    assert!(world.store.swaps.lock().unwrap().is_empty(), "the store was not touched");
}

#[tokio::test]
async fn an_expired_record_counts_as_absent_and_the_fence_grows() {
    let world = World::new();
    let first = world.call().run_outcome(async |_| Ok(1)).await.unwrap();
    world.clock.advance(DAY * 7);
    assert!(world.once.get("pay", "evt-1").await.unwrap().is_none());
    let second = world.call().run_outcome(async |_| Ok(2)).await.unwrap();
    assert_eq!((second.value, second.how, second.attempt), (2, How::Fresh, 1));
    assert!(second.fence > first.fence);
}

#[tokio::test]
async fn an_unfinished_call_never_expires() {
    let world = World::new();
    crash(world.call().run(async |_| never::<Result<(), HandlerError>>().await));
    world.clock.advance(DAY * 365);
    let outcome = world.call().run_outcome(async |_| Ok(())).await.unwrap();
    assert_eq!((outcome.how, outcome.attempt), (How::TakenOver, 2));
}

#[tokio::test]
async fn a_dropped_future_is_a_crash_and_the_lease_lapses() {
    let world = World::new();
    crash(world.call().run(async |_| never::<Result<(), HandlerError>>().await));
    let busy = world.call().on_busy(OnBusy::Reject).run(async |_| Ok(())).await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::InProgress { until: world.now() + MINUTE });
    world.lapse();
    let outcome = world.call().run_outcome(async |_| Ok(5)).await.unwrap();
    assert_eq!((outcome.value, outcome.how, outcome.attempt), (5, How::TakenOver, 2));
}

#[tokio::test]
async fn a_panic_is_a_crash_and_the_lease_lapses() {
    let world = World::new();
    let call = world.call();
    let panicked = tokio::spawn(async move { call.run(async |_| -> Result<(), _> { panic!("boom") }).await });
    assert!(panicked.await.unwrap_err().is_panic());
    let snapshot = world.once.get("pay", "evt-1").await.unwrap().unwrap();
    assert_eq!(snapshot.status(), Status::InProgress);
    world.lapse();
    assert_eq!(world.call().run_outcome(async |_| Ok(())).await.unwrap().how, How::TakenOver);
}

#[tokio::test]
async fn a_call_that_asked_for_it_is_reported_when_it_lapses() {
    let world = World::new();
    let call = world.call().on_lapse(OnLapse::Report);
    crash(call.run(async |_| never::<Result<(), HandlerError>>().await));
    world.lapse();
    for _ in 0..2 {
        let error = world.call().run(async |_| Ok(())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    }
}

#[tokio::test]
async fn a_late_holder_is_accepted_if_nobody_took_over() {
    let world = World::new();
    let Begin::Run(lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    world.clock.advance(MINUTE * 5);
    lease.complete(&1).await.unwrap();
    assert_eq!(world.call().run(async |_| Ok(2)).await.unwrap(), 1);
}

#[tokio::test]
async fn a_late_holder_is_superseded_if_somebody_did() {
    let world = World::new();
    let begin = async || match world.call().begin().await.unwrap() {
        Begin::Run(lease) => lease,
        other => panic!("it should run: {other:?}"),
    };
    for finish in 0..3 {
        let world = World::new();
        let Begin::Run(late) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
        let token = late.cancellation();
        world.lapse();
        let Begin::Run(next) = world.call().begin().await.unwrap() else { panic!("it lapsed") };
        assert!(next.fence() > late.fence());
        let told = match finish {
            0 => late.complete(&1).await,
            1 => late.fail("no").await,
            _ => late.release("again").await,
        };
        assert_eq!(told.unwrap_err().kind(), ErrorKind::Superseded);
        assert!(token.is_cancelled());
        next.complete(&2).await.unwrap();
        assert_eq!(world.call().run(async |_| Ok(3)).await.unwrap(), 2);
    }
    drop(begin().await);
}

#[tokio::test]
async fn a_call_is_refused_when_the_store_cannot_be_reached() {
    let world = World::new();
    world.store.always(Fault::Before);
    let error = world.call().run(async |_| -> Result<(), _> { panic!("it ran") }).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, true));
}

#[tokio::test]
async fn a_call_that_fails_open_runs_unprotected() {
    let world = World::new();
    world.store.always(Fault::Before);
    let outcome = world.call().fail_open().run_outcome(async |lease| Ok(lease.is_protected())).await.unwrap();
    assert_eq!((outcome.value, outcome.how, outcome.fence.get()), (false, How::Unprotected, 1));
    world.store.always(Fault::None);
    assert!(world.once.get("pay", "evt-1").await.unwrap().is_none());
    assert_eq!(world.call().fail_open().run_outcome(async |_| Ok(())).await.unwrap().how, How::Fresh);
}

#[tokio::test]
async fn a_store_that_never_answers_is_given_up_after_a_third_of_the_lease() {
    let world = World::new();
    world.store.always(Fault::Hang);
    let call = world.call();
    let task = tokio::spawn(async move { call.run(async |_| Ok(())).await });
    settle().await;
    world.clock.advance(SECOND * 19);
    settle().await;
    assert!(!task.is_finished());
    world.clock.advance(SECOND);
    settle().await;
    assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Store);
}

#[tokio::test]
async fn keys_of_other_callers_are_other_keys() {
    let world = World::new();
    let scope = |caller: &'static str| ("pay", caller);
    let run =
        async |caller, value: u32| world.once.call(scope(caller), "key-1").run(async |_| Ok(value)).await;
    assert_eq!(run("ann", 1).await.unwrap(), 1);
    assert_eq!(run("bob", 2).await.unwrap(), 2);
}

#[tokio::test]
async fn the_same_execution_re_enters_and_another_is_a_duplicate() {
    let world = World::new();
    let call = |holder| world.call().on_busy(OnBusy::Reject).holder(Holder(holder));
    crash(call(1).run(async |_| never::<Result<(), HandlerError>>().await));
    world.clock.advance(SECOND);
    let busy = call(2).run(async |_| Ok(())).await.unwrap_err();
    assert!(matches!(busy.kind(), ErrorKind::InProgress { .. }));
    let outcome = call(1).run_outcome(async |lease| Ok(lease.attempt())).await.unwrap();
    assert_eq!((outcome.value, outcome.how), (1, How::Reentered));
}

#[tokio::test]
async fn an_error_of_another_call_is_an_error_like_any_other() {
    let world = World::new();
    let inner = || world.once.call("inner", 1);
    inner().run(async |_| Err::<(), _>(HandlerError::unknown("cut off"))).await.unwrap_err();
    let error = world.call().run(async |_| Ok(inner().run(async |_| Ok(())).await?)).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Handler, true));
    assert_eq!(world.once.get("pay", "evt-1").await.unwrap().unwrap().status(), Status::Pending);
}

#[tokio::test]
async fn purging_frees_the_space_of_expired_records_and_no_other() {
    let world = World::new();
    world.call().run(async |_| Ok(())).await.unwrap();
    world.clock.advance(DAY * 3);
    world.once.call("pay", "evt-2").run(async |_| Ok(())).await.unwrap();
    crash(world.once.call("pay", "evt-3").run(async |_| never::<Result<(), HandlerError>>().await));
    world.clock.advance(DAY * 4);
    assert_eq!(world.once.purge(10).await.unwrap(), 1);
    assert_eq!(world.once.purge(10).await.unwrap(), 0);
}

impl World {
    fn now(&self) -> semel::Timestamp {
        semel::Clock::now(&self.clock)
    }
}
