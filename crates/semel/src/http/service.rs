//! The service that the layer makes: it dispatches.
//!
//! 1. What a request's head says is decided before its body is read and before the store is asked: see [`Admission`].
//! 2. What carries no key goes straight to the inner service, and its response straight back.
//! 3. The inner service that was polled ready is the one that is called. Its clone stays behind, to be polled again.

use super::{
    Answered, Body, Problem,
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
        let state = match admit(&self.settings, &parts) {
            Admission::Pass => {
                let future = self.inner.call(Request::from_parts(parts, Body::pass(body)));
                State::Passed { future }
            }
            Admission::Refuse(problem) => State::refused(self.settings.refused_to(&parts.headers, problem)),
            Admission::Protect(admitted) => {
                let service = take_ready(&mut self.inner);
                let attempt = Attempt { service, parts, admitted, body: Bytes::new(), trailers: None };
                let buffer = Buffer::new(&body, self.settings.request_bytes_max);
                State::Reading { body, buffer, attempt: Some(Box::new(attempt)) }
            }
        };
        ResponseFuture { state, settings: Arc::clone(&self.settings) }
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
        settings: Arc<Settings>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, R, F, E>
    where
        R: http_body::Body,
    {
        // The inner service answers.
        Passed { #[pin] future: F },
        // Nobody is asked.
        Refused { response: Option<Box<Response<Body<R>>>> },
        // The request's body is read. Who hangs up now has asked for nothing.
        Reading { #[pin] body: B, buffer: Buffer, attempt: Option<Box<Attempt<S>>> },
        // It is being carried out, and will be.
        Working { #[pin] work: Unfinished<Result<Response<Body<R>>, E>> },
    }
}

impl<S, B, R: http_body::Body, F, E> State<S, B, R, F, E> {
    fn refused(response: Response<Body<R>>) -> Self {
        Self::Refused { response: Some(Box::new(response)) }
    }
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
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Passed { future } => {
                    let mut response = ready!(future.poll(context))?.into_response();
                    strip_own(response.headers_mut());
                    let (mut parts, body) = response.into_parts();
                    let said = this.settings.reworded(&mut parts);
                    let body = said.map_or_else(|| Body::pass(body), Body::from);
                    return Poll::Ready(Ok(Response::from_parts(parts, body)));
                }
                StateProjection::Refused { response } => {
                    return Poll::Ready(Ok(*response.take().expect("it is given once")));
                }
                StateProjection::Reading { body, buffer, attempt } => {
                    let ended = ready!(buffer.poll(body, context));
                    let mut attempt = attempt.take().expect("a body ends once");
                    match ended {
                        Ended::Whole(trailers) => {
                            attempt.body = std::mem::take(buffer).into_bytes();
                            attempt.trailers = trailers;
                            let work = attempt.run(Arc::clone(this.settings));
                            State::Working { work: Unfinished::new(work) }
                        }
                        Ended::Over(_) => {
                            let sent = &attempt.parts.headers;
                            State::refused(this.settings.refused_to(sent, Problem::REQUEST_TOO_LARGE))
                        }
                        Ended::Broken(error) => {
                            let sent = &attempt.parts.headers;
                            State::refused(this.settings.refused_to(sent, told_by(&error)))
                        }
                    }
                }
                StateProjection::Working { work } => {
                    return match work.poll(context) {
                        Poll::Ready(Ok(ended)) => Poll::Ready(ended),
                        Poll::Ready(Err(Panicked)) => {
                            Poll::Ready(Ok(this.settings.refused(Problem::INTERNAL)))
                        }
                        Poll::Pending => Poll::Pending,
                    };
                }
            };
            this.state.set(next);
        }
    }
}

impl Settings {
    /// Marks how a request was answered, if that was asked for.
    pub(super) fn marked<R>(&self, mut response: Response<R>, answered: Answered) -> Response<R> {
        if self.marks_answers {
            response.extensions_mut().insert(answered);
        }
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
