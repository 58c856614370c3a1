//! Functions of AWS Lambda: as services, and through the real `lambda_runtime` against a local runtime API.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod api;
mod deadline;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod errors;
mod events;
mod records;
mod runtime;
mod support;
