//! Every event takes effect once.
//!
//! Wrap any handler, and running it again, however often and however concurrently, gives the stored outcome
//! instead of a second effect.
//!
//! ```
//! use semel::{Once, Provider};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize)] struct Order { amount: u32, customer: String }
//! # #[derive(Serialize, Deserialize, PartialEq, Debug)] struct Charge { id: String }
//! # #[derive(Serialize, Deserialize, PartialEq, Debug)] struct Receipt { charge: Charge }
//! # struct Event { id: String }
//! # #[derive(Default)] struct Stripe { charges: std::cell::Cell<u32> }
//! # impl Stripe {
//! #     async fn charge(&self, order: &Order, key: semel::IdempotencyKey) -> Result<Charge, std::io::Error> {
//! #         self.charges.set(self.charges.get() + 1);
//! #         Ok(Charge { id: format!("{}-{}", order.amount, key) })
//! #     }
//! # }
//! # struct Mailer;
//! # impl Mailer {
//! #     async fn confirm(&self, order: &Order) -> Result<(), std::io::Error> { let _ = &order.customer; Ok(()) }
//! # }
//! # let (stripe, mailer) = (Stripe::default(), Mailer);
//! # let event = Event { id: "evt-1".to_owned() };
//! # let order = Order { amount: 10, customer: "ann".to_owned() };
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let once = Once::memory(); // `Once::open("./semel-data").await?` keeps records on disk
//! # let mut receipts = Vec::new();
//! # for _delivery in 0..2 {
//! let receipt: Receipt = once
//!     .call("process-order", &event.id)                       // scope, id
//!     .payload(&order)                                        // fingerprint
//!     .run(async |lease| {
//!         let charge = lease.effect("charge").keyed(Provider::STRIPE)
//!             .run(async |key| stripe.charge(&order, key).await).await?;  // derived idempotency key
//!         lease.effect("email").at_most_once()
//!             .run(async || mailer.confirm(&order).await).await?;
//!         Ok(Receipt { charge })
//!     })
//!     .await?;
//! # receipts.push(receipt);
//! # }
//! # assert_eq!(receipts[0], receipts[1]);
//! # assert_eq!(stripe.charges.get(), 1);
//! # Ok::<(), semel::Error>(()) }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What is where
//!
//! - [`Once`] holds the store; [`Once::call`] describes one operation; [`Call::run`] runs a handler under it.
//! - [`Lease`] is what the handler gets; [`Lease::effect`] gives each side effect a record and a class of its own.
//! - [`HandlerError`] is how a handler fails, and [`Error`] what the caller is told.
//! - [`Call::begin`] and [`Lease::hold`] are for those who drive a call by hand.
//! - [`Once::get`], [`Once::resolve`] and [`Once::forget`] are for operators.
//! - `lambda` (feature `lambda`) wraps functions of AWS Lambda.
//! - [`service`] puts it all around a tower service.
//! - [`Call::run_in`] and [`Lease::complete_in`] commit an outcome with the user's own rows.
//! - [`observe`] lists what is counted and traced.
//! - [`processed`] is the simple form: was this event processed, and run this for it once.
//! - [`repository`] keeps values under an id, with versions.
//! - [`seal`] encrypts results before they reach the store.
//! - [`cleanup`] purges in the background; [`doctor`] tells what a store really promises, as it is set up.
//!
//! # What it does not do
//!
//! It does not retry and it does not deliver: whoever delivers the event does. It makes doing so safe.

#[cfg(feature = "axum")]
pub mod axum;
mod begin;
mod call;
mod cancel;
pub mod cleanup;
mod clock;
mod codec;
pub mod doctor;
mod driver;
mod effect;
mod error;
mod finish;
mod handler_error;
mod hashing;
mod heartbeat;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "lambda")]
pub mod lambda;
mod lease;
mod nonce;
pub mod observe;
mod once;
mod operator;
pub mod processed;
mod provider;
mod race;
pub mod repository;
pub mod seal;
pub mod service;
pub mod store;
mod transaction;
mod wait;

pub use begin::{Begin, Failure, How, Outcome, Replay};
pub use call::{Call, OnBusy};
pub use cancel::Cancellation;
pub use clock::SystemClock;
pub use effect::{AtLeastOnce, AtMostOnce, Effect, Keyed, Reconcile, Transaction, Transactional};
pub use error::{Error, ErrorKind};
pub use handler_error::{BoxError, Classify, HandlerError};
pub use lease::Lease;
pub use once::{BODY_BYTES_MAX, Once, OnceBuilder, WAIT_MAX};
pub use operator::{Receipt, Resolution, Snapshot};
pub use provider::{IdempotencyKey, OnMismatch, Provider};
pub use store::MemoryStore;
pub use transaction::{BeginIn, InTransaction};

pub use semel_core::{
    BoxFuture,
    call::Terms,
    fence::Fence,
    fingerprint::Fingerprint,
    key::{Identity, IntoParts, Key, KeyError},
    record::{Holder, OnLapse, Place, Reason, Record, State, Status, Stored},
    store::{Store, StoreError, StoreErrorKind, Swap},
    time::{Clock, Timestamp},
};

/// The examples of the README, run with the others. One of them is an axum service.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The examples of the page on Powertools, compiled with the others.
#[cfg(all(doctest, feature = "dynamodb", feature = "jmespath"))]
#[doc = include_str!("../../../docs/powertools.md")]
struct Powertools;
