//! Functions behind API Gateway (REST and HTTP APIs), function URLs and load balancers: `Idempotency-Key`, as
//! [`crate::http`] has it.
//!
//! 1. A request with a key is carried out once, and its duplicates get its response, with `Idempotency-Replayed: true`.
//!    Headers are compared without regard to case.
//! 2. A key names an operation of one caller on one route. The caller is whom the gateway's authorizer knows, else the
//!    value of `Authorization`. With IAM authorization it is the ARN, and with it the Cognito identity where there is one:
//!    all users of an identity pool have one ARN. A key without a caller is refused. **An authorizer of your own must give
//!    each caller a `principalId` of its own**: many examples give all of them the same (`"user"`), and all callers then
//!    share their keys. If yours does, or if many act under one session of a role, say [`Lambda::caller`].
//! 3. A request without a key is refused, unless [`Lambda::optional`] says otherwise. `POST` and `PATCH` need one; other
//!    methods pass through, unprotected.
//! 4. Refusals are problems (RFC 9457) in the form of the gateway: 400, 401, 409, 422, 503.
//! 5. 5xx, 429 and 408 say "try again" and are not kept. Of what is kept, `Set-Cookie` and cookies, `Date`, and headers
//!    that are not on the list are left out.
//! 6. A handler's error is the function's, as everywhere: the gateway makes a 502 of it.
//!
//! It does not authenticate: the gateway does. Functions that run a whole web framework need none of this: they put
//! [`IdempotencyLayer`](crate::http::IdempotencyLayer) into its stack.

mod answer;
mod request;

pub use request::RequestContext;

use self::request::Request;
use super::{
    error::Fault,
    function::{Answering, Answers, Function},
    run::{self, Kept, Plan, Ran},
    settings::{Lambda, Name},
};
use crate::{
    error::{Error, ErrorKind},
    http::{
        Asked, Caller, CallerId, HeaderList, Problem, ProblemBase, REPLAY_HEADERS, STORE_WAIT, fingerprint,
        is_retryable, key_of, part_of,
    },
    once::Once,
};
use ::http::{HeaderName, Method, header::CONTENT_TYPE};
use lambda_runtime::LambdaEvent;
use semel_core::{key::Part, sabotage};
use serde_json::value::RawValue;
use std::time::Duration;

/// Each request is one operation, named by its `Idempotency-Key`.
#[derive(Clone, Debug)]
pub struct Api {
    is_required: bool,
    is_strict: bool,
    methods: Vec<Method>,
    /// Nothing for whom the gateway knows.
    caller: Option<Caller>,
    stores_errors: bool,
    kept: HeaderList,
    problems: ProblemBase,
}

/// A function behind an HTTP gateway, whose requests are named by their `Idempotency-Key`.
///
/// The handler takes the gateway's event and gives its response, in any types that can be read from and written as JSON:
/// those of `aws_lambda_events` fit.
///
/// ```
/// use lambda_runtime::LambdaEvent;
/// use semel::{Once, lambda};
/// use serde::Deserialize;
/// use serde_json::{Value, json};
///
/// #[derive(Deserialize)]
/// struct Request { body: Option<String> }
///
/// let function = lambda::api(Once::memory()).handler(async |event: LambdaEvent<Request>, lease| {
///     let order = event.payload.body.unwrap_or_default();
///     Ok(json!({ "statusCode": 201, "body": format!("attempt {} at {order}", lease.attempt()) }))
/// });
/// ```
pub fn api(once: Once) -> Lambda<Api> {
    let kind = Api {
        is_required: true,
        is_strict: false,
        methods: vec![Method::POST, Method::PATCH],
        caller: None,
        stores_errors: false,
        kept: HeaderList::new(REPLAY_HEADERS),
        problems: ProblemBase::default(),
    };
    Lambda::new(once, kind)
}

impl Lambda<Api> {
    /// Runs requests without a key all the same, **unprotected**.
    pub fn optional(mut self) -> Self {
        self.kind.is_required = false;
        self
    }

    /// Takes keys only as the draft has them: quoted. Without this, bare keys are taken too.
    pub fn strict(mut self) -> Self {
        self.kind.is_strict = true;
        self
    }

    /// Which methods need a key; `POST` and `PATCH` unless set. All others pass through, with or without one.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.kind.methods = methods.into_iter().collect();
        self
    }

    /// How callers are told apart, instead of by whom the gateway's authorizer knows, or `Authorization`.
    ///
    /// ```
    /// use semel::{Once, http::Caller, lambda::{self, RequestContext}};
    /// let by_source_ip = Caller::from_fn(|parts| {
    ///     let context = parts.extensions.get::<RequestContext>()?;
    ///     let context: serde_json::Value = serde_json::from_str(context.json()).ok()?;
    ///     Some(context["identity"]["sourceIp"].as_str()?.as_bytes().to_vec())
    /// });
    /// let function = lambda::api(Once::memory()).caller(by_source_ip);
    /// ```
    pub fn caller(mut self, caller: Caller) -> Self {
        self.kind.caller = Some(caller);
        self
    }

    /// Keeps and replays 5xx, 429 and 408, too. Without this they let the next try run.
    pub fn store_errors(mut self) -> Self {
        self.kind.stores_errors = true;
        self
    }

    /// Which headers of a response are kept and replayed; [`REPLAY_HEADERS`] unless set. `Set-Cookie`, `Date` and
    /// hop-by-hop headers are not, even if they are listed.
    pub fn replay_headers(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.kind.kept = HeaderList::new(names);
        self
    }

    /// Where the `type` of a problem points: its slug is appended to this. This crate's documentation unless set.
    pub fn problem_base(mut self, base: impl Into<String>) -> Self {
        self.kind.problems = ProblemBase::new(base);
        self
    }
}

/// What becomes of a request before anything is asked of the store.
enum Admitted {
    Refused(Problem),
    Passed,
    Protected { key: String, caller: CallerId },
}

impl Api {
    fn admit(&self, request: &Request) -> Admitted {
        if !self.methods.contains(&request.parts.method) {
            return Admitted::Passed;
        }
        let key = match key_of(&request.parts.headers, self.is_strict) {
            Ok(Some(key)) => key.into_owned(),
            Ok(None) if self.is_required => return Admitted::Refused(Problem::KEY_MISSING),
            Ok(None) => return Admitted::Passed,
            Err(_) => return Admitted::Refused(Problem::KEY_INVALID),
        };
        let caller = match &self.caller {
            Some(caller) => caller.identify(&request.parts),
            None => request.known_caller().identify(&request.parts),
        };
        caller
            .map_or(Admitted::Refused(Problem::CALLER_MISSING), |caller| Admitted::Protected { key, caller })
    }

    /// What is kept of an answer.
    fn kept(&self, answer: &RawValue) -> Kept {
        let keeps_all = self.stores_errors || sabotage::is_on("lambda_kept_5xx");
        match answer::status(answer) {
            Some(status) if is_retryable(status) && !keeps_all => Kept::Nothing,
            Some(_) => answer::reduced(answer, &self.kept).map_or(Kept::Whole, Kept::Instead),
            None => Kept::Whole,
        }
    }
}

impl Function<'_, Api> {
    async fn answered(self, event: LambdaEvent<Box<RawValue>>) -> Result<Box<RawValue>, Fault> {
        let (json, context) = event.into_parts();
        let request = Request::read(&json)?;
        let Lambda { kind, settings } = &self.lambda;
        let plan = match self.plan(&request, &json, &context)? {
            Ok(plan) => plan,
            Err(problem) => return Ok(self.problem(problem, None, &request)),
        };
        let work = (self.handler)(request.event(&json)?.as_ref(), context)?;
        match run::run(plan, work, |answer| kind.kept(answer)).await {
            Ok(Ran { json, replay: None }) => Ok(answer::without_own(json)),
            // An operator said that it was carried out, and had no response.
            Ok(Ran { replay: Some(replay), .. }) if replay.is_resolved() => {
                Ok(self.problem(Problem::RESPONSE_NOT_RETAINED, None, &request))
            }
            Ok(ran) => Ok(answer::replayed(&settings.told(ran), request.is_multi)),
            Err(Fault::Semel(error)) => {
                let (problem, wait) = self.told(&error);
                Ok(self.problem(problem, wait, &request))
            }
            Err(fault @ (Fault::Handler(_) | Fault::Event(_))) => Err(fault),
        }
    }

    /// How the request is to be carried out, or why not.
    fn plan(
        &self,
        request: &Request,
        json: &RawValue,
        context: &lambda_runtime::Context,
    ) -> Result<Result<Plan, Problem>, Fault> {
        let Lambda { settings, kind } = &self.lambda;
        let below = vec![part_of(request.parts.method.as_str()), part_of(&request.route)];
        let (key, caller) = match kind.admit(request) {
            Admitted::Refused(problem) => return Ok(Err(problem)),
            Admitted::Passed => return Ok(Ok(settings.without_key(context, below)?)),
            Admitted::Protected { key, caller } => (key, caller),
        };
        let asked = Asked {
            method: request.parts.method.as_str(),
            route: &request.route,
            path_and_query: &request.path_and_query,
            headers: &request.parts.headers,
        };
        let usual = || fingerprint(&asked, &[CONTENT_TYPE], &request.body);
        let fingerprint = settings.picked(json)?.unwrap_or_else(usual);
        // The caller stands with the id, so that the scope, which metrics are labelled by, is one of a few.
        let id = vec![Part::Bytes(caller.0.to_vec()), Part::Text(key)];
        Ok(Ok(Plan::Protected(settings.call(context, Name { below, id }, fingerprint)?)))
    }

    fn problem(&self, problem: Problem, wait: Option<Duration>, request: &Request) -> Box<RawValue> {
        let Api { problems, caller, .. } = &self.lambda.kind;
        answer::problem(problem, wait, problems, caller.as_ref(), request.is_multi)
    }

    /// What the client is told of an error of ours, and when to come again.
    fn told(&self, error: &Error) -> (Problem, Option<Duration>) {
        match error.kind() {
            ErrorKind::InProgress { until } => {
                (Problem::IN_PROGRESS, Some(until.since(self.lambda.settings.now())))
            }
            ErrorKind::Mismatch => (Problem::MISMATCH, None),
            ErrorKind::NotKept | ErrorKind::Expired => (Problem::RESPONSE_NOT_RETAINED, None),
            ErrorKind::OutcomeUnknown => (Problem::OUTCOME_UNKNOWN, None),
            ErrorKind::Store | ErrorKind::Contended => (Problem::STORE, Some(STORE_WAIT)),
            // The handler was at work when it was stopped: what it had done by then is done.
            ErrorKind::Lapsed => (Problem::INTERRUPTED, Some(STORE_WAIT)),
            ErrorKind::Unconfirmed => (Problem::OUTCOME_UNCONFIRMED, Some(STORE_WAIT)),
            ErrorKind::KeyRequired
            | ErrorKind::InvalidKey
            | ErrorKind::InvalidPayload
            | ErrorKind::FailedBefore { .. }
            | ErrorKind::Sealed
            | ErrorKind::Superseded
            | ErrorKind::Handler
            | ErrorKind::EffectReused
            | ErrorKind::Refused
            | ErrorKind::NotFound => (Problem::INTERNAL, None),
        }
    }
}

impl Answers for Api {
    fn answer(function: Function<'_, Self>, event: LambdaEvent<Box<RawValue>>) -> Answering<'_> {
        Box::pin(async move { Ok(function.answered(event).await?) })
    }
}
