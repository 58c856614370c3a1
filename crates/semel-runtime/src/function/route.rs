//! What an event means for the functions there are.
//!
//! 1. An event becomes one execution for each function that takes it.
//! 2. The key of an execution is its function and what the function's rule says: the event's `source` and `id`, if
//!    nothing else. An event without that value is refused: nothing is run under a key that was guessed.
//! 3. All or nothing: an event that one function has to refuse goes to none.
//!
//! It does not read or write anything.

use super::{Function, KeyRule};
use semel_core::{
    execution::{Arrival, Origin},
    key::{Key, KeyError, PartRef},
};
use semel_events::event::Event;
use std::sync::Arc;

/// An event cannot be accepted for a function.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("function `{function}` does not take the event: {cause}")]
pub struct Unroutable {
    /// The function.
    pub function: Arc<str>,
    /// Why not.
    #[source]
    pub cause: KeyError,
}

/// The executions that an event becomes, with their functions.
pub fn route<'a>(
    event: &Event,
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
        let key = key(event, function)
            .map_err(|cause| Unroutable { function: Arc::clone(function.name.shared()), cause })?;
        let arrival = Arrival {
            key,
            function: Arc::clone(function.name.shared()),
            origin: origin.clone(),
            order: None,
            fingerprint: *fingerprint,
            event: Arc::clone(bytes),
            event_time: event.time().map(|it| it.at()),
            event_expires_at: event.expires_at(),
        };
        routed.push((Arc::clone(function), arrival));
    }
    Ok(routed)
}

fn key(event: &Event, function: &Function) -> Result<Key, KeyError> {
    match &function.key {
        KeyRule::SourceAndId => Key::of_refs(
            &[PartRef::Text(function.name.as_str())],
            &[PartRef::Text(event.source()), PartRef::Text(event.id())],
        ),
    }
}
