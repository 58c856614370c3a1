//! What the tests share.

mod body;
mod client;
mod program;
mod raw;
mod upstream;

pub(crate) use body::{Channel, bytes, pieces};
pub(crate) use client::{Client, Got, json, post};
pub(crate) use program::{Proxy, semel};
pub(crate) use raw::{Raw, exchange, slow_and_another};
pub(crate) use upstream::{Answer, Asked, Gate, Upstream, answer};

use std::time::Duration;

/// How long anything may take on a machine that does much else: only a test that fails waits for so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for something that must come.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    let Ok(output) = tokio::time::timeout(PATIENCE, future).await else { panic!("{what} does not come") };
    output
}
