//! What the inner service's error means for the call.
//!
//! 1. A [`HandlerError`] that says what it is, and Semel's own errors, which effects return, are taken at
//!    their word, also inside a [`BoxError`].
//! 2. Everything else is as the layer's closure says, and retryable without one.

use crate::{
    error::Error,
    handler_error::{BoxError, Class, HandlerError, class_of},
};
use std::{any::Any, fmt::Display};

/// Tells which of a service's errors are fatal.
pub trait Classifies<E>: Clone + Send + Sync {
    /// Whether trying again is pointless.
    fn is_fatal(&self, error: &E) -> bool;
}

/// Every error is retryable.
#[derive(Clone, Copy, Debug)]
pub struct AllRetryable;

impl<E> Classifies<E> for AllRetryable {
    fn is_fatal(&self, _: &E) -> bool {
        false
    }
}

/// The errors that the closure picks are fatal.
#[derive(Clone, Copy, Debug)]
pub struct FatalIf<C>(pub(super) C);

impl<E, C: Fn(&E) -> bool + Clone + Send + Sync> Classifies<E> for FatalIf<C> {
    fn is_fatal(&self, error: &E) -> bool {
        self.0(error)
    }
}

/// What an error means, and what of it is kept with the record.
pub(super) struct Meaning {
    pub(super) class: Class,
    pub(super) text: String,
}

impl Meaning {
    pub(super) fn of<E: Display + 'static>(error: &E, classes: &impl Classifies<E>) -> Self {
        let plain = if classes.is_fatal(error) { Class::Fatal } else { Class::Retryable };
        let any: &dyn Any = error;
        if let Some(handler) = any.downcast_ref::<HandlerError>() {
            let own = || handler.source.downcast_ref().map(class_of);
            let class = handler.said.or_else(own).unwrap_or(plain);
            return Self { class, text: Error::chain(&*handler.source) };
        }
        if let Some(own) = any.downcast_ref::<Error>() {
            return Self { class: class_of(own), text: Error::chain(own) };
        }
        if let Some(boxed) = any.downcast_ref::<BoxError>() {
            let class = boxed.downcast_ref().map_or(plain, class_of);
            return Self { class, text: Error::chain(&**boxed) };
        }
        Self { class: plain, text: error.to_string() }
    }
}
