//! Functions of AWS Lambda that take effect once.
//!
//! 1. [`events`] is for functions whose events are one operation each, [`records`] for those that get batches from
//!    SQS, Kinesis or DynamoDB, [`api`] for those behind API Gateway. Each gives a service that `lambda_runtime::run`
//!    takes.
//! 2. The key is a [`Pick`] from the event, within a scope that is the function's name. An event without a key is
//!    refused; running such events must be asked for by name.
//! 3. The same key with another payload is refused. What is compared is the whole event, or what does not change
//!    when a record is delivered again; [`Lambda::payload`] chooses, [`Lambda::key_alone`] compares nothing.
//! 4. The lease lasts until the invocation's deadline and a second longer. A function that times out is taken over
//!    then. Nothing runs in the background, and nothing is renewed: Lambda freezes the process when the answer is
//!    out. The clock catches up when it wakes.
//! 5. A result is replayed as the JSON text that it was, also `null`, `0`, `""` and `false`. One that was too large
//!    to be kept is not run again for: duplicates are told that it took effect.
//! 6. An error is answered as one, so that Lambda retries as it is set up to. A fatal one is kept, and its replay
//!    has the same type and message: [`NamedError`].
//!
//! | errors of type | mean |
//! |---|---|
//! | `HandlerError`, or as [`NamedError`] says | the handler's, now or before |
//! | `Semel.InvalidEvent` | the event is not what the handler takes; nothing ran |
//! | `Semel.KeyRequired`, `Semel.InvalidKey`, `Semel.InvalidPayload` | nothing ran |
//! | `Semel.InProgress` | another invocation runs it: come again |
//! | `Semel.Mismatch` | the key was used with another payload; nothing ran |
//! | `Semel.NotKept`, `Semel.Expired` | it took effect, and its result is not there any more |
//! | `Semel.Sealed` | it took effect, and its encrypted result does not open: look at the keys |
//! | `Semel.FailedBefore` | it is over, and not by its handler's word: its record says that it was given up |
//! | `Semel.OutcomeUnknown` | somebody has to find out whether it took effect, and resolve it |
//! | `Semel.Superseded`, `Semel.Lapsed`, `Semel.Unconfirmed`, `Semel.Contended`, `Semel.Store` | come again |
//! | `Semel.EffectReused`, `Semel.Refused`, `Semel.NotFound` | not answered: of a handler that hands on such an error, about an effect that it used twice or from an operator's verb, it is a `HandlerError` |
//!
//! It does not retry, and it cannot see how the event source is set up. For partial answers to batches,
//! `ReportBatchItemFailures` must be switched on there: without it, Lambda takes every answer for a success, and
//! failed records are lost.

mod api;
mod deadline;
mod error;
mod function;
mod pick;
mod pointer;
mod records;
mod run;
mod settings;

pub use api::{Api, RequestContext, api};
pub use deadline::{LEFT_MAX, MARGIN};
pub use error::{ERROR_BYTES_MAX, ERROR_TYPE_BYTES_MAX, NamedError};
pub use function::{Answering, Answers, Events, Function, events};
pub use pick::{BadPick, Pick, TEXT_BYTES_MAX};
pub use records::{RECORDS_MAX, Records, records};
pub use settings::Lambda;
