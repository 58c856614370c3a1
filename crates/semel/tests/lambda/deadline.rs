//! The lease of an invocation: as long as it lasts, and not renewed.

use crate::support::{Count, World, context, error_type, invoke_with, settle, world};
use lambda_runtime::LambdaEvent;
use semel::{
    HandlerError, Key, State, Store,
    lambda::{self, Events, Function, MARGIN, Pick},
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

const SECOND: Duration = Duration::from_secs(1);
/// What a computer may need between the making of a context and its use.
const JITTER: Duration = Duration::from_millis(900);

/// A function that works until it is told to stop, and the first time dispatches an effect then.
struct Slow {
    function: Function<'static, Events>,
    gate: Arc<Notify>,
    runs: Count,
}

fn slow(world: &World) -> Slow {
    let (gate, runs) = (Arc::new(Notify::new()), Count::default());
    let handler = {
        let (gate, runs) = (gate.clone(), runs.clone());
        move |_: LambdaEvent<Value>, lease: semel::service::LentLease| {
            let (gate, runs) = (gate.clone(), runs.clone());
            async move {
                runs.add();
                gate.notified().await;
                let effect = lease.effect("charge").at_most_once();
                effect.run(async || Ok::<_, HandlerError>(lease.attempt())).await.map_err(HandlerError::from)
            }
        }
    };
    Slow { function: lambda::events(world.once.clone(), Pick::event_id()).handler(handler), gate, runs }
}

impl Slow {
    async fn invoke(&self, timeout: Duration) -> Result<String, lambda_runtime::Diagnostic> {
        invoke_with(&self.function, r#"{"id": 7}"#, context("orders", timeout)).await
    }

    /// An invocation on its way.
    fn start(
        &self,
        timeout: Duration,
    ) -> tokio::task::JoinHandle<Result<String, lambda_runtime::Diagnostic>> {
        let (function, context) = (self.function.clone(), context("orders", timeout));
        tokio::spawn(async move { invoke_with(&function, r#"{"id": 7}"#, context).await })
    }
}

#[tokio::test]
async fn a_function_that_timed_out_is_taken_over_right_after_its_deadline() {
    for timeout in [SECOND * 3, Duration::from_mins(5), Duration::from_mins(15)] {
        let world = world();
        let slow = slow(&world);
        let killed = slow.start(timeout);
        settle().await;
        assert_eq!(slow.runs.get(), 1);
        // The platform ends the process: the work is gone, and nothing is written.
        killed.abort();
        assert!(killed.await.unwrap_err().is_cancelled());

        world.clock.advance(timeout.checked_sub(JITTER).unwrap());
        assert_eq!(
            error_type(slow.invoke(timeout).await),
            "Semel.InProgress",
            "it may still run: {timeout:?}"
        );
        world.clock.advance(JITTER + MARGIN);
        slow.gate.notify_one();
        assert_eq!(slow.invoke(timeout).await.unwrap(), "2", "the second attempt takes over: {timeout:?}");
    }
}

#[tokio::test]
async fn the_handler_may_use_its_time_to_the_end_and_nothing_is_renewed() {
    let world = world();
    let slow = slow(&world);
    let running = slow.start(SECOND * 100);
    settle().await;
    let until = lease_until(&world).await;
    for _ in 0..99 {
        world.clock.advance(SECOND);
        settle().await;
    }
    assert_eq!(lease_until(&world).await, until, "a renewal would keep the next attempt away");
    assert_eq!(world.store.swaps.get(), 1, "the claim, and nothing since");
    slow.gate.notify_one();
    assert_eq!(running.await.unwrap().unwrap(), "1", "an effect in the last second is one");
}

#[tokio::test]
async fn a_handler_that_nobody_ended_is_stopped_when_its_lease_ends() {
    let world = world();
    let slow = slow(&world);
    let running = slow.start(SECOND * 10);
    settle().await;
    world.clock.advance(SECOND * 10 + MARGIN);
    settle().await;
    assert_eq!(error_type(running.await.unwrap()), "Semel.Lapsed");
    slow.gate.notify_one();
    assert_eq!(slow.invoke(SECOND * 10).await.unwrap(), "2");
}

#[tokio::test]
async fn a_duplicate_waits_no_longer_than_its_invocation_lasts() {
    let world = world();
    let slow = slow(&world);
    let running = slow.start(SECOND * 100);
    settle().await;
    let patient = {
        let on_busy = semel::OnBusy::Wait { max: Duration::from_hours(1) };
        lambda::events(world.once.clone(), Pick::event_id())
            .on_busy(on_busy)
            .handler(async |_: LambdaEvent<Value>, _| Ok(()))
    };
    let waiting =
        tokio::spawn(
            async move { invoke_with(&patient, r#"{"id": 7}"#, context("orders", SECOND * 10)).await },
        );
    settle().await;
    for _ in 0..44 {
        world.clock.advance(SECOND / 4);
        settle().await;
    }
    assert_eq!(error_type(waiting.await.unwrap()), "Semel.InProgress");
    running.abort();
}

#[tokio::test]
async fn without_a_deadline_the_lease_is_renewed_as_everywhere() {
    let world = world();
    let slow = slow(&world);
    let mut untimed = context("orders", SECOND);
    untimed.deadline = 0;
    let function = slow.function.clone();
    let running = tokio::spawn(async move { invoke_with(&function, r#"{"id": 7}"#, untimed).await });
    settle().await;
    let until = lease_until(&world).await;
    world.clock.advance(SECOND * 21);
    settle().await;
    assert!(lease_until(&world).await > until);
    slow.gate.notify_one();
    assert_eq!(running.await.unwrap().unwrap(), "1");
}

async fn lease_until(world: &World) -> semel::Timestamp {
    let key = Key::new(("lambda", "orders"), 7).unwrap();
    match world.store.load(&key).await.unwrap().unwrap().record.state {
        State::InProgress { lease_until, .. } => lease_until,
        other => panic!("it runs: {other:?}"),
    }
}
