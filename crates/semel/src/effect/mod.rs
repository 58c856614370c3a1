//! Side effects inside a handler, each with a record of its own.
//!
//! 1. An effect stands below its call: `lease.effect("charge")`, or
//!    `lease.effect(("email", recipient, template))` where one call has many.
//! 2. Its class must be said, because it decides what an interruption means; without one it cannot be run.
//!
//!    | class | after an interruption |
//!    |---|---|
//!    | [`transactional`](Effect::transactional) | cannot be interrupted: it commits with the user's rows, or not at all |
//!    | [`keyed`](Effect::keyed) | sent again with the same key while the provider remembers it; after that unknown |
//!    | [`reconcile`](Effect::reconcile) | the outside world is asked first, and it is run only if it had not happened |
//!    | [`at_most_once`](Effect::at_most_once) | unknown: somebody must find out |
//!    | [`at_least_once`](Effect::at_least_once) | run again |
//!
//! 3. The intent is written before the effect is dispatched, and its result after. A finished effect is never
//!    repeated by a retry of its call: its stored result is given instead.
//! 4. An error that the effect returns is its word that it did not happen: retryable, it may be run again;
//!    fatal, it is kept and replayed. Where it cannot tell, it says [`HandlerError::unknown`].
//! 5. Effects run under their call's lease. When the call is taken over, an intent of the holder before counts
//!    as interrupted at once; a holder that was itself superseded is told so before it touches an effect.
//! 6. A record that has expired might have been one of a finished effect: on a call that is older than that,
//!    an effect without a record is not run blindly either.
//! 7. Using one effect twice in one attempt is a mistake, and reported. Trying one again that returned a
//!    retryable error is none.
//!
//! It does not order effects, nor undo them.
//!
//! [`HandlerError::unknown`]: crate::HandlerError::unknown

mod class;
mod decide;
pub(crate) mod doubt;
mod ledger;
mod transaction;

pub use class::{AtLeastOnce, AtMostOnce, Keyed, Reconcile};
pub use transaction::{Transaction, Transactional};

use crate::{lease::Lease, provider::Provider};
use semel_core::key::{IntoParts, Key, KeyError};

/// An effect whose class has not been said yet.
#[must_use = "an effect does nothing until its class is said and it is run"]
pub struct Effect<'a> {
    lease: &'a Lease,
    key: Result<Key, KeyError>,
}

impl Lease {
    /// A side effect of this call, by a name of its own: one value, or a tuple of them.
    ///
    /// ```
    /// use semel::{Once, Provider};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let once = Once::memory();
    /// # async fn send(to: &str, key: &str) -> Result<u32, std::io::Error> { Ok((to.len() + key.len()) as u32) }
    /// once.call("welcome", "evt-1")
    ///     .run(async |lease| {
    ///         for recipient in ["ann@example.com", "bob@example.com"] {
    ///             lease
    ///                 .effect(("email", recipient, "welcome"))
    ///                 .keyed(Provider::RESEND)
    ///                 .run(async |key| send(recipient, key.as_str()).await)
    ///                 .await?;
    ///         }
    ///         Ok(())
    ///     })
    ///     .await?;
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn effect(&self, path: impl IntoParts) -> Effect<'_> {
        Effect { lease: self, key: self.key().effect(path) }
    }
}

impl<'a> Effect<'a> {
    /// Sent with a key that the provider remembers: sending it again is no second request.
    pub fn keyed(self, provider: Provider) -> Keyed<'a> {
        Keyed { effect: self, provider }
    }

    /// Asks the outside world whether it happened, if an attempt was interrupted or failed: `Some` is its
    /// result, `None` means that it did not happen. An error leaves it open.
    pub fn reconcile<Q>(self, query: Q) -> Reconcile<'a, Q> {
        Reconcile { effect: self, query }
    }

    /// Never run again after an interruption: its outcome is then unknown until somebody resolves it.
    pub fn at_most_once(self) -> AtMostOnce<'a> {
        AtMostOnce { effect: self }
    }

    /// Run again after an interruption: for what does no harm twice.
    pub fn at_least_once(self) -> AtLeastOnce<'a> {
        AtLeastOnce { effect: self }
    }

    /// Commits with the user's own rows: its record is written in the same transaction.
    ///
    /// For the call to be spawned, the transaction must own what it uses, as those of a pool do.
    pub fn transactional<X: Transaction>(self, transaction: &'a mut X) -> Transactional<'a, X> {
        Transactional { effect: self, transaction }
    }
}
