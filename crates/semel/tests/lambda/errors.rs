//! What a handler's error becomes: an answer, and a record.

use crate::support::{Count, error_type, invoke, world};
use lambda_runtime::{Diagnostic, LambdaEvent};
use semel::{
    HandlerError, Once,
    lambda::{self, ERROR_BYTES_MAX, NamedError, Pick},
};
use serde_json::Value;

const EVENT: &str = r#"{"id": 7}"#;

fn error(error_type: &str, error_message: &str) -> Diagnostic {
    Diagnostic { error_type: error_type.to_owned(), error_message: error_message.to_owned() }
}

#[tokio::test]
async fn a_plain_error_is_answered_as_one_and_the_next_attempt_runs() {
    let runs = Count::default();
    let function =
        lambda::events(Once::memory(), Pick::event_id()).handler(async |_: LambdaEvent<Value>, lease| {
            match runs.add() {
                1 => Err(NamedError::new("BankClosed", "come back on Monday").into()),
                2 => Err("no route to host".into()),
                _ => Ok(lease.attempt()),
            }
        });
    assert_eq!(invoke(&function, EVENT).await.unwrap_err(), error("BankClosed", "come back on Monday"));
    assert_eq!(invoke(&function, EVENT).await.unwrap_err(), error("HandlerError", "no route to host"));
    assert_eq!(invoke(&function, EVENT).await.unwrap(), "3");
    assert_eq!(invoke(&function, EVENT).await.unwrap(), "3");
}

#[tokio::test]
async fn a_fatal_error_is_replayed_with_its_type_and_its_message() {
    let long = "ä".repeat(ERROR_BYTES_MAX);
    for (named, is_named) in [
        (NamedError::new("CardDeclined", "the bank said: no: not today"), true),
        (NamedError::new("payments::Declined<(u8, u16)>", &*long), true),
        (NamedError::new("HandlerError", "no such customer: 7"), false),
    ] {
        let runs = Count::default();
        let function =
            lambda::events(Once::memory(), Pick::event_id()).handler(async |_: LambdaEvent<Value>, _| {
                runs.add();
                if is_named {
                    return Err::<(), _>(HandlerError::fatal(named.clone()));
                }
                Err(HandlerError::fatal(named.message()))
            });
        for _delivery in 0..3 {
            let answer = invoke(&function, EVENT).await.unwrap_err();
            assert_eq!(answer, error(named.error_type(), named.message()));
        }
        assert_eq!(runs.get(), 1);
    }
}

#[tokio::test]
async fn the_function_can_tell_which_plain_errors_are_fatal() {
    let runs = Count::default();
    let function = lambda::events(Once::memory(), Pick::event_id())
        .prepare(|call| call.is_fatal(<dyn std::error::Error>::is::<std::num::ParseIntError>))
        .handler(async |_: LambdaEvent<Value>, _| {
            runs.add();
            Ok("x".parse::<u32>()?)
        });
    let first = invoke(&function, EVENT).await.unwrap_err();
    assert_eq!(first, error("HandlerError", "invalid digit found in string"));
    assert_eq!(invoke(&function, EVENT).await.unwrap_err(), first);
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn a_doubt_stands_until_somebody_resolves_it() {
    let (world, runs) = (world(), Count::default());
    let function =
        lambda::events(world.once.clone(), Pick::event_id()).handler(async |_: LambdaEvent<Value>, _| {
            runs.add();
            Err::<u32, _>(HandlerError::unknown("the line went dead"))
        });
    for _delivery in 0..2 {
        let answer = invoke(&function, EVENT).await.unwrap_err();
        assert_eq!(answer.error_type, "Semel.OutcomeUnknown");
        assert!(answer.error_message.contains("the line went dead"), "{}", answer.error_message);
    }
    assert_eq!(runs.get(), 1);
    let key = semel::Key::new(("lambda", "orders"), 7).unwrap();
    world.once.resolve(&key, semel::Resolution::happened(), "ann", "saw the charge").await.unwrap();
    assert_eq!(invoke(&function, EVENT).await.unwrap(), "null", "it happened, and nobody has the result");
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_refuses_and_nothing_runs() {
    let runs = Count::default();
    let store = semel_testkit::ChaosStore::new(world().store, 7).fails_one_in(1);
    let function = lambda::events(Once::new(store), Pick::event_id())
        .handler(async |_: LambdaEvent<Value>, _| Ok(runs.add()));
    assert_eq!(error_type(invoke(&function, EVENT).await), "Semel.Store");
    assert_eq!(runs.get(), 0);
}
