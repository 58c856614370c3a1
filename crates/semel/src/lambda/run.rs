//! One event or record: run, or given what came of it before.
//!
//! 1. The event is read before anything is claimed: one that the handler does not take leaves no trace, so that
//!    the next version of the function can.
//! 2. A result is kept as the JSON text that was answered, and replayed byte for byte.
//! 3. A result that cannot be written as JSON completes the call without one.
//! 4. The handler's lease is back, and the outcome written, before the answer goes out.

use super::error::{Fault, NamedError};
use crate::{
    begin::{Begin, Replay},
    call::Call,
    error::{Error, ErrorKind},
    handler_error::{Class, HandlerError},
    lease::Lease,
    service::{LentLease, lend},
};
use lambda_runtime::{Context, LambdaEvent};
use semel_core::{BoxFuture, record::Reason};
use serde::{Serialize, Serializer, de::DeserializeOwned, ser::Error as _};
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;

/// A result as JSON, if it can be.
pub(super) type Encoded = Result<Box<RawValue>, serde_json::Error>;
/// A handler that has its event, and waits for its lease.
pub(super) type Work<'a> =
    Box<dyn FnOnce(LentLease) -> BoxFuture<'a, Result<Encoded, HandlerError>> + Send + 'a>;
/// A user's handler: takes the JSON of an event or record, if it is of its type.
pub(super) type Handler<'a> = Arc<dyn Fn(&RawValue, Context) -> Result<Work<'a>, Fault> + Send + Sync + 'a>;

/// How a call is to be begun.
pub(super) enum Plan {
    /// Under its key.
    Protected(Call),
    /// It has no key, and running such events was asked for by name.
    Unprotected(Call),
}

/// What is answered.
pub(super) struct Ran {
    pub(super) json: Box<RawValue>,
    /// What it is a replay of, if it is one.
    pub(super) replay: Option<Replay>,
}

/// What of an answer is kept, to be replayed.
pub(super) enum Kept {
    /// All of it.
    Whole,
    /// This, instead of it.
    Instead(Box<RawValue>),
    /// Nothing: it says to try again.
    Nothing,
}

/// A user's handler, without its types.
pub(super) fn handler<'a, T, R, F, Fut>(handler: F) -> Handler<'a>
where
    T: DeserializeOwned + Send + 'a,
    R: Serialize,
    F: Fn(LambdaEvent<T>, LentLease) -> Fut + Send + Sync + 'a,
    Fut: Future<Output = Result<R, HandlerError>> + Send + 'a,
{
    let handler = Arc::new(handler);
    Arc::new(move |json, context| {
        let payload: T = serde_json::from_str(json.get())
            .map_err(|error| Fault::Event(format!("the event is not what the handler takes: {error}")))?;
        let handler = Arc::clone(&handler);
        let work: Work<'a> = Box::new(move |lease| {
            let running = handler(LambdaEvent::new(payload, context), lease);
            Box::pin(async move { running.await.map(|result| to_raw_value(&result)) })
        });
        Ok(work)
    })
}

/// Runs the handler, or gives the answer of whoever ran it before. `keeps` says what of an answer is kept.
pub(super) async fn run(
    plan: Plan,
    work: Work<'_>,
    keeps: impl Fn(&RawValue) -> Kept + Send,
) -> Result<Ran, Fault> {
    let begin = match plan {
        Plan::Protected(call) => call.begin().await?,
        Plan::Unprotected(call) => Begin::Run(call.begin_unprotected()?),
    };
    match begin {
        Begin::Run(lease) => under(lease, work, keeps).await,
        Begin::Replay(replay) => Ok(Ran { json: replay.value()?, replay: Some(replay) }),
        Begin::Failed(failure) if failure.reason() == Reason::Fatal => {
            Err(Fault::Handler(NamedError::from_kept(failure.error())))
        }
        Begin::Failed(failure) => Err(failure.into_error().into()),
        Begin::Busy { key, until } => Err(Error::new(ErrorKind::InProgress { until }, key).into()),
        Begin::Mismatch { key } => Err(Error::new(ErrorKind::Mismatch, key).into()),
    }
}

async fn under(lease: Lease, work: Work<'_>, keeps: impl Fn(&RawValue) -> Kept) -> Result<Ran, Fault> {
    let (lent, lender) = lend(lease);
    let work = async {
        let result = work(lent).await;
        // Whoever took the lease elsewhere still works under it.
        lender.returned().await;
        result
    };
    let result = lender.lease().hold_in_span(work).await?;
    let lease = lender.take_back();
    match result {
        Ok(Ok(json)) => written(lease, json, keeps).await,
        Ok(Err(error)) => {
            let told = Error::new(ErrorKind::NotKept, lease.key().clone());
            lease.complete(&NoJson).await?;
            Err(told.with_detail(format!("it cannot be written as JSON: {error}")).into())
        }
        Err(error) => Err(end(lease, error).await),
    }
}

/// Writes an answer, as far as it is kept.
async fn written(lease: Lease, json: Box<RawValue>, keeps: impl Fn(&RawValue) -> Kept) -> Result<Ran, Fault> {
    match keeps(&json) {
        Kept::Whole => lease.complete_bytes(json.get().as_bytes()).await?,
        Kept::Instead(kept) => lease.complete_bytes(kept.get().as_bytes()).await?,
        // Whether this is written or not, the answer is what the handler said; if not, the lease lapses.
        Kept::Nothing => drop(lease.release("the answer says to try again").await),
    }
    Ok(Ran { json, replay: None })
}

/// Writes what the handler's error means, and gives what its caller is told.
async fn end(lease: Lease, error: HandlerError) -> Fault {
    let named = NamedError::of(&error);
    let class = error.class(lease.key(), lease.inner.granted.is_fatal.as_ref());
    let told = match class {
        // Kept with its type: the replay has to have it.
        Class::Fatal => lease.fail(named.kept()).await.err(),
        Class::Retryable | Class::Unknown | Class::NotOurs => Some(lease.end_with(error).await),
    };
    match (class, told) {
        (_, Some(told)) if told.kind() == ErrorKind::Superseded => Fault::Semel(told),
        (Class::Unknown | Class::NotOurs, Some(told)) => Fault::Semel(told),
        // Whether the failure was kept or not, this is what the handler said; if not, the lease lapses.
        (_, _) => Fault::Handler(named),
    }
}

/// A result that cannot be written.
struct NoJson;

impl Serialize for NoJson {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("the result refused to be written"))
    }
}
