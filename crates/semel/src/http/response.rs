//! Reading what the service answered, as far as it has to be read.
//!
//! 1. What is not kept is not read: it passes.
//! 2. What is kept is read up to the limits of size and time. What goes beyond them is handed on as far as it was read,
//!    followed by the rest, and is recorded without its body.
//! 3. A problem that the service itself answered with names the layer's own page.
//! 4. The call ends when the lease that was lent is back.

use super::{
    Body, Problem, ProblemBase,
    body::Partly,
    buffer::{Ended, Gather},
    headers::strip_own,
    layer::Settings,
    lent::InTransaction,
    problem::Told,
    stored::{self, Unkept, UnkeptReason},
    verdict::{Content, NotRetained, Verdict, is_retryable_body, verdict},
};
use crate::{
    codec::Encoded,
    race::{Within, boxed, within_time},
    service::Lender,
};
use ::http::{
    Response,
    header::{CONTENT_ENCODING, CONTENT_LENGTH},
    response::Parts,
};
use bytes::Bytes;
use semel_core::sabotage;

/// What the service made of a request, read as far as it is read.
pub(super) enum Made<R: http_body::Body, E> {
    /// A response that is kept, and what is stored of it.
    Kept { response: Response<Body<R>>, stored: Encoded },
    /// A response that is not, and what it means.
    Ended { response: Response<Body<R>>, verdict: Verdict },
    /// A response that is stored if the transaction was committed that the service wrote it in.
    InTransaction(Response<Body<R>>),
    /// No response.
    Error(E),
}

/// An answer, by its head.
pub(super) enum Sorted<'a, R: http_body::Body, E> {
    /// Nothing of it is read.
    Passes(Made<R, E>),
    /// It is kept, as far as it can be read, and unless its body says that it is not to be.
    Kept { parts: Parts, reading: Reading<'a, R>, body_decides: bool },
}

/// Reads a body up to the limits.
pub(super) type Reading<'a, R> = Within<'a, Gather<R>>;

impl<R: http_body::Body, E> Made<R, E> {
    /// A response whose body may hold the lease.
    fn open_ended(&mut self) -> Option<&mut Response<Body<R>>> {
        match self {
            Self::Kept { response, .. } | Self::Ended { response, .. } | Self::InTransaction(response) => {
                (!response.body().is_whole()).then_some(response)
            }
            Self::Error(_) => None,
        }
    }
}

impl Settings {
    /// Reads an answer, as far as it has to be.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` has room for its arguments twice")]
    pub(super) fn make<'a, R, E>(
        &'a self,
        made: &'a mut Option<Made<R, E>>,
        mut sorted: Sorted<'a, R, E>,
        is_head: bool,
        lender: &'a Lender,
    ) -> impl Future<Output = ()> + Send + use<'a, R, E>
    where
        R: http_body::Body<Data = Bytes, Error: Send> + Send,
        E: Send,
    {
        async move {
            let ended = match &mut sorted {
                Sorted::Passes(_) => None,
                Sorted::Kept { reading, .. } => reading.await,
            };
            let made = made.insert(self.kept(sorted, ended, is_head));
            if !lender.is_back() {
                boxed(self.taken_back(made, lender)).await;
            }
        }
    }

    /// What came of an answer, once its body has ended, or its time is over.
    fn kept<R, E>(
        &self,
        sorted: Sorted<'_, R, E>,
        ended: Option<Ended<R::Error>>,
        is_head: bool,
    ) -> Made<R, E>
    where
        R: http_body::Body<Data = Bytes>,
    {
        let (mut parts, reading, body_decides) = match sorted {
            Sorted::Passes(made) => return made,
            Sorted::Kept { parts, reading, body_decides } => (parts, reading, body_decides),
        };
        let (body, stored) = self.read(&parts, reading, ended, is_head);
        if body_decides && body.is_whole() && is_retryable_body(&parts, body.gathered()) {
            let response = Response::from_parts(parts, body);
            return Made::Ended { response, verdict: Verdict::Released };
        }
        if body.is_whole() {
            // As its replays will: else these had trailers that the first answer has not.
            stored::name_trailers(&mut parts.headers, body.trailers());
            return Made::Kept { response: Response::from_parts(parts, body), stored };
        }
        let response = self.not_retained(Response::from_parts(parts, body));
        if sabotage::is_on("http_oversized_reruns") {
            return Made::Ended { response, verdict: Verdict::Released };
        }
        Made::Kept { response, stored }
    }

    /// A response that cannot be replayed, and says so if it was asked for.
    fn not_retained<B>(&self, mut response: Response<B>) -> Response<B> {
        if self.marks_answers {
            response.extensions_mut().insert(NotRetained);
        }
        response
    }

    /// Decides by the head of an answer whether its body has to be read.
    pub(super) fn sorted<R, E>(&self, answer: Result<Response<R>, E>, is_head: bool) -> Sorted<'_, R, E>
    where
        R: http_body::Body<Data = Bytes>,
    {
        let (mut parts, body) = match answer {
            Ok(response) => response.into_parts(),
            Err(error) => return Sorted::Passes(Made::Error(error)),
        };
        strip_own(&mut parts.headers);
        let passed = |parts, body| Response::from_parts(parts, Body::pass(body));
        if parts.extensions.remove::<InTransaction>().is_some() {
            return Sorted::Passes(Made::InTransaction(passed(parts, body)));
        }
        if let Some(said) = self.reworded(&mut parts) {
            let verdict = verdict(&mut parts, self.stores_errors);
            let stored = stored::encode(&parts, &self.kept, is_head, &said, None);
            let response = Response::from_parts(parts, Body::from(said));
            return Sorted::Passes(match verdict {
                Verdict::Kept => Made::Kept { response, stored },
                Verdict::Released | Verdict::Lost | Verdict::Unknown => Made::Ended { response, verdict },
            });
        }
        // The service's own word goes first.
        let is_open = !self.stores_errors && parts.extensions.get::<Verdict>().is_none();
        match verdict(&mut parts, self.stores_errors) {
            Verdict::Kept => match Content::of(&parts) {
                Content::Stream => {
                    let size = size_of(&parts, 0, Some(&body));
                    let unkept = Unkept::new(UnkeptReason::Stream, [&[], &[]], size);
                    let stored = stored::encode_not_kept(parts.status, &unkept);
                    Sorted::Passes(Made::Kept { response: self.not_retained(passed(parts, body)), stored })
                }
                content @ (Content::GrpcWeb | Content::Other) => {
                    let body_decides = is_open && content == Content::GrpcWeb;
                    Sorted::Kept { parts, reading: self.reading(body), body_decides }
                }
            },
            verdict @ (Verdict::Released | Verdict::Lost | Verdict::Unknown) => {
                Sorted::Passes(Made::Ended { response: passed(parts, body), verdict })
            }
        }
    }

    /// The body of a problem that the service answered with, whose page is where this layer says; nothing of any other
    /// response, and where it would say the same.
    pub(super) fn reworded(&self, parts: &mut Parts) -> Option<Bytes> {
        let Told(problem) = parts.extensions.remove()?;
        if self.problems == ProblemBase::default() || parts.headers.contains_key(CONTENT_ENCODING) {
            return None;
        }
        parts.headers.remove(CONTENT_LENGTH);
        Some(problem.json(&self.problems))
    }

    /// Reads a body up to the limits.
    pub(super) fn reading<R: http_body::Body<Data = Bytes>>(&self, body: R) -> Reading<'_, R> {
        let gather = Gather::new(body, self.response_bytes_max);
        within_time(&*self.once.driver.clock, self.response_wait, gather)
    }

    /// A body that was read up to the limits, with what is stored of the response.
    pub(super) fn read<R>(
        &self,
        parts: &Parts,
        reading: Reading<'_, R>,
        ended: Option<Ended<R::Error>>,
        is_head: bool,
    ) -> (Body<R>, Encoded)
    where
        R: http_body::Body<Data = Bytes>,
    {
        let Gather { buffer, body } = reading.into_inner();
        let bytes = buffer.into_bytes();
        let (ahead, rest, why) = match ended {
            Some(Ended::Whole(trailers)) => {
                let stored = stored::encode(parts, &self.kept, is_head, &bytes, trailers.as_ref());
                return (Body::whole(bytes, trailers), stored);
            }
            Some(Ended::Over(piece)) => ([bytes, piece], Ok(body), UnkeptReason::TooLong),
            Some(Ended::Broken(error)) => ([bytes, Bytes::new()], Err(error), UnkeptReason::Broken),
            None => ([bytes, Bytes::new()], Ok(body), UnkeptReason::Stream),
        };
        let read = ahead.each_ref().map(|it| &it[..]);
        let size = size_of(parts, read[0].len() + read[1].len(), rest.as_deref().ok());
        let unkept = Unkept::new(why, read, size);
        (Body::partly(Partly { ahead, rest }), stored::encode_not_kept(parts.status, &unkept))
    }

    /// Waits for whoever took the lease elsewhere.
    async fn taken_back<R: http_body::Body, E>(&self, made: &mut Made<R, E>, lender: &Lender) {
        let clock = &*self.once.driver.clock;
        let in_time = within_time(clock, self.response_wait, lender.returned()).await;
        if let (None, Some(response)) = (in_time, made.open_ended()) {
            // The lease may be in what was not read of the body, which nobody reads before the lease is back.
            *response = Problem::INTERNAL.response(&self.problems);
        }
        lender.returned().await;
    }
}

/// How large a body is of which so much was read, if it says so itself, or its head does.
fn size_of<R: http_body::Body>(parts: &Parts, read: usize, rest: Option<&R>) -> Option<u64> {
    let left = rest.and_then(|it| it.size_hint().exact());
    let announced = || parts.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    left.and_then(|it| it.checked_add(read as u64)).or_else(announced)
}
