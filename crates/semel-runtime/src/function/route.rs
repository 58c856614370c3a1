//! What an event means for the functions there are.
//!
//! 1. An event becomes one execution for each function that takes it.
//! 2. The key of an execution is its function and what the function's rule says: the event's `source` and `id`, if
//!    nothing else. An event without that value is refused: nothing is run under a key that was guessed.
//! 3. All or nothing: an event that one function has to refuse goes to none.
//!
//! It does not read or write anything.

use super::{Function, KeyRule};
use http::HeaderMap;
use semel_core::{
    execution::{Arrival, Origin},
    key::{Key, KeyError, PartRef},
};
use semel_events::{
    event::{Event, EventTime},
    expression::{Input, NotFound},
};
use std::sync::Arc;

/// Longest order, in bytes: a longer one is the function's mistake.
pub const ORDER_BYTES_MAX: usize = 1_024;

/// An event cannot be accepted for a function.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("function `{function}` does not take the event: {cause}")]
pub struct Unroutable {
    /// The function.
    pub function: Arc<str>,
    /// Why not.
    #[source]
    pub cause: Unkeyed,
}

/// Why an event has no key, or no order.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unkeyed {
    /// What was found is no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Nothing was found that can be told.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// What was found is too long to put events in order by.
    #[error("the order is longer than {ORDER_BYTES_MAX} bytes")]
    Order,
}

/// The executions that an event becomes, with their functions.
pub fn route<'a>(
    event: &Event,
    headers: &HeaderMap,
    functions: impl IntoIterator<Item = &'a Arc<Function>>,
) -> Result<Vec<(Arc<Function>, Arrival)>, Unroutable> {
    let mut routed: Vec<(Arc<Function>, Arrival)> = Vec::new();
    let mut shared: Option<(Origin, _, Arc<[u8]>)> = None;
    for function in functions {
        let (origin, fingerprint, bytes) = shared.get_or_insert_with(|| {
            let origin =
                Origin { source: event.source().into(), id: event.id().into(), kind: event.kind().into() };
            (origin, event.fingerprint(), event.encode().into())
        });
        let input = Input::event(event, headers);
        let unroutable = |cause| Unroutable { function: Arc::clone(function.name.shared()), cause };
        let key = key(event, &input, function).map_err(unroutable)?;
        let order = order(&input, function).map_err(unroutable)?;
        let arrival = Arrival {
            key,
            function: Arc::clone(function.name.shared()),
            origin: origin.clone(),
            order,
            fingerprint: *fingerprint,
            event: Arc::clone(bytes),
            event_time: event.time().map(EventTime::at),
            event_expires_at: event.expires_at(),
        };
        routed.push((Arc::clone(function), arrival));
    }
    Ok(routed)
}

fn key(event: &Event, input: &Input<'_>, function: &Function) -> Result<Key, Unkeyed> {
    let scope = [PartRef::Text(function.name.as_str())];
    match &function.key {
        KeyRule::SourceAndId => {
            let id = [PartRef::Text(event.source()), PartRef::Text(event.id())];
            Ok(Key::of_refs(&scope, &id)?)
        }
        KeyRule::Expression(expression) => {
            let parts = expression.parts(input)?;
            let id: Vec<_> = parts.iter().map(PartRef::from).collect();
            Ok(Key::of_refs(&scope, &id)?)
        }
    }
}

/// What the event must not overtake. One for which nothing is found stands in no order.
fn order(input: &Input<'_>, function: &Function) -> Result<Option<Arc<str>>, Unkeyed> {
    let Some(expression) = &function.order else { return Ok(None) };
    let found = expression.text(input)?;
    if found.as_ref().is_some_and(|it| it.len() > ORDER_BYTES_MAX) {
        return Err(Unkeyed::Order);
    }
    Ok(found.map(Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler;

    fn event(data: &'static str) -> Event {
        Event::builder("evt-1", "/shop", "order.created").subject("42").json(data).build().expect("an event")
    }

    fn function(key: KeyRule, order: Option<&str>) -> Arc<Function> {
        let aim = handler(|_, _| async { Ok(Vec::new()) });
        let order = order.map(|it| it.parse().expect("an expression"));
        Arc::new(Function { key, order, ..Function::new("orders".parse().expect("a name"), aim) })
    }

    fn by(text: &str) -> KeyRule {
        KeyRule::Expression(text.parse().expect("an expression"))
    }

    fn routed(event: &Event, function: &Arc<Function>) -> Result<Arrival, Unroutable> {
        let mut routed = route(event, &HeaderMap::new(), [function])?;
        Ok(routed.pop().expect("one for each").1)
    }

    #[test]
    fn an_execution_is_named_by_its_function_and_the_event_or_what_the_event_says() {
        let event = event(r#"{"order": 7}"#);
        let id = |key| routed(&event, &function(key, None)).expect("a key").key.to_string();
        assert_eq!(
            id(KeyRule::SourceAndId),
            Key::new("orders", ("/shop", "evt-1")).expect("a key").to_string()
        );
        assert_eq!(id(by("/data/order")), "orders/7");
        assert_eq!(id(by("subject")), "orders/42");
    }

    #[test]
    fn an_event_without_the_value_that_names_it_goes_to_no_function() {
        let event = event(r#"{"order": null}"#);
        let fine = function(KeyRule::SourceAndId, None);
        let missing = function(by("/data/order"), None);
        let refused = route(&event, &HeaderMap::new(), [&fine, &missing]).expect_err("no key");
        assert!(matches!(refused.cause, Unkeyed::Key(error) if error.is_missing()), "{refused}");
    }

    #[test]
    fn an_order_is_what_the_event_says_or_none() {
        let order = |data| {
            routed(&event(data), &function(KeyRule::SourceAndId, Some("/data/customer")))
                .expect("a key")
                .order
        };
        assert_eq!(order(r#"{"customer": "ada"}"#).as_deref(), Some("ada"));
        assert_eq!(order("{}"), None);
    }
}
