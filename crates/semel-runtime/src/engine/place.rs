//! A place that an attempt takes: given back when it is dropped, whatever happened.

use super::{
    gate::{breaker::Health, share::Kind},
    shared::Engine,
    table::GivenBack,
};
use std::{fmt, sync::Arc};

/// A place that was taken in the table.
pub(crate) struct Place {
    engine: Arc<Engine>,
    function: Arc<str>,
    kind: Kind,
    bytes: usize,
    /// What the attempt found out; `None` while none was made.
    heard: Option<Health>,
}

impl Place {
    /// For a place that was just taken, with the bytes counted for it.
    pub(crate) const fn of_taken(engine: Arc<Engine>, function: Arc<str>, kind: Kind, bytes: usize) -> Self {
        Self { engine, function, kind, bytes, heard: None }
    }

    /// The attempt is being made; nobody knows yet what it will find.
    pub(crate) const fn used(&mut self) {
        self.heard = Some(Health::Unknown);
    }

    /// The attempt found this out.
    pub(crate) const fn heard(&mut self, health: Health) {
        self.heard = Some(health);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let heard = self.heard.map(|health| (health, self.engine.chance.jitter()));
        let given_back = GivenBack { kind: self.kind, bytes: self.bytes, heard };
        let at = self.engine.moment();
        let should_look = self.engine.table().give_back(at, &self.function, &given_back);
        if should_look {
            self.engine.wake.notify_one();
        }
        self.engine.place_given_back.notify_waiters();
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("function", &self.function)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
