//! Functions whose events are one operation each.

use crate::support::{Count, context, error_type, invoke, invoke_with, json, settle, world};
use lambda_runtime::LambdaEvent;
use semel::{
    HandlerError, OnBusy, Once,
    lambda::{self, Pick},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

#[derive(Deserialize)]
struct Order {
    id: String,
    cents: u32,
}

#[derive(Serialize)]
struct Receipt {
    order: String,
    number: u32,
}

#[tokio::test]
async fn a_duplicate_gets_the_first_answer_to_the_byte() {
    let charges = Count::default();
    let function =
        lambda::events(Once::memory(), Pick::event_id()).handler(async |event: LambdaEvent<Order>, lease| {
            assert_eq!((lease.attempt(), event.payload.cents), (1, 1_200));
            Ok(Receipt { order: event.payload.id, number: charges.add() })
        });
    let event = r#"{"id": "evt-1", "cents": 1200}"#;
    for _delivery in 0..3 {
        assert_eq!(invoke(&function, event).await.unwrap(), r#"{"order":"evt-1","number":1}"#);
    }
    assert_eq!(charges.get(), 1);
    invoke(&function, r#"{"id": "evt-2", "cents": 1200}"#).await.unwrap();
    assert_eq!(charges.get(), 2, "another event is another operation");
}

#[tokio::test]
async fn every_result_is_replayed_as_itself() {
    for result in
        ["null", "0", "false", r#""""#, "[]", "{}", "-0.0", r#"{"b": 1.10, "a": 123456789012345678901}"#]
    {
        let runs = Count::default();
        let function =
            lambda::events(Once::memory(), Pick::event_id()).handler(async |_: LambdaEvent<Value>, _| {
                runs.add();
                Ok(json(result))
            });
        for _delivery in 0..2 {
            assert_eq!(invoke(&function, r#"{"id": 7}"#).await.unwrap(), result);
        }
        assert_eq!(runs.get(), 1, "{result} is a result");
    }
}

#[tokio::test]
async fn an_event_without_a_key_is_refused_and_nothing_is_asked_of_the_store() {
    let (world, runs) = (world(), Count::default());
    let function = lambda::events(world.once, Pick::event_id()).handler(async |_: LambdaEvent<Value>, _| {
        runs.add();
        Ok(())
    });
    for event in ["{}", r#"{"id": null}"#, r#"{"id": ""}"#, r#"{"id": []}"#, "[]", "7", r#"{"ID": 7}"#] {
        assert_eq!(error_type(invoke(&function, event).await), "Semel.KeyRequired", "{event}");
    }
    for event in [r#"{"id": 1, "id": 2}"#, r#"{"id": {"a": 1, "a": 2}}"#] {
        assert_eq!(error_type(invoke(&function, event).await), "Semel.InvalidKey", "{event}");
    }
    assert_eq!((runs.get(), world.store.swaps.get()), (0, 0));
}

#[tokio::test]
async fn running_without_a_key_must_be_asked_for_by_name() {
    let (world, runs, mails) = (world(), Count::default(), Count::default());
    let function = lambda::events(world.once, Pick::event_id()).run_unprotected_without_key().handler(
        async |_: LambdaEvent<Value>, lease| {
            lease.effect("mail").at_least_once().run(async || Ok::<_, HandlerError>(mails.add())).await?;
            Ok((runs.add(), lease.is_protected()))
        },
    );
    assert_eq!(invoke(&function, "{}").await.unwrap(), "[1,false]");
    assert_eq!(invoke(&function, "{}").await.unwrap(), "[2,false]", "there is nothing to tell it by");
    assert_eq!((world.store.swaps.get(), mails.get()), (0, 2), "nothing of it is kept");
    assert_eq!(invoke(&function, r#"{"id": 7}"#).await.unwrap(), "[3,true]");
    assert_eq!(invoke(&function, r#"{"id": 7}"#).await.unwrap(), "[3,true]", "a key still protects");
    assert_eq!(error_type(invoke(&function, r#"{"id": 1, "id": 2}"#).await), "Semel.InvalidKey");
}

#[tokio::test]
async fn the_same_key_with_another_payload_is_refused() {
    let runs = Count::default();
    let describe = || lambda::events(Once::memory(), Pick::event_id());
    let run = async |_: LambdaEvent<Value>, _| Ok(runs.add());
    let whole = describe().handler(run);
    invoke(&whole, r#"{"id": 1, "cents": 10, "sent": "12:00"}"#).await.unwrap();
    let reordered = invoke(&whole, r#"{"sent":"12:00","cents":10,"id":1}"#).await.unwrap();
    assert_eq!(reordered, "1", "the order of members does not matter");
    let other = invoke(&whole, r#"{"id": 1, "cents": 11, "sent": "12:00"}"#).await;
    assert_eq!(error_type(other), "Semel.Mismatch");

    let part = describe().payload(Pick::pointer("/cents").unwrap()).handler(run);
    let first = invoke(&part, r#"{"id": 1, "cents": 10, "sent": "12:00"}"#).await.unwrap();
    assert_eq!(invoke(&part, r#"{"id": 1, "cents": 10, "sent": "12:01"}"#).await.unwrap(), first);
    assert_eq!(
        error_type(invoke(&part, r#"{"id": 1, "cents": 11, "sent": "12:00"}"#).await),
        "Semel.Mismatch"
    );

    let alone = describe().key_alone().handler(run);
    let first = invoke(&alone, r#"{"id": 1, "cents": 10}"#).await.unwrap();
    assert_eq!(invoke(&alone, r#"{"id": 1, "cents": 11}"#).await.unwrap(), first);
    assert_eq!(runs.get(), 3);
}

#[tokio::test]
async fn jmespath_picks_keys_and_payloads() {
    let runs = Count::default();
    let function =
        lambda::events(Once::memory(), Pick::jmespath("powertools_json(body).[user, order]").unwrap())
            .payload(Pick::jmespath("powertools_json(body).amount").unwrap())
            .handler(async |_: LambdaEvent<Value>, _| Ok(runs.add()));
    let event = |body: &str, id: u32| serde_json::json!({"body": body, "requestId": id}).to_string();
    let first = event(r#"{"user": "ann", "order": 7, "amount": 500}"#, 1);
    let again = event(r#"{"amount":500,"order":7,"user":"ann"}"#, 2);
    assert_eq!(invoke(&function, &first).await.unwrap(), "1");
    assert_eq!(invoke(&function, &again).await.unwrap(), "1");
    let other = event(r#"{"user": "ann", "order": 7, "amount": 1}"#, 3);
    assert_eq!(error_type(invoke(&function, &other).await), "Semel.Mismatch");
    let none = event(r#"{"user": null}"#, 4);
    assert_eq!(error_type(invoke(&function, &none).await), "Semel.KeyRequired");
    assert_eq!(error_type(invoke(&function, &event("no JSON", 5)).await), "Semel.InvalidKey");
}

#[tokio::test]
async fn functions_and_tenants_have_keys_of_their_own() {
    let (once, runs) = (Once::memory(), Count::default());
    let run = async |_: LambdaEvent<Value>, _| Ok(runs.add());
    let function = lambda::events(once.clone(), Pick::event_id()).handler(run);
    let answer = async |name: &str, tenant: Option<&str>| {
        let mut context = context(name, MINUTE);
        context.tenant_id = tenant.map(str::to_owned);
        invoke_with(&function, r#"{"id": 7}"#, context).await.unwrap()
    };
    assert_eq!(answer("orders", None).await, "1");
    assert_eq!(answer("refunds", None).await, "2");
    assert_eq!(answer("orders", Some("ann")).await, "3");
    assert_eq!(answer("orders", Some("bob")).await, "4");
    assert_eq!(answer("orders", None).await, "1");
    assert_eq!(answer("orders", Some("ann")).await, "3");

    let renamed = lambda::events(once, Pick::event_id()).scope(("lambda", "orders")).handler(run);
    let answer = invoke_with(&renamed, r#"{"id": 7}"#, context("orders-v2", MINUTE)).await;
    assert_eq!(answer.unwrap(), "1", "it was renamed, and kept its keys");
}

#[tokio::test]
async fn a_function_without_a_name_is_refused_also_if_keys_may_be_missing() {
    let (world, runs) = (world(), Count::default());
    let function = lambda::events(world.once, Pick::event_id())
        .run_unprotected_without_key()
        .handler(async |_: LambdaEvent<Value>, _| Ok(runs.add()));
    for name in ["", " "] {
        let answer = invoke_with(&function, r#"{"id": 7}"#, context(name, MINUTE)).await;
        assert_eq!(error_type(answer), "Semel.InvalidKey", "{name:?}");
    }
    assert_eq!(runs.get(), 0);
}

#[tokio::test]
async fn an_event_that_the_handler_does_not_take_leaves_no_trace() {
    let (world, runs) = (world(), Count::default());
    let describe = || lambda::events(world.once.clone(), Pick::event_id());
    let strict = describe().handler(async |event: LambdaEvent<Order>, _| Ok((event.payload.id, runs.add())));
    let event = r#"{"id": "evt-1", "price": 12}"#;
    let error = invoke(&strict, event).await.unwrap_err();
    assert_eq!(error.error_type, "Semel.InvalidEvent");
    assert!(error.error_message.contains("missing field `cents`"), "{}", error.error_message);
    assert_eq!((runs.get(), world.store.swaps.get()), (0, 0));
    let mended = describe().handler(async |_: LambdaEvent<Value>, lease| Ok((lease.attempt(), runs.add())));
    assert_eq!(invoke(&mended, event).await.unwrap(), "[1,1]", "the next version does");
}

#[tokio::test]
async fn an_effect_that_finished_is_not_repeated_by_the_next_attempt() {
    let (world, charges, mails) = (world(), Count::default(), Count::default());
    let function =
        lambda::events(world.once, Pick::event_id()).handler(async |_: LambdaEvent<Value>, lease| {
            let charge = lease.effect("charge").at_most_once();
            let charge = charge.run(async || Ok::<_, HandlerError>(charges.add())).await?;
            if mails.add() == 1 {
                return Err("the mail server is busy".into());
            }
            Ok((charge, lease.attempt()))
        });
    assert_eq!(error_type(invoke(&function, r#"{"id": 7}"#).await), "HandlerError");
    assert_eq!(invoke(&function, r#"{"id": 7}"#).await.unwrap(), "[1,2]");
    assert_eq!((charges.get(), mails.get()), (1, 2));
}

#[tokio::test]
async fn a_duplicate_in_flight_waits_or_is_told_so() {
    let (world, gate) = (world(), tokio::sync::Notify::new());
    let gate = std::sync::Arc::new(gate);
    let describe = |on_busy| {
        let gate = gate.clone();
        lambda::events(world.once.clone(), Pick::event_id()).on_busy(on_busy).handler(
            move |_: LambdaEvent<Value>, _| {
                let gate = gate.clone();
                async move {
                    gate.notified().await;
                    Ok("done")
                }
            },
        )
    };
    let (waits, rejects) = (describe(OnBusy::Wait { max: MINUTE }), describe(OnBusy::Reject));
    let call = |function: &lambda::Function<'static, lambda::Events>| {
        let function = function.clone();
        tokio::spawn(async move { invoke(&function, r#"{"id": 7}"#).await })
    };
    let first = call(&waits);
    settle().await;
    let second = call(&waits);
    settle().await;
    assert_eq!(error_type(call(&rejects).await.unwrap()), "Semel.InProgress");
    gate.notify_one();
    assert_eq!(first.await.unwrap().unwrap(), r#""done""#);
    assert_eq!(second.await.unwrap().unwrap(), r#""done""#);
}

#[tokio::test]
async fn a_result_that_was_too_large_is_not_run_again_for() {
    let runs = Count::default();
    let function = lambda::events(Once::memory(), Pick::event_id())
        .prepare(|call| call.body_bytes_max(100))
        .handler(async |_: LambdaEvent<Value>, _| {
            runs.add();
            Ok((0_u32..1_000).collect::<Vec<_>>())
        });
    assert!(invoke(&function, r#"{"id": 7}"#).await.unwrap().len() > 1_000, "the first one gets it");
    let again = invoke(&function, r#"{"id": 7}"#).await.unwrap_err();
    assert_eq!(again.error_type, "Semel.NotKept");
    assert!(again.error_message.contains("took effect"), "{}", again.error_message);
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn a_result_that_is_no_json_is_not_run_again_for() {
    struct Unwritable;
    impl Serialize for Unwritable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("a secret"))
        }
    }
    let runs = Count::default();
    let function =
        lambda::events(Once::memory(), Pick::event_id()).handler(async |_: LambdaEvent<Value>, _| {
            runs.add();
            Ok(Unwritable)
        });
    for _delivery in 0..2 {
        assert_eq!(error_type(invoke(&function, r#"{"id": 7}"#).await), "Semel.NotKept");
    }
    assert_eq!(runs.get(), 1);
}

/// What is spawned must be `Send`, what is run concurrently `Clone` and `'static`, and what `main` owns borrowable.
#[tokio::test]
async fn a_function_can_be_named_borrowed_from_and_spawned() {
    async fn named(event: LambdaEvent<Order>, lease: semel::service::LentLease) -> Result<u32, HandlerError> {
        let cents = lease
            .effect("look")
            .at_least_once()
            .run(async || Ok::<_, HandlerError>(event.payload.cents))
            .await?;
        Ok(cents)
    }
    let event = r#"{"id": "evt-1", "cents": 1200}"#;
    let function: lambda::Function<'static, _> =
        lambda::events(Once::memory(), Pick::event_id()).handler(named);
    let spawned = tokio::spawn(async move { invoke(&function, event).await });
    assert_eq!(spawned.await.unwrap().unwrap(), "1200");

    let owned = String::from("borrowed");
    let borrowing = lambda::events(Once::memory(), Pick::event_id())
        .handler(async |_: LambdaEvent<Box<RawValue>>, _| Ok(owned.len()));
    assert_eq!(invoke(&borrowing, event).await.unwrap(), "8");
}

#[tokio::test]
async fn a_replay_can_be_changed_on_its_way_out() {
    let runs = Count::default();
    let function = lambda::events(Once::memory(), Pick::event_id())
        .on_replay(|result, replay| json(&format!("[{}, {}, \"again\"]", result.get(), replay.attempts())))
        .handler(async |_: LambdaEvent<Value>, _| Ok(runs.add()));
    assert_eq!(invoke(&function, r#"{"id": 7}"#).await.unwrap(), "1", "the first one is as it is");
    for _delivery in 0..2 {
        assert_eq!(invoke(&function, r#"{"id": 7}"#).await.unwrap(), r#"[1, 1, "again"]"#);
    }
}
