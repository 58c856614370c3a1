//! What is counted.

use crate::support::{Fault, HOUR, MINUTE, SECOND, World, crash, never, settle};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use semel::{Begin, HandlerError, OnBusy, OnLapse, Resolution};
use std::fmt::Write as _;

/// Everything that was counted, sorted, one per line; histograms show their values.
fn counted(snapshotter: &Snapshotter, prefix: &str) -> String {
    let mut lines: Vec<String> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter(|(key, ..)| key.key().name().starts_with(prefix))
        .map(|(key, _, _, value)| {
            let mut line = key.key().name().to_owned();
            for label in key.key().labels() {
                write!(line, " {}={}", label.key(), label.value()).unwrap();
            }
            match value {
                DebugValue::Counter(count) => write!(line, ": {count}").unwrap(),
                DebugValue::Gauge(value) => write!(line, ": {value}").unwrap(),
                DebugValue::Histogram(values) => {
                    let values: Vec<f64> = values.into_iter().map(f64::from).collect();
                    write!(line, ": {values:?}").unwrap();
                }
            }
            line
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

/// Runs a future with a recorder of its own, and gives what was counted.
pub(crate) fn count(prefix: &str, future: impl Future) -> String {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(future));
    counted(&snapshotter, prefix)
}

#[test]
fn every_answer_is_counted() {
    let counts = count("semel_calls_total", async {
        let world = World::new();
        let once = &world.once;
        let ok = async |call: semel::Call| drop(call.run(async |_| Ok(())).await);
        ok(once.call("pay", 1)).await;
        ok(once.call("pay", 1)).await;
        ok(once.call("pay", 1).payload(&1)).await;
        once.call("pay", 2).run(async |_| Err::<(), _>(HandlerError::from("busy"))).await.unwrap_err();
        ok(once.call("pay", 2)).await;
        once.call("pay", 3).run(async |_| Err::<(), _>(HandlerError::fatal("no"))).await.unwrap_err();
        ok(once.call("pay", 3)).await;
        crash(once.call("pay", 4).run(async |_| never::<Result<(), HandlerError>>().await));
        ok(once.call("pay", 4).on_busy(OnBusy::Reject)).await;
        world.lapse();
        ok(once.call("pay", 4)).await;
        let report = once.call("pay", 5).on_lapse(OnLapse::Report);
        crash(report.run(async |_| never::<Result<(), HandlerError>>().await));
        world.lapse();
        ok(once.call("pay", 5)).await;
        let holder = semel::Holder(7);
        crash(once.call("pay", 6).holder(holder).run(async |_| never::<Result<(), HandlerError>>().await));
        world.clock.advance(SECOND);
        ok(once.call("pay", 6).holder(holder)).await;
        world.store.always(Fault::Before);
        ok(once.call("pay", 7)).await;
        ok(once.call("pay", 7).fail_open()).await;
    });
    insta::assert_snapshot!(counts);
}

#[test]
fn every_end_is_counted() {
    let counts = count("semel_ended_total", async {
        let world = World::new();
        let once = &world.once;
        let lease = async |id: u32| match once.call("pay", id).begin().await.unwrap() {
            Begin::Run(lease) => lease,
            other => panic!("it should run: {other:?}"),
        };
        lease(1).await.complete(&()).await.unwrap();
        lease(2).await.fail("no").await.unwrap();
        lease(3).await.release("again").await.unwrap();
        lease(4).await.fail_unknown("?").await.unwrap();
        drop(lease(5).await);
        let late = lease(6).await;
        world.lapse();
        lease(6).await.complete(&()).await.unwrap();
        late.complete(&()).await.unwrap_err();
        let paused = lease(7).await;
        world.lapse();
        paused.hold(async {}).await.unwrap_err();
        drop(paused);
        let unconfirmed = lease(8).await;
        world.store.always(Fault::Before);
        world.clock.drive(unconfirmed.complete(&())).await.unwrap_err();
    });
    insta::assert_snapshot!(counts);
}

#[test]
fn durations_and_ages_are_recorded() {
    let counts = count("semel_", async {
        let world = World::new();
        let clock = world.clock.clone();
        let call = world.call();
        let worked = tokio::spawn(async move {
            let slept = async |_: &semel::Lease| {
                semel::Clock::sleep(&clock, SECOND * 3).await;
                Ok(())
            };
            call.run(slept).await
        });
        settle().await;
        let waiting = world.call().on_busy(OnBusy::Wait { max: MINUTE });
        let waited = tokio::spawn(async move { waiting.run(async |_| Ok(())).await });
        settle().await;
        world.clock.advance(SECOND * 3);
        settle().await;
        worked.await.unwrap().unwrap();
        waited.await.unwrap().unwrap();
        world.clock.advance(HOUR);
        world.call().run(async |_| Ok(())).await.unwrap();
    });
    let without_store: Vec<_> = counts.lines().filter(|it| !it.contains("store")).collect();
    insta::assert_snapshot!(without_store.join("\n"));
}

#[test]
fn trouble_with_the_store_is_counted() {
    let counts = count("semel_store_errors_total", async {
        let world = World::new();
        world.store.always(Fault::Before);
        world.call().run(async |_| Ok(())).await.unwrap_err();
        world.once.get("pay", 1).await.unwrap_err();
    });
    insta::assert_snapshot!(counts);
}

#[test]
fn what_operators_change_is_counted() {
    let counts = count("semel_operator_changes_total", async {
        let world = World::new();
        world.call().run(async |_| Err::<(), _>(HandlerError::unknown("?"))).await.unwrap_err();
        world.once.resolve(&world.key(), Resolution::happened(), "ann", "saw it").await.unwrap();
        world.once.forget(&world.key(), "ann", "again").await.unwrap();
    });
    insta::assert_snapshot!(counts);
}

#[test]
fn scopes_beyond_the_limit_share_a_label() {
    let counts = count("semel_calls_total", async {
        let world = World::new();
        for scope in 0..semel::observe::SCOPES_MAX + 50 {
            world.once.call(("scope", scope), 1).run(async |_| Ok(())).await.unwrap();
        }
    });
    assert_eq!(counts.lines().count(), semel::observe::SCOPES_MAX + 1);
    assert!(counts.contains("semel_calls_total scope=other answer=fresh: 50"), "{counts}");
}

/// Keeps the targets and messages of events, and the names of spans.
#[derive(Clone, Default)]
struct Seen(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl tracing::Subscriber for Seen {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("semel")
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        self.0.lock().unwrap().push(format!("span {}", span.metadata().name()));
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = format!("{} {}:", event.metadata().level(), event.metadata().target());
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            if field.name() != "fence" {
                write!(line, " {}={value:?}", field.name()).unwrap();
            }
        });
        self.0.lock().unwrap().push(line);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn what_a_person_should_know_is_traced() {
    let seen = Seen::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tracing::subscriber::with_default(seen.clone(), || {
        runtime.block_on(async {
            let world = World::new();
            world.call().run(async |_| Err::<(), _>(HandlerError::unknown("cut off"))).await.unwrap_err();
            world.call().run(async |_| Ok(())).await.unwrap_err();
            world.once.resolve(&world.key(), Resolution::happened(), "ann", "saw it").await.unwrap();
            world.call().run(async |_| Ok(())).await.unwrap();
            world.store.always(Fault::Before);
            world.once.get("pay", 1).await.unwrap_err();
        });
    });
    insta::assert_snapshot!(seen.0.lock().unwrap().join("\n"));
}
