//! The duplicate check passes handlers that are right, and finds what is wrong with the others.

use semel::{ErrorKind, HandlerError, OnLapse, Once, Provider};
use semel_testkit::{
    Probe,
    duplicate::{self, Report, Scenario},
};
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

type Done<T = ()> = Result<T, semel::Error>;

/// Whether an effect was repeated in a way of delivery of this kind.
fn repeats(report: &Report, effect: &str, kind: impl Fn(Scenario) -> bool) -> bool {
    report.repeated().iter().any(|it| it.effect == effect && kind(it.scenario))
}

fn is_together(scenario: Scenario) -> bool {
    matches!(scenario, Scenario::Together(_))
}

fn is_crash(scenario: Scenario) -> bool {
    matches!(scenario, Scenario::Crash(_) | Scenario::CrashTwice(_))
}

/// Charges a card with a key, and counts.
async fn keyed(once: Once, order: u32, probe: Probe) -> Done {
    once.call("pay", order)
        .run(async |lease| {
            for effect in ["charge", "receipt"] {
                let keyed = lease.effect(effect).keyed(Provider::STRIPE);
                keyed.run(async |key| Ok::<_, HandlerError>(probe.record_keyed(effect, key).await)).await?;
            }
            Ok(())
        })
        .await
}

#[tokio::test]
async fn keyed_effects_happen_exactly_once_in_every_way() {
    let report = duplicate::check(keyed, 7).await;
    report.assert_exactly_once();
    assert!(report.scenarios() > 40, "{} ways are not every way", report.scenarios());
}

#[tokio::test]
async fn an_effect_at_most_once_is_never_repeated_but_may_be_left_in_doubt() {
    let handler = async |once: Once, order: u32, probe: Probe| {
        let email = async || Ok::<_, HandlerError>(probe.record("email").await);
        once.call("greet", order)
            .run(async |lease| Ok(lease.effect("email").at_most_once().run(email).await?))
            .await
    };
    let report = duplicate::check(handler, 7).await;
    report.assert_once();
    assert!(
        report.lost().iter().all(|it| is_crash(it.scenario) || matches!(it.scenario, Scenario::Freeze(_))),
        "{report}"
    );
    assert!(!report.lost().is_empty(), "a crash between intent and e-mail leaves it in doubt");
}

#[tokio::test]
async fn an_effect_that_the_outside_can_be_asked_about_happens_exactly_once() {
    let handler = async |once: Once, order: u32, probe: Probe| {
        let query = async || Ok::<_, HandlerError>(Some(probe.count("transfer")).filter(|count| *count > 0));
        let transfer = async || Ok::<_, HandlerError>(probe.record("transfer").await);
        once.call("transfer", order)
            .run(async |lease| Ok(lease.effect("transfer").reconcile(query).run(transfer).await?))
            .await
    };
    duplicate::check(handler, 7).await.assert_exactly_once();
}

#[tokio::test]
async fn a_call_that_is_reported_when_it_lapses_is_never_repeated() {
    let handler = async |once: Once, order: u32, probe: Probe| {
        let call = once.call("email", order).on_lapse(OnLapse::Report);
        call.run(async |_| Ok(probe.record("email").await)).await
    };
    duplicate::check(handler, 7).await.assert_once();
}

#[tokio::test]
async fn a_table_of_processed_events_that_is_looked_at_first_repeats_on_concurrency_and_crash() {
    let make = || {
        let processed = Arc::new(Mutex::new(HashSet::new()));
        async move |_: Once, order: u32, probe: Probe| {
            if processed.lock().expect("nobody panics").contains(&order) {
                return;
            }
            probe.record("charge").await;
            processed.lock().expect("nobody panics").insert(order);
        }
    };
    let report = duplicate::check_each(make, 7).await;
    assert!(repeats(&report, "charge", is_together), "{report}");
    assert!(repeats(&report, "charge", is_crash), "{report}");
    assert!(!repeats(&report, "charge", |it| it == Scenario::Twice), "it does work when all goes well");
}

#[tokio::test]
async fn a_table_of_processed_events_that_is_written_first_loses_effects_on_a_crash() {
    let make = || {
        let processed = Arc::new(Mutex::new(HashSet::new()));
        async move |_: Once, order: u32, probe: Probe| {
            if processed.lock().expect("nobody panics").insert(order) {
                probe.record("charge").await;
            }
        }
    };
    let report = duplicate::check_each(make, 7).await;
    report.assert_once();
    assert!(report.lost().iter().any(|it| is_crash(it.scenario)), "{report}");
}

#[tokio::test]
async fn an_effect_outside_the_call_is_repeated_by_every_duplicate() {
    let handler = async |once: Once, order: u32, probe: Probe| {
        once.call("pay", order).run(async |_| Ok(())).await.ok();
        probe.record("email").await;
    };
    let report = duplicate::check(handler, 7).await;
    assert!(repeats(&report, "email", |it| it == Scenario::Twice), "{report}");
}

#[tokio::test]
async fn a_random_key_protects_from_nothing() {
    let nonce = AtomicU64::new(0);
    let handler = async |once: Once, _: u32, probe: Probe| -> Done<u32> {
        let id = nonce.fetch_add(1, Ordering::Relaxed);
        once.call("pay", id).run(async |_| Ok(probe.record("charge").await)).await
    };
    let report = duplicate::check(handler, 7).await;
    assert!(repeats(&report, "charge", |it| it == Scenario::Twice), "{report}");
}

#[tokio::test]
async fn a_handler_that_lets_its_effects_go_bare_repeats_them_after_a_crash() {
    let handler = async |once: Once, order: u32, probe: Probe| -> Done {
        once.call("pay", order)
            .run(async |_| {
                probe.record("charge").await;
                probe.record("email").await;
                Ok(())
            })
            .await
    };
    let report = duplicate::check(handler, 7).await;
    assert!(repeats(&report, "charge", is_crash), "{report}");
    let is_calm = |it| !is_crash(it) && !matches!(it, Scenario::Freeze(_));
    assert!(!repeats(&report, "charge", is_calm), "it holds while nobody dies or freezes: {report}");
}

#[tokio::test]
async fn a_retry_of_its_own_that_repeats_a_finished_effect_is_found() {
    let handler = async |once: Once, order: u32, probe: Probe| -> Done {
        let attempts = AtomicU64::new(0);
        loop {
            let attempt = attempts.fetch_add(1, Ordering::Relaxed);
            // The attempt is part of the key: every retry is another call.
            let result = once
                .call("pay", (order, attempt))
                .run(async |_| {
                    probe.record("charge").await;
                    if attempt == 0 { Err(HandlerError::from("the mail server is away")) } else { Ok(()) }
                })
                .await;
            match result {
                Err(error) if error.kind() == ErrorKind::Handler => {}
                result => return result,
            }
        }
    };
    let report = duplicate::check(handler, 7).await;
    assert!(repeats(&report, "charge", |it| it == Scenario::Alone), "{report}");
}

#[tokio::test]
async fn a_retention_that_is_shorter_than_redelivery_is_found() {
    let handler = async |once: Once, order: u32, probe: Probe| -> Done<u32> {
        let call = once.call("pay", order).retention(Duration::from_mins(10));
        call.run(async |_| Ok(probe.record("charge").await)).await
    };
    let report = duplicate::check(handler, 7).await;
    assert!(repeats(&report, "charge", |it| matches!(it, Scenario::Late(_))), "{report}");
}

#[tokio::test]
#[should_panic(expected = "recorded no effect")]
async fn a_handler_without_effects_is_not_said_to_be_right() {
    let handler = async |once: Once, order: u32, _: Probe| -> Done {
        once.call("pay", order).run(async |_| Ok(())).await
    };
    duplicate::check(handler, 7).await.assert_once();
}

#[tokio::test]
async fn the_report_says_what_happened_how_often_and_how() {
    let handler = async |once: Once, order: u32, probe: Probe| {
        once.call("pay", order).run(async |_| Ok(())).await.ok();
        probe.record("email").await;
    };
    let text = duplicate::check(handler, 7).await.to_string();
    let line = "`email` happened 2 times: delivered twice, one after the other";
    assert!(text.contains(line), "{text}");
}
