//! A place that an attempt takes: given back when it is dropped, whatever happened.

use super::{
    gate::{breaker::Health, share::Kind},
    shared::{Engine, Stage},
    table::{Finding, GivenBack, MayCall},
};
use crate::function::Aim;
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// A place that was taken in the table.
pub(crate) struct Place {
    engine: Arc<Engine>,
    function: Arc<str>,
    kind: Kind,
    bytes: usize,
    usage: Usage,
}

/// What was made of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Usage {
    /// Nothing yet.
    Held,
    /// It may call.
    Turn,
    /// It calls, since this moment of the monotonic clock.
    Calling(Duration),
    /// It has called.
    Called,
}

impl Place {
    /// For a place that was just taken, with the bytes counted for it.
    pub(crate) const fn of_taken(engine: Arc<Engine>, function: Arc<str>, kind: Kind, bytes: usize) -> Self {
        Self { engine, function, kind, bytes, usage: Usage::Held }
    }

    /// Waits for its turn to call, until this moment of the monotonic clock. Whether it came.
    pub(crate) async fn turn(&mut self, until: Duration) -> bool {
        let now = self.engine.clock.monotonic();
        let may_call = self.engine.table().may_call(now, &self.function);
        let is_turn = match may_call {
            MayCall::Now => true,
            MayCall::Never => false,
            MayCall::Later(mut told) => tokio::select! {
                biased;
                is_turn = &mut told => is_turn.unwrap_or(false),
                () = self.engine.clock.sleep(until.saturating_sub(now)) => {
                    let waited = self.engine.clock.monotonic().saturating_sub(now);
                    self.engine.table().waited_in_vain(&self.function, waited);
                    was_told(&mut told)
                }
                () = self.engine.raised(Stage::Interrupting) => was_told(&mut told),
            },
        };
        if is_turn {
            self.usage = Usage::Turn;
        }
        is_turn
    }

    /// The call is being made; nobody knows yet what it will find.
    pub(crate) fn calls(&mut self) {
        self.usage = Usage::Calling(self.engine.clock.monotonic());
    }

    /// The call is over, and found this out about its target. Its turn is another's.
    pub(crate) fn called(&mut self, aim: Option<&Aim>, health: Health) {
        if let Usage::Calling(since) = self.usage {
            self.usage = Usage::Called;
            let (now, jitter) = (self.engine.clock.monotonic(), self.engine.chance.jitter());
            let found = Finding { aim, took: now.saturating_sub(since), health, jitter };
            self.engine.table().called(now, &self.function, Some(found));
        }
    }
}

/// Whether it was told at the last moment. It is not from now on.
fn was_told(told: &mut oneshot::Receiver<bool>) -> bool {
    told.close();
    told.try_recv().unwrap_or(false)
}

impl Drop for Place {
    fn drop(&mut self) {
        self.called(None, Health::Unknown);
        let at = self.engine.moment();
        let mut table = self.engine.table();
        if self.usage == Usage::Turn {
            table.called(at.monotonic, &self.function, None);
        }
        let is_used = self.usage == Usage::Called;
        let given_back = GivenBack { kind: self.kind, bytes: self.bytes, is_used };
        let should_look = table.give_back(at, &self.function, &given_back);
        drop(table);
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
