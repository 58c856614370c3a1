//! The service that the layer makes: it dispatches.
//!
//! 1. What a request's head says is decided before its body is read and before the store is asked: see [`Admission`].
//! 2. What carries no key goes straight to the inner service, and its response straight back.
//! 3. The inner service that was polled ready is the one that is called. Its clone stays behind, to be polled again.

use super::{
    Answered, Body, Problem, ProblemBase,
    attempt::{Admitted, Attempt},
    buffer::{Buffer, Ended},
    caller::CallerId,
    headers::strip_own,
    key::key_of,
    layer::Settings,
    problem::BodyRefused,
    unfinished::{Panicked, Unfinished},
};
use crate::{handler_error::BoxError, service::take_ready};
use ::http::{HeaderMap, Request, Response, header::CONTENT_LENGTH, request::Parts};
use bytes::Bytes;
use pin_project_lite::pin_project;
use semel_core::sabotage;
use std::{
    any::Any,
    error::Error as StdError,
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tower_service::Service;

/// A service that calls the one it wraps once for each key. Made by [`IdempotencyLayer`](super::IdempotencyLayer).
#[derive(Clone)]
pub struct Idempotency<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> Idempotency<S> {
    pub(super) fn new(inner: S, settings: Arc<Settings>) -> Self {
        Self { inner, settings }
    }
}

impl<S: fmt::Debug> fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, B> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<Body<B>>, Response: HttpResponse> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: http_body::Body<Data = Bytes, Error: Send> + Send + 'static,
    BodyOf<S::Response>: http_body::Body<Data = Bytes, Error: Send> + Send,
{
    type Response = Response<Body<BodyOf<S::Response>>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, BodyOf<S::Response>, S::Future, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        strip_own(&mut parts.headers);
        match admit(&self.settings, &parts) {
            Admission::Pass => {
                let settings = Arc::clone(&self.settings);
                let future = self.inner.call(Request::from_parts(parts, Body::pass(body)));
                ResponseFuture { state: State::Passed { future, settings } }
            }
            Admission::Refuse(problem) => {
                let response = self.settings.refused_to(&parts.headers, problem);
                ResponseFuture { state: State::Refused { response: Some(Box::new(response)) } }
            }
            Admission::Protect(admitted) => {
                let buffer = Buffer::new(&body, self.settings.request_bytes_max);
                let (room, service) = (Box::new_uninit(), take_ready(&mut self.inner));
                let attempt = Box::write(room, Attempt::new(service, parts, admitted));
                let step = Step::Reading { attempt, settings: Arc::clone(&self.settings) };
                let body = Some(body);
                ResponseFuture { state: State::Protected { body, buffer, step: Some(step) } }
            }
        }
    }
}

/// What becomes of a request, by its head alone.
pub(super) enum Admission {
    /// It is none of the layer's business.
    Pass,
    /// It is refused.
    Refuse(Problem),
    /// It is carried out once.
    Protect(Admitted),
}

/// Decides by a request's head.
pub(super) fn admit(settings: &Settings, parts: &Parts) -> Admission {
    if !settings.methods.contains(&parts.method) {
        return Admission::Pass;
    }
    let key = match key_of(&parts.headers, settings.is_strict) {
        Ok(Some(key)) => key,
        Ok(None) if settings.is_required => return Admission::Refuse(Problem::KEY_MISSING),
        Ok(None) => return Admission::Pass,
        Err(_) => return Admission::Refuse(Problem::KEY_INVALID),
    };
    let anonymous = || sabotage::is_on("http_nobody_is_a_caller").then_some(CallerId([0; 32]));
    let Some(caller) = settings.caller.identify(parts).or_else(anonymous) else {
        return Admission::Refuse(Problem::CALLER_MISSING);
    };
    if announced(&parts.headers).is_some_and(|it| it > settings.request_bytes_max as u64) {
        return Admission::Refuse(Problem::REQUEST_TOO_LARGE);
    }
    Admission::Protect(Admitted::new(settings, parts, &key, caller))
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pin_project! {
    /// The response to come.
    // Its parameters are what is in it, and not what follows from the service: whoever spawns it lets the compiler find out
    // whether it is `Send`, and that gives up on bounds between types whose lifetimes are erased.
    pub struct ResponseFuture<S, B, R, F, E>
    where
        R: http_body::Body,
    {
        #[pin]
        state: State<S, B, R, F, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, R, F, E>
    where
        R: http_body::Body,
    {
        // The inner service answers.
        Passed { #[pin] future: F, settings: Arc<Settings> },
        // Nobody is asked.
        Refused { response: Option<Box<Response<Body<R>>>> },
        // The request is carried out once. Its body is gone when it was read.
        Protected { #[pin] body: Option<B>, buffer: Buffer, step: Option<Step<S, R, E>> },
    }
}

/// How far a request with a key has come. Small: what is large in it stays where it is from step to step.
enum Step<S, R: http_body::Body, E> {
    /// Its body is read. Who hangs up now has asked for nothing.
    Reading { attempt: Box<Attempt<S>>, settings: Arc<Settings> },
    /// It is being carried out, and will be; and this is where the problem's page is if that panics.
    Working { work: Unfinished<Result<Response<Body<R>>, E>>, problems: ProblemBase },
}

impl<S, B, F> Future for ResponseFuture<S, B, BodyOf<S::Response>, F, S::Error>
where
    S: Service<Request<Body<B>>, Response: HttpResponse, Future = F> + Send + 'static,
    F: Future<Output = Result<S::Response, S::Error>> + Send,
    S::Error: Send,
    B: http_body::Body<Data = Bytes, Error: Send> + Send + 'static,
    BodyOf<S::Response>: http_body::Body<Data = Bytes, Error: Send> + Send,
{
    type Output = Result<Response<Body<BodyOf<S::Response>>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (mut body, buffer, step) = match self.project().state.project() {
            StateProjection::Passed { future, settings } => {
                let mut response = ready!(future.poll(context))?.into_response();
                strip_own(response.headers_mut());
                let (mut parts, body) = response.into_parts();
                let said = settings.reworded(&mut parts);
                let body = said.map_or_else(|| Body::pass(body), Body::from);
                return Poll::Ready(Ok(Response::from_parts(parts, body)));
            }
            StateProjection::Refused { response } => {
                return Poll::Ready(Ok(*response.take().expect("it is given once")));
            }
            StateProjection::Protected { body, buffer, step } => (body, buffer, step),
        };
        if let Some(reading) = body.as_mut().as_pin_mut() {
            let ended = ready!(buffer.poll(reading, context));
            body.set(None);
            let Some(Step::Reading { mut attempt, settings }) = step.take() else {
                unreachable!("a body ends once")
            };
            let refused = match ended {
                Ended::Whole(trailers) => {
                    attempt.body = std::mem::take(buffer).into_bytes();
                    attempt.trailers = trailers;
                    let problems = settings.problems.clone();
                    let work = Unfinished::new(|| attempt.run(settings));
                    *step = Some(Step::Working { work, problems });
                    None
                }
                Ended::Over(_) => Some((attempt, settings, Problem::REQUEST_TOO_LARGE)),
                Ended::Broken(error) => Some((attempt, settings, told_by(&error))),
            };
            if let Some((attempt, settings, problem)) = refused {
                return Poll::Ready(Ok(settings.refused_to(&attempt.parts.headers, problem)));
            }
        }
        let Some(Step::Working { work, problems }) = step else {
            unreachable!("what was read is carried out")
        };
        let mut polled = Poll::Pending;
        if let Err(Panicked) = work.poll_into(context, &mut polled) {
            polled = Poll::Ready(Ok(Problem::INTERNAL.response(problems)));
        }
        polled
    }
}

impl Settings {
    /// Marks how a request was answered, if that was asked for.
    pub(super) fn mark<R>(&self, response: &mut Response<R>, answered: Answered) {
        if self.marks_answers {
            response.extensions_mut().insert(answered);
        }
    }

    /// The response, marked.
    pub(super) fn marked<R>(&self, mut response: Response<R>, answered: Answered) -> Response<R> {
        self.mark(&mut response, answered);
        response
    }
}

/// What the sender of a body that failed is told.
fn told_by<E: 'static>(error: &E) -> Problem {
    let error: &dyn Any = error;
    let mut cause = error.downcast_ref::<BoxError>().map(|it| &**it as &(dyn StdError + 'static));
    let mut found = error.downcast_ref::<BodyRefused>();
    while let (None, Some(error)) = (found, cause) {
        found = error.downcast_ref();
        // What an I/O error was made of is not its source.
        let made_of = error.downcast_ref::<io::Error>().and_then(|it| it.get_ref());
        cause = made_of.map(|it| it as &(dyn StdError + 'static)).or(error.source());
    }
    found.map_or(Problem::REQUEST_INCOMPLETE, |BodyRefused(problem)| *problem)
}

impl<S, B, R: http_body::Body, F, E> fmt::Debug for ResponseFuture<S, B, R, F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// An [`http::Response`], whatever its body.
// A bound on the body's type itself would have to say `'static`, and then whoever spawns a connection could not use bodies
// with a `Box<dyn Error>`: compilers cannot prove it where lifetimes are erased. Of a projection they need not.
pub trait HttpResponse: sealed::Sealed {
    /// Of its body.
    type Body;

    /// As what it is.
    fn into_response(self) -> Response<Self::Body>;
}

impl<R> HttpResponse for Response<R> {
    type Body = R;

    fn into_response(self) -> Self {
        self
    }
}

/// The body of a response.
pub(super) type BodyOf<T> = <T as HttpResponse>::Body;

mod sealed {
    pub trait Sealed {}
    impl<R> Sealed for ::http::Response<R> {}
}
