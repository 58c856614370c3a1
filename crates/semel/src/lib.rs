//! Every event takes effect once.

mod begin;
mod call;
mod cancel;
mod clock;
mod codec;
mod driver;
mod error;
mod handler_error;
mod heartbeat;
mod lease;
mod nonce;
mod observe;
mod once;
mod race;
pub mod service;
mod store;
mod wait;

pub use begin::{Begin, Failure, How, Outcome, Replay};
pub use call::{Call, OnBusy};
pub use cancel::Cancellation;
pub use clock::SystemClock;
pub use error::{Error, ErrorKind};
pub use handler_error::{BoxError, Classify, HandlerError};
pub use lease::Lease;
pub use once::{BODY_BYTES_MAX, Once, OnceBuilder, WAIT_MAX};
pub use store::MemoryStore;

pub use semel_core::{
    BoxFuture,
    call::Terms,
    fence::Fence,
    fingerprint::Fingerprint,
    key::{Identity, IntoParts, Key, KeyError},
    record::{Holder, OnLapse, Place, Reason, Record, Status, Stored},
    store::{Store, StoreError, StoreErrorKind, Swap},
    time::{Clock, Timestamp},
};
