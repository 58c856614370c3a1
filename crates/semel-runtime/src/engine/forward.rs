//! Dead letters that go on.
//!
//! 1. What becomes a dead letter of a function that forwards causes an execution of another function, in the same
//!    write: there is no moment at which one is there without the other.
//! 2. It goes through the function that was named, or through one of the runtime's own that delivers to the URL.
//! 3. Its key is made of the execution and its generation: one that is redriven and dies again is forwarded again, and
//!    one that is settled twice is not.
//! 4. Its age begins anew: it was too late for its function, not for whoever looks after dead letters.
//!
//! What an operator cancelled, what was dropped because retry is off, and what is in doubt is not forwarded.

use crate::function::{Aim, DeadLetter, Function, FunctionName};
use semel_core::{
    execution::{Arrival, Execution},
    key::Key,
    record::Reason,
    retry::RetryPolicy,
    sabotage::is_on,
    time::Timestamp,
};
use std::sync::Arc;

/// What names of the runtime's own functions for dead letters begin with.
const PREFIX: &str = "$dead-letter.";

/// The runtime's own function that delivers dead letters of this one, if they go to a URL.
pub(crate) fn forwarder(function: &Function) -> Option<Function> {
    let DeadLetter::Url(target) = &function.dead_letter else { return None };
    let name = FunctionName::reserved(&format!("{PREFIX}{}", function.name));
    let policy = RetryPolicy::gen2().with_retention(function.policy.retention()).ok()?;
    let own = Function::new(name, Aim::Url(target.clone()));
    Some(Function { policy, content: function.content, ..own })
}

/// What an execution that ended like this causes, and what it becomes itself.
pub(crate) fn forwarded(
    now: Timestamp,
    function: &Function,
    after: Execution,
) -> (Execution, Vec<Execution>) {
    let (Some(reason), Some(event)) = (after.phase.reason(), after.event.clone()) else {
        return (after, Vec::new());
    };
    let is_dead = match reason {
        Reason::Fatal | Reason::Exhausted | Reason::Window | Reason::TooOld => true,
        Reason::Cancelled | Reason::Dropped | Reason::OutcomeUnknown => false,
    };
    let to = match &function.dead_letter {
        DeadLetter::Forget if is_dead => return (Execution { event: None, ..after }, Vec::new()),
        DeadLetter::Url(_) if is_dead => format!("{PREFIX}{}", function.name).into(),
        DeadLetter::Function(name) if is_dead => Arc::clone(name.shared()),
        DeadLetter::Keep | DeadLetter::Forget | DeadLetter::Url(_) | DeadLetter::Function(_) => {
            return (after, Vec::new());
        }
    };
    if is_on("dead_letter_not_forwarded") {
        return (after, Vec::new());
    }
    let id = (function.name.as_str(), after.id().to_string(), after.generation);
    let arrival = Arrival {
        key: Key::new(&*to, id).expect("names of functions and ids are parts of keys"),
        function: to,
        origin: after.origin.clone(),
        order: None,
        fingerprint: after.fingerprint,
        event,
        event_time: None,
        event_expires_at: None,
    };
    (after, vec![Execution::accepted(now, arrival, now)])
}
