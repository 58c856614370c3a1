//! Reading what the service answered, as far as it has to be read.
//!
//! 1. What is not kept is not read: it passes.
//! 2. What is kept is read up to the limits of size and time. What goes beyond them is handed on as far as it was read,
//!    followed by the rest, and is recorded without its body.
//! 3. The call ends when the lease that was lent is back.

use super::{
    Body, Problem,
    body::Partly,
    buffer::{Buffer, Ended},
    headers::strip_own,
    layer::Settings,
    lent::InTransaction,
    stored::{self, NotKept},
    verdict::{Verdict, is_stream, verdict},
};
use crate::{
    codec::Encoded,
    race::{boxed, within_time},
    service::Lender,
};
use ::http::{Response, response::Parts};
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
enum Sorted<R: http_body::Body, E> {
    /// Nothing of it is read.
    Passes(Made<R, E>),
    /// It is kept, as far as it can be.
    Kept(Parts, R),
}

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
    pub(super) async fn made<R, E>(
        &self,
        answer: Result<Response<R>, E>,
        is_head: bool,
        lender: &Lender,
    ) -> Made<R, E>
    where
        R: http_body::Body<Data = Bytes, Error: Send> + Send,
        E: Send,
    {
        let made = match self.sorted(answer) {
            Sorted::Passes(made) => made,
            Sorted::Kept(parts, body) => {
                let (body, stored) = self.read(&parts, body, is_head).await;
                let response = Response::from_parts(parts, body);
                if sabotage::is_on("http_oversized_reruns") && !response.body().is_whole() {
                    Made::Ended { response, verdict: Verdict::Released }
                } else {
                    Made::Kept { response, stored }
                }
            }
        };
        if lender.is_back() { made } else { boxed(self.taken_back(made, lender)).await }
    }

    /// Decides by the head of an answer whether its body has to be read.
    fn sorted<R, E>(&self, answer: Result<Response<R>, E>) -> Sorted<R, E>
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
        match verdict(&mut parts, self.stores_errors) {
            Verdict::Kept if is_stream(&parts) => {
                let stored = stored::encode_not_kept(parts.status, NotKept::Stream);
                Sorted::Passes(Made::Kept { response: passed(parts, body), stored })
            }
            Verdict::Kept => Sorted::Kept(parts, body),
            verdict @ (Verdict::Released | Verdict::Lost | Verdict::Unknown) => {
                Sorted::Passes(Made::Ended { response: passed(parts, body), verdict })
            }
        }
    }

    /// Reads a body up to the limits, and gives it back with what is stored of the response.
    pub(super) async fn read<R>(&self, parts: &Parts, body: R, is_head: bool) -> (Body<R>, Encoded)
    where
        R: http_body::Body<Data = Bytes>,
    {
        let clock = &*self.once.driver.clock;
        let mut buffer = Buffer::new(&body, self.response_bytes_max);
        let mut body = Box::pin(body);
        let ended = within_time(clock, self.response_wait, buffer.gather(&mut body)).await;
        let bytes = buffer.into_bytes();
        let (ahead, rest, why) = match ended {
            Some(Ended::Whole(trailers)) => {
                let stored = stored::encode(parts, &self.kept, is_head, &bytes, trailers.as_ref());
                return (Body::whole(bytes, trailers), stored);
            }
            Some(Ended::Over(piece)) => ([bytes, piece], Ok(body), NotKept::TooLong),
            Some(Ended::Broken(error)) => ([bytes, Bytes::new()], Err(error), NotKept::Broken),
            None => ([bytes, Bytes::new()], Ok(body), NotKept::Stream),
        };
        (Body::partly(Partly { ahead, rest }), stored::encode_not_kept(parts.status, why))
    }

    /// Waits for whoever took the lease elsewhere.
    async fn taken_back<R: http_body::Body, E>(&self, mut made: Made<R, E>, lender: &Lender) -> Made<R, E> {
        let clock = &*self.once.driver.clock;
        let in_time = within_time(clock, self.response_wait, lender.returned()).await;
        if let (None, Some(response)) = (in_time, made.open_ended()) {
            // The lease may be in what was not read of the body, which nobody reads before the lease is back.
            *response = Problem::INTERNAL.response(&self.problems);
        }
        lender.returned().await;
        made
    }
}
