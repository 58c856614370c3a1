//! Every class of effects, finished, failed, and interrupted between its intent and its outcome.

use crate::support::{DAY, Fault, HOUR, MINUTE, SECOND, World, crash, never, settle};
use semel::{Begin, Classify, Error, ErrorKind, HandlerError, Lease, Provider, Reason, Record, Status};
use std::cell::RefCell;

/// The outside world: what was done to it, and with which keys.
#[derive(Default)]
struct Outside {
    done: RefCell<Vec<String>>,
}

impl Outside {
    async fn act(&self, what: &str) -> Result<u32, std::io::Error> {
        self.done.borrow_mut().push(what.to_owned());
        Ok(self.done.borrow().len() as u32)
    }

    /// Acts, and does not come back.
    async fn act_and_hang(&self, what: &str) -> Result<u32, std::io::Error> {
        self.act(what).await?;
        never().await
    }

    fn times(&self) -> usize {
        self.done.borrow().len()
    }
}

/// A class of effects, by name.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Class {
    Keyed,
    Reconcile,
    AtMostOnce,
    AtLeastOnce,
}

const CLASSES: [Class; 4] = [Class::Keyed, Class::Reconcile, Class::AtMostOnce, Class::AtLeastOnce];

/// Runs one effect of this class; `known` is what the outside world says when it is asked.
async fn effect<W>(lease: &Lease, class: Class, known: Option<u32>, work: W) -> Result<u32, Error>
where
    W: AsyncFnOnce(String) -> Result<u32, HandlerError>,
{
    let effect = lease.effect("charge");
    match class {
        Class::Keyed => effect.keyed(Provider::STRIPE).run(async |key| work(key.to_string()).await).await,
        Class::Reconcile => {
            let query = async || Ok::<_, HandlerError>(known);
            effect.reconcile(query).run(async || work(String::new()).await).await
        }
        Class::AtMostOnce => effect.at_most_once().run(async || work(String::new()).await).await,
        Class::AtLeastOnce => effect.at_least_once().run(async || work(String::new()).await).await,
    }
}

/// Crashes between the effect's dispatch and its outcome, and lets the lease lapse.
fn interrupted(world: &World, outside: &Outside, class: Class) {
    crash(world.call().run(async |lease| {
        Ok(effect(lease, class, None, async |key| Ok(outside.act_and_hang(&key).await?)).await?)
    }));
    world.lapse();
}

/// Runs the call again; the effect's result is the call's.
async fn again(world: &World, outside: &Outside, class: Class, known: Option<u32>) -> Result<u32, Error> {
    let call = world.call();
    call.run(async |lease| Ok(effect(lease, class, known, async |key| Ok(outside.act(&key).await?)).await?))
        .await
}

#[tokio::test]
async fn a_finished_effect_is_not_repeated_by_a_retry() {
    for class in CLASSES {
        let (world, outside) = (World::new(), Outside::default());
        let first = world
            .call()
            .run(async |lease| {
                effect(lease, class, None, async |key| Ok(outside.act(&key).await?)).await?;
                Err::<u32, _>(HandlerError::from("the step after it failed"))
            })
            .await;
        assert!(first.unwrap_err().is_transient());
        assert_eq!(again(&world, &outside, class, None).await.unwrap(), 1, "{class:?}");
        assert_eq!(outside.times(), 1, "{class:?} was repeated");
    }
}

#[tokio::test]
async fn a_finished_effect_is_not_repeated_after_a_crash() {
    for class in CLASSES {
        let (world, outside) = (World::new(), Outside::default());
        crash(world.call().run(async |lease| {
            effect(lease, class, None, async |key| Ok(outside.act(&key).await?)).await?;
            never::<Result<u32, HandlerError>>().await
        }));
        world.lapse();
        assert_eq!(again(&world, &outside, class, None).await.unwrap(), 1, "{class:?}");
        assert_eq!(outside.times(), 1, "{class:?} was repeated");
    }
}

#[tokio::test]
async fn an_interrupted_keyed_effect_is_sent_again_with_the_same_key() {
    let (world, outside) = (World::new(), Outside::default());
    interrupted(&world, &outside, Class::Keyed);
    again(&world, &outside, Class::Keyed, None).await.unwrap();
    let done = outside.done.borrow();
    assert_eq!(done.len(), 2);
    assert_eq!(done[0], done[1], "the provider would take these for two requests");
    assert_eq!(done[0].len(), 64);
}

#[tokio::test]
async fn a_keyed_effect_is_not_sent_again_when_the_provider_has_forgotten_its_key() {
    let (world, outside) = (World::new(), Outside::default());
    interrupted(&world, &outside, Class::Keyed);
    world.clock.advance(DAY - MINUTE - SECOND);
    interrupted(&world, &outside, Class::Keyed);
    assert_eq!(outside.times(), 2, "just before the 24 hours are over it may be sent");
    let error = again(&world, &outside, Class::Keyed, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "measured from the first intent");
    assert_eq!(outside.times(), 2);
}

#[tokio::test]
async fn a_provider_that_remembers_for_longer_is_sent_to_for_longer() {
    let (world, outside) = (World::new(), Outside::default());
    let run = async |lease: &Lease, hang: bool| {
        let send = async |key: semel::IdempotencyKey| {
            assert_eq!(key.header_name(), "Idempotency-Key");
            if hang { outside.act_and_hang(key.as_str()).await } else { outside.act(key.as_str()).await }
        };
        Ok(lease.effect("charge").keyed(Provider::STRIPE_V2).run(send).await?)
    };
    crash(world.call().run(async |lease| run(lease, true).await));
    world.clock.advance(DAY * 5);
    assert_eq!(world.call().run(async |lease| run(lease, false).await).await.unwrap(), 2);
}

#[tokio::test]
async fn a_keyed_effect_that_erred_is_not_sent_again_past_retention_either() {
    let (world, outside) = (World::new(), Outside::default());
    let timeout = world.call().run(async |lease| {
        let send = async |key: semel::IdempotencyKey| {
            outside.act(key.as_str()).await?;
            Err::<u32, _>(std::io::Error::from(std::io::ErrorKind::TimedOut))
        };
        Ok(lease.effect("charge").keyed(Provider::STRIPE).run(send).await?)
    });
    assert!(timeout.await.unwrap_err().is_transient());
    world.clock.advance(DAY);
    let error = again(&world, &outside, Class::Keyed, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(outside.times(), 1);
}

#[tokio::test]
async fn an_interrupted_at_most_once_effect_is_unknown_and_not_run_again() {
    let (world, outside) = (World::new(), Outside::default());
    interrupted(&world, &outside, Class::AtMostOnce);
    for _ in 0..3 {
        let error = again(&world, &outside, Class::AtMostOnce, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    }
    assert_eq!(outside.times(), 1);
}

#[tokio::test]
async fn an_interrupted_at_least_once_effect_is_run_again() {
    let (world, outside) = (World::new(), Outside::default());
    interrupted(&world, &outside, Class::AtLeastOnce);
    assert_eq!(again(&world, &outside, Class::AtLeastOnce, None).await.unwrap(), 2);
}

#[tokio::test]
async fn an_interrupted_reconciled_effect_asks_before_it_runs_again() {
    for (known, expected, times) in [(Some(42), 42, 1), (None, 2, 2)] {
        let (world, outside) = (World::new(), Outside::default());
        interrupted(&world, &outside, Class::Reconcile);
        assert_eq!(again(&world, &outside, Class::Reconcile, known).await.unwrap(), expected);
        assert_eq!(outside.times(), times);
        let charge = world.once.get_key(&world.key().effect("charge").unwrap()).await.unwrap().unwrap();
        assert_eq!(charge.status(), Status::Completed);
    }
}

#[tokio::test]
async fn a_reconciled_effect_is_left_open_when_nobody_answers_the_question() {
    let (world, outside) = (World::new(), Outside::default());
    interrupted(&world, &outside, Class::Reconcile);
    let error = world.call().run(async |lease| {
        let query = async || Err::<Option<u32>, _>("the provider is down");
        Ok(lease.effect("charge").reconcile(query).run(async || outside.act("").await).await?)
    });
    assert!(error.await.unwrap_err().is_transient());
    assert_eq!(outside.times(), 1);
    assert_eq!(again(&world, &outside, Class::Reconcile, Some(42)).await.unwrap(), 42);
}

#[tokio::test]
async fn an_intent_is_written_before_the_effect_is_dispatched() {
    for class in CLASSES {
        let world = World::new();
        let seen = world.call().run(async |lease| {
            let work = async |_| {
                let key = world.key().effect("charge")?;
                let snapshot = world.once.get_key(&key).await?;
                Ok(u32::from(snapshot.is_some_and(|it| it.status() == Status::InProgress)))
            };
            Ok(effect(lease, class, None, work).await?)
        });
        assert_eq!(seen.await.unwrap(), 1, "{class:?} was dispatched without an intent");
    }
}

#[tokio::test]
async fn only_intents_that_must_not_be_lost_ask_to_be_reported() {
    use semel::OnLapse;
    for class in CLASSES {
        let world = World::new();
        crash(world.call().run(async |lease| Ok(effect(lease, class, None, async |_| never().await).await?)));
        let key = world.key().effect("charge").unwrap();
        let stored = semel::Store::load(&*world.store, &key).await.unwrap().unwrap();
        let on_lapse = stored.record.on_lapse().unwrap();
        let expected = if class == Class::AtLeastOnce { OnLapse::Rerun } else { OnLapse::Report };
        assert_eq!(on_lapse, expected, "{class:?}");
    }
}

trait Lapses {
    fn on_lapse(&self) -> Option<semel::OnLapse>;
}
impl Lapses for Record {
    fn on_lapse(&self) -> Option<semel::OnLapse> {
        match self.state {
            semel::State::InProgress { on_lapse, .. } => Some(on_lapse),
            _ => None,
        }
    }
}

#[tokio::test]
async fn a_retryable_error_of_an_effect_lets_it_run_again() {
    for class in CLASSES {
        let (world, outside) = (World::new(), Outside::default());
        let error = world.call().run(async |lease| {
            Ok(effect(lease, class, None, async |_| Err(HandlerError::from("busy"))).await?)
        });
        let error = error.await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Handler, true), "{class:?}");
        let charge = world.once.get_key(&world.key().effect("charge").unwrap()).await.unwrap().unwrap();
        assert_eq!(charge.status(), Status::Pending);
        assert_eq!(again(&world, &outside, class, None).await.unwrap(), 1, "{class:?}");
    }
}

#[tokio::test]
async fn a_fatal_error_of_an_effect_is_kept_and_fails_its_call() {
    for class in CLASSES {
        let (world, outside) = (World::new(), Outside::default());
        let first = world.call().run(async |lease| {
            let refused = async |_| Err(HandlerError::fatal("card declined"));
            // A handler that makes light of it does not get another chance to charge.
            effect(lease, class, None, refused).await.retryable()
        });
        assert!(first.await.unwrap_err().is_transient());
        let error = again(&world, &outside, class, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedBefore { reason: Reason::Fatal }, "{class:?}");
        assert_eq!(error.detail(), Some("card declined"));
        assert_eq!(outside.times(), 0);
        let call = world.once.get("pay", "evt-1").await.unwrap().unwrap();
        assert_eq!(call.reason(), Some(Reason::Fatal));
    }
}

#[tokio::test]
async fn the_calls_closure_classifies_the_errors_of_effects_too() {
    let world = World::new();
    let call = world.call().is_fatal(|error| error.to_string() == "card declined");
    let error = call.run(async |lease| {
        Ok(effect(lease, Class::AtMostOnce, None, async |_| Err(HandlerError::from("card declined"))).await?)
    });
    let error = error.await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Handler, false));
}

#[tokio::test]
async fn an_effect_used_twice_in_one_attempt_is_reported() {
    let (world, outside) = (World::new(), Outside::default());
    let error = world.call().run(async |lease| {
        for _ in 0..2 {
            lease.effect("charge").at_least_once().run(async || outside.act("").await).await?;
        }
        Ok(())
    });
    let error = error.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EffectReused);
    assert_eq!(outside.times(), 1);
    let status = world.once.get("pay", "evt-1").await.unwrap().unwrap().status();
    assert_eq!(status, Status::Pending, "the next version of the handler may mend it");
}

#[tokio::test]
async fn two_effects_at_once_under_one_name_are_reported_as_well() {
    let world = World::new();
    let error = world.call().run(async |lease| {
        let slow = lease.effect("charge").at_least_once().run(async || {
            settle().await;
            Ok::<_, HandlerError>(1)
        });
        let fast = lease.effect("charge").at_least_once().run(async || Ok::<_, HandlerError>(2));
        let (slow, fast) = tokio::join!(slow, fast);
        assert_eq!(slow?, 1);
        Ok(fast?)
    });
    assert_eq!(error.await.unwrap_err().kind(), ErrorKind::EffectReused);
}

#[tokio::test]
async fn a_handler_may_try_an_effect_again_that_did_not_happen() {
    let (world, outside) = (World::new(), Outside::default());
    let result = world.call().run(async |lease| {
        for _ in 0..3 {
            let refused =
                effect(lease, Class::AtMostOnce, None, async |_| Err(HandlerError::from("busy"))).await;
            assert!(refused.unwrap_err().is_transient());
        }
        Ok(effect(lease, Class::AtMostOnce, None, async |_| Ok(outside.act("").await?)).await?)
    });
    assert_eq!(result.await.unwrap(), 1);
}

#[tokio::test]
async fn an_effect_that_a_handler_gave_up_on_counts_as_interrupted() {
    let (world, outside) = (World::new(), Outside::default());
    let error = world.call().run(async |lease| {
        crash(lease.effect("charge").at_most_once().run(async || outside.act_and_hang("").await));
        Ok(lease.effect("charge").at_most_once().run(async || outside.act("").await).await?)
    });
    assert_eq!(error.await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(outside.times(), 1);
}

#[tokio::test]
async fn composite_names_are_effects_of_their_own() {
    let (world, outside) = (World::new(), Outside::default());
    let people =
        [("ann@example.com", "welcome"), ("bob@example.com", "welcome"), ("ann@example.com", "receipt")];
    let run = async |lease: &Lease, fails: bool| {
        for (recipient, template) in people {
            let effect = lease.effect(("email", recipient, template)).keyed(Provider::RESEND);
            effect.run(async |key| outside.act(key.as_str()).await).await?;
        }
        if fails { Err(HandlerError::from("the step after it failed")) } else { Ok(()) }
    };
    world.call().run(async |lease| run(lease, true).await).await.unwrap_err();
    world.call().run(async |lease| run(lease, false).await).await.unwrap();
    let done = outside.done.borrow();
    let keys: std::collections::HashSet<_> = done.iter().collect();
    assert_eq!((done.len(), keys.len()), (3, 3));
}

#[tokio::test]
async fn a_bad_name_is_reported_and_nothing_runs() {
    let world = World::new();
    let run = async |recipient: Option<&str>| {
        let call = world.call().run(async |lease| {
            let effect = lease.effect(recipient).at_least_once();
            Ok(effect.run(async || -> Result<(), HandlerError> { panic!("it ran") }).await?)
        });
        call.await.unwrap_err().kind()
    };
    assert_eq!(run(None).await, ErrorKind::KeyRequired);
    assert_eq!(run(Some("a\u{7}b")).await, ErrorKind::InvalidKey);
}

#[tokio::test]
async fn the_ledger_may_have_forgotten_an_effect_of_an_old_call() {
    for class in CLASSES {
        let (world, outside) = (World::new(), Outside::default());
        let first = world.call().run(async |lease| {
            effect(lease, class, None, async |key| Ok(outside.act(&key).await?)).await?;
            Err::<u32, _>(HandlerError::from("the step after it failed"))
        });
        first.await.unwrap_err();
        world.clock.advance(DAY * 7 - SECOND);
        let still = world.call().run(async |lease| {
            effect(lease, class, None, async |key| Ok(outside.act(&key).await?)).await?;
            Err::<u32, _>(HandlerError::from("the step after it failed"))
        });
        still.await.unwrap_err();
        assert_eq!(outside.times(), 1, "{class:?} was repeated within the retention");
        world.clock.advance(SECOND);
        let late = again(&world, &outside, class, Some(42)).await;
        match class {
            Class::AtLeastOnce => assert_eq!(late.unwrap(), 2),
            Class::Reconcile => assert_eq!(late.unwrap(), 42),
            Class::Keyed | Class::AtMostOnce => {
                assert_eq!(late.unwrap_err().kind(), ErrorKind::OutcomeUnknown, "{class:?} ran blindly");
            }
        }
    }
}

#[tokio::test]
async fn an_effect_that_was_never_begun_runs_on_a_young_call_however_often_that_was_tried() {
    for class in CLASSES {
        let (world, outside) = (World::new(), Outside::default());
        for _ in 0..3 {
            world.call().run(async |_| Err::<u32, _>(HandlerError::from("not yet"))).await.unwrap_err();
            world.clock.advance(HOUR);
        }
        assert_eq!(again(&world, &outside, class, Some(42)).await.unwrap(), 1, "{class:?}");
    }
}

#[tokio::test]
async fn a_superseded_holder_does_not_touch_the_effects_of_its_successor() {
    for class in CLASSES {
        let (world, outside) = (World::new(), Outside::default());
        let long = |call: semel::Call| call.lease(DAY);
        let Begin::Run(old) = long(world.call()).begin().await.unwrap() else { panic!("it is fresh") };
        // By the wall clock the lease lapses; the holder, on its own clock, does not know.
        world.clock.jump(semel::Clock::now(&world.clock) + DAY);
        let Begin::Run(new) = long(world.call()).begin().await.unwrap() else { panic!("it lapsed") };
        crash(effect(&new, class, None, async |key| Ok(outside.act_and_hang(&key).await?)));
        let told = effect(&old, class, None, async |key| Ok(outside.act(&key).await?)).await;
        assert_eq!(told.unwrap_err().kind(), ErrorKind::Superseded, "{class:?}");
        assert_eq!(outside.times(), 1);
        assert!(old.is_cancelled());
        drop(new);
    }
}

#[tokio::test]
async fn an_effect_of_a_superseded_holder_does_not_report_success() {
    let (world, outside) = (World::new(), Outside::default());
    let long = |call: semel::Call| call.lease(DAY);
    let Begin::Run(old) = long(world.call()).begin().await.unwrap() else { panic!("it is fresh") };
    let told = effect(&old, Class::Keyed, None, async |key| {
        outside.act(&key).await?;
        world.clock.jump(semel::Clock::now(&world.clock) + DAY - MINUTE);
        world.clock.jump(semel::Clock::now(&world.clock) + MINUTE);
        let Begin::Run(new) = long(world.call()).begin().await? else { panic!("it lapsed") };
        let resent = new.effect("charge").keyed(Provider::STRIPE_V2);
        resent.run(async |key| outside.act(key.as_str()).await).await?;
        Ok(1)
    });
    assert_eq!(told.await.unwrap_err().kind(), ErrorKind::Superseded);
}

#[tokio::test]
async fn a_lost_lease_dispatches_nothing() {
    let (world, outside) = (World::new(), Outside::default());
    let Begin::Run(lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    world.clock.advance(SECOND * 48);
    let told = effect(&lease, Class::AtLeastOnce, None, async |key| Ok(outside.act(&key).await?)).await;
    assert_eq!(told.unwrap_err().kind(), ErrorKind::Lapsed);
    assert_eq!(outside.times(), 0);
}

#[tokio::test]
async fn an_effect_whose_outcome_cannot_be_written_is_unconfirmed() {
    let (world, outside) = (World::new(), Outside::default());
    let store = world.store.clone();
    let call = world.call().run(async |lease| {
        let work = async |key: String| {
            let done = outside.act(&key).await?;
            store.always(Fault::Before);
            Ok(done)
        };
        Ok(effect(lease, Class::AtMostOnce, None, work).await?)
    });
    let error = world.clock.drive(call).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unconfirmed | ErrorKind::Lapsed), "{error}");
    world.store.always(Fault::None);
    world.lapse();
    let error = again(&world, &outside, Class::AtMostOnce, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(outside.times(), 1);
}

#[tokio::test]
async fn an_effect_is_not_dispatched_when_its_intent_cannot_be_written() {
    for class in CLASSES {
        let (world, outside) = (World::new(), Outside::default());
        let store = world.store.clone();
        let call = world.call().run(async |lease| {
            store.script([Fault::Before; 4]);
            Ok(effect(lease, class, None, async |key| Ok(outside.act(&key).await?)).await?)
        });
        let error = world.clock.drive(call).await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, true));
        assert_eq!(outside.times(), 0);
        assert_eq!(again(&world, &outside, class, None).await.unwrap(), 1, "{class:?}");
    }
}

#[tokio::test]
async fn an_effect_of_a_call_that_fails_open_does_what_it_can() {
    for class in CLASSES {
        let (world, outside) = (World::new(), Outside::default());
        world.store.always(Fault::Before);
        let call = world.call().fail_open();
        let result = call.run(async |lease| {
            Ok(effect(lease, class, None, async |key| Ok(outside.act(&key).await?)).await?)
        });
        match class {
            Class::AtMostOnce => assert_eq!(result.await.unwrap_err().kind(), ErrorKind::Store),
            Class::Keyed | Class::Reconcile | Class::AtLeastOnce => assert_eq!(result.await.unwrap(), 1),
        }
    }
}

#[tokio::test]
async fn every_class_can_be_spawned() {
    let world = World::new();
    let call = world.call();
    let task = tokio::spawn(async move {
        let names = ["ann".to_owned(), "bob".to_owned()];
        call.run(async |lease| {
            let mut sent = 0;
            for name in &names {
                let yields = async || tokio::task::yield_now().await;
                sent += lease
                    .effect(("keyed", name))
                    .keyed(Provider::RESEND)
                    .run(async |key| {
                        yields().await;
                        Ok::<_, HandlerError>(key.as_str().len())
                    })
                    .await?;
                lease
                    .effect(("most", name))
                    .at_most_once()
                    .run(async || {
                        yields().await;
                        Ok::<_, HandlerError>(())
                    })
                    .await?;
                let query = async || Ok::<_, HandlerError>(None::<usize>);
                sent += lease
                    .effect(("ask", name))
                    .reconcile(query)
                    .run(async || {
                        yields().await;
                        Ok::<_, HandlerError>(name.len())
                    })
                    .await?;
            }
            Ok(sent)
        })
        .await
    });
    assert_eq!(task.await.unwrap().unwrap(), 134);
}
