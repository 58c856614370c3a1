//! Functions that somebody added, and of which this node can read too little to keep anything for them.
//!
//! 1. Whoever sends an event that such a function would take must not be told that it is kept: the sender is told to come
//!    again, and nothing is kept of it. Another node may have the function, or this one once it is mended.
//! 2. Of a function whose filter cannot be read either, nobody can say what it does not take.
//! 3. A source that reaches some functions only does not ask for others.

use semel_core::sabotage::is_on;
use semel_events::{event::Event, filter::Filter};
use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

/// The functions that are not here; shared by whoever leaves them out and whoever takes events in.
#[derive(Clone, Default)]
pub(crate) struct Absentees(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Nearly always there is none, and then nobody waits to see which.
    is_any: AtomicBool,
    all: RwLock<Vec<Absent>>,
}

/// A function that is not here.
#[derive(Clone, Debug)]
pub(crate) struct Absent {
    pub(crate) name: String,
    /// What it takes.
    pub(crate) filter: Option<Filter>,
}

impl Absentees {
    /// From now on these are not here.
    pub(crate) fn replace(&self, all: Vec<Absent>) {
        let is_any = !all.is_empty();
        *self.0.all.write().unwrap_or_else(PoisonError::into_inner) = all;
        self.0.is_any.store(is_any, Ordering::Release);
    }

    /// Whether one of them would take one of these events.
    pub(crate) fn would_take(&self, events: &[Event], only: Option<&[Arc<str>]>) -> bool {
        if !self.0.is_any.load(Ordering::Acquire) || is_on("absent_functions_miss_events") {
            return false;
        }
        let all = self.0.all.read().unwrap_or_else(PoisonError::into_inner);
        let reached = |it: &&Absent| only.is_none_or(|only| only.iter().any(|name| **name == *it.name));
        all.iter().filter(reached).any(|it| events.iter().any(|event| it.takes(event)))
    }
}

impl Absent {
    fn takes(&self, event: &Event) -> bool {
        self.filter.as_ref().is_none_or(|it| it.matches(event))
    }
}
