//! Where a function is.
//!
//! 1. Behind a URL, in any language; or in this process, in Rust.
//! 2. One in this process says itself what became of an event, by its error: try again, or never.

use crate::deliver::guard::Target;
use semel_core::{BoxFuture, fence::Fence, time::Timestamp};
use semel_events::event::Event;
use std::{fmt, sync::Arc, time::Duration};

/// Where a function is.
#[derive(Clone)]
pub enum Aim {
    /// Behind a URL.
    Url(Target),
    /// In this process.
    Here(Arc<dyn Handle>),
}

impl fmt::Debug for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(target) => f.debug_tuple("Url").field(target).finish(),
            Self::Here(_) => f.write_str("Here"),
        }
    }
}

/// A function in this process.
pub trait Handle: Send + Sync + 'static {
    /// Makes the event take effect. What it returns is the result. It may be called again after it failed, was
    /// interrupted, or its result could not be stored.
    fn handle(&self, event: Event, attempt: Attempted) -> BoxFuture<'_, Result<Vec<u8>, HandleError>>;
}

/// Which attempt a function is called for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempted {
    /// Stable over all attempts: what the function deduplicates its own effects by.
    pub idempotency_key: String,
    /// Which attempt of its generation it is, from 1.
    pub number: u32,
    /// Higher than that of every attempt before it.
    pub fence: Fence,
    /// When it will be given up.
    pub deadline: Timestamp,
}

/// Why a function did not make an event take effect.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandleError {
    /// It may another time.
    #[error("{error}")]
    Retry {
        /// What happened.
        error: String,
        /// How long to leave it alone, if it has an opinion.
        after: Option<Duration>,
    },
    /// It never will.
    #[error("{error}")]
    Fatal {
        /// What happened.
        error: String,
    },
}

impl HandleError {
    /// It may take effect another time.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::Retry { error: error.to_string(), after: None }
    }

    /// It never will.
    pub fn fatal(error: impl fmt::Display) -> Self {
        Self::Fatal { error: error.to_string() }
    }
}

/// A closure as a function of this process.
///
/// ```
/// use semel_runtime::{Function, HandleError, handler};
/// let greet = handler(|event, _attempt| async move {
///     let name = event.subject().ok_or_else(|| HandleError::fatal("nobody to greet"))?;
///     Ok(format!("hello {name}").into_bytes())
/// });
/// let function = Function::new("greet".parse()?, greet);
/// # Ok::<(), semel_runtime::InvalidName>(())
/// ```
pub fn handler<F, R>(handle: F) -> Aim
where
    F: Fn(Event, Attempted) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Vec<u8>, HandleError>> + Send + 'static,
{
    Aim::Here(Arc::new(Closure(handle)))
}

struct Closure<F>(F);

impl<F, R> Handle for Closure<F>
where
    F: Fn(Event, Attempted) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Vec<u8>, HandleError>> + Send + 'static,
{
    fn handle(&self, event: Event, attempt: Attempted) -> BoxFuture<'_, Result<Vec<u8>, HandleError>> {
        Box::pin((self.0)(event, attempt))
    }
}
