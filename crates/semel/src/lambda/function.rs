//! Functions as services, and those whose events are one operation each.

use super::{
    error::Fault,
    pick::Pick,
    run::{self, Handler, Kept, Plan},
    settings::{Lambda, Name},
};
use crate::{
    clock::SystemClock,
    error::{Error, ErrorKind},
    once::Once,
};
use lambda_runtime::{Diagnostic, LambdaEvent, Service};
use semel_core::{BoxFuture, sabotage};
use serde_json::value::RawValue;
use std::{
    fmt,
    task::{Context, Poll},
};

/// A function with its handler: the service that `lambda_runtime::run` takes.
pub struct Function<'a, K> {
    pub(super) lambda: Lambda<K>,
    pub(super) handler: Handler<'a>,
}

/// Each event is one operation.
#[derive(Clone, Debug)]
pub struct Events {
    key: Pick,
    runs_without_key: bool,
}

/// A function whose events are one operation each, named by this part of the event.
///
/// ```no_run
/// use lambda_runtime::LambdaEvent;
/// use semel::{Once, Provider, lambda::{self, Pick}};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize)]
/// struct Order { id: String, cents: u32 }
/// #[derive(Serialize)]
/// struct Receipt { charge: String }
/// # struct Stripe;
/// # impl Stripe {
/// #     async fn charge(&self, order: &Order, key: &str) -> Result<String, std::io::Error> { Ok(key.to_owned()) }
/// # }
///
/// #[tokio::main]
/// async fn main() -> Result<(), lambda_runtime::Error> {
///     let once = Once::memory(); // DynamoDB, in a function: `semel::store::dynamodb`
///     let stripe = Stripe;
///     let orders = lambda::events(once, Pick::event_id()).handler(async |event: LambdaEvent<Order>, lease| {
///         let order = &event.payload;
///         let charge = lease.effect("charge").keyed(Provider::STRIPE);
///         let charge = charge.run(async |key| stripe.charge(order, key.as_str()).await).await?;
///         Ok(Receipt { charge })
///     });
///     lambda_runtime::run(orders).await
/// }
/// ```
pub fn events(once: Once, key: Pick) -> Lambda<Events> {
    Lambda::new(once, Events { key, runs_without_key: false })
}

impl Lambda<Events> {
    /// Runs an event without a key all the same, **unprotected**: its duplicates run, too, and nothing is kept of it or
    /// its effects. Effects that must not be repeated are refused then.
    ///
    /// A key that is there and malformed is still refused.
    pub fn run_unprotected_without_key(mut self) -> Self {
        self.kind.runs_without_key = true;
        self
    }
}

impl Function<'_, Events> {
    async fn answered(self, event: LambdaEvent<Box<RawValue>>) -> Result<Box<RawValue>, Fault> {
        let (json, context) = event.into_parts();
        let plan = self.plan(&json, &context)?;
        let work = (self.handler)(&json, context)?;
        let ran = run::run(plan, work, |_| Kept::Whole).await?;
        Ok(self.lambda.settings.told(ran))
    }

    fn plan(&self, json: &RawValue, context: &lambda_runtime::Context) -> Result<Plan, Fault> {
        let Lambda { settings, kind } = &self.lambda;
        let id = kind.key.id(json).map_err(|why| Error::keyless(ErrorKind::InvalidKey, why))?;
        let fingerprint = settings.fingerprint(json, &Pick::whole())?;
        match settings.call(context, Name { below: Vec::new(), id }, fingerprint) {
            Ok(call) => Ok(Plan::Protected(call)),
            Err(error) if error.kind() == ErrorKind::KeyRequired && kind.runs_without_key() => {
                Ok(settings.without_key(context, Vec::new())?)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Events {
    fn runs_without_key(&self) -> bool {
        self.runs_without_key || sabotage::is_on("lambda_missing_key_runs")
    }
}

impl Answers for Events {
    fn answer(function: Function<'_, Self>, event: LambdaEvent<Box<RawValue>>) -> Answering<'_> {
        Box::pin(async move { Ok(function.answered(event).await?) })
    }
}

/// The answer to come.
pub type Answering<'a> = BoxFuture<'a, Result<Box<RawValue>, Diagnostic>>;

/// What is one operation of a function: [`Events`], [`Records`](super::Records) or [`Api`](super::Api).
pub trait Answers: Clone + Send + Sync + Sized + 'static {
    /// Answers an event.
    fn answer(function: Function<'_, Self>, event: LambdaEvent<Box<RawValue>>) -> Answering<'_>;
}

impl<'a, K: Answers> Service<LambdaEvent<Box<RawValue>>> for Function<'a, K> {
    type Response = Box<RawValue>;
    type Error = Diagnostic;
    type Future = Answering<'a>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Diagnostic>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, event: LambdaEvent<Box<RawValue>>) -> Self::Future {
        // Lambda freezes the process between invocations.
        SystemClock::new().catch_up();
        K::answer(self.clone(), event)
    }
}

impl<K: Clone> Clone for Function<'_, K> {
    fn clone(&self) -> Self {
        Self { lambda: self.lambda.clone(), handler: self.handler.clone() }
    }
}

impl<K> fmt::Debug for Function<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("lambda", &self.lambda).finish_non_exhaustive()
    }
}
