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
    race::{boxed, within},
    service::Lender,
};
use ::http::{Response, response::Parts};
use bytes::Bytes;
use semel_core::sabotage;

/// What the service made of a request, read as far as it is read.
pub(super) enum Made<R: http_body::Body, E> {
    /// A response that is kept, and what is stored of it.
    Kept { response: Response<Body<R>>, stored: Vec<u8> },
    /// A response that is not, and what it means.
    Ended { response: Response<Body<R>>, verdict: Verdict },
    /// A response that is stored if the transaction was committed that the service wrote it in.
    InTransaction(Response<Body<R>>),
    /// No response.
    Error(E),
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
        let made = match answer {
            Ok(response) => self.read_whole(response, is_head).await,
            Err(error) => Made::Error(error),
        };
        if lender.is_back() { made } else { boxed(self.taken_back(made, lender)).await }
    }

    async fn read_whole<R, E>(&self, response: Response<R>, is_head: bool) -> Made<R, E>
    where
        R: http_body::Body<Data = Bytes>,
    {
        let (mut parts, body) = response.into_parts();
        strip_own(&mut parts.headers);
        if parts.extensions.remove::<InTransaction>().is_some() {
            return Made::InTransaction(Response::from_parts(parts, Body::pass(body)));
        }
        match verdict(&mut parts, self.stores_errors) {
            Verdict::Kept if is_stream(&parts) => {
                let stored = stored::encode_not_kept(parts.status, NotKept::Stream);
                Made::Kept { response: Response::from_parts(parts, Body::pass(body)), stored }
            }
            Verdict::Kept => {
                let (body, stored) = self.read(&parts, body, is_head).await;
                let response = Response::from_parts(parts, body);
                if sabotage::is_on("http_oversized_reruns") && !response.body().is_whole() {
                    return Made::Ended { response, verdict: Verdict::Released };
                }
                Made::Kept { response, stored }
            }
            verdict @ (Verdict::Released | Verdict::Lost | Verdict::Unknown) => {
                Made::Ended { response: Response::from_parts(parts, Body::pass(body)), verdict }
            }
        }
    }

    /// Reads a body up to the limits, and gives it back with what is stored of the response.
    pub(super) async fn read<R>(&self, parts: &Parts, body: R, is_head: bool) -> (Body<R>, Vec<u8>)
    where
        R: http_body::Body<Data = Bytes>,
    {
        let clock = &*self.once.driver.clock;
        let mut buffer = Buffer::new(&body, self.response_bytes_max);
        let mut body = Box::pin(body);
        let until = clock.monotonic() + self.response_wait;
        let ended = within(clock, until, buffer.gather(&mut body)).await;
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
        let in_time = within(clock, clock.monotonic() + self.response_wait, lender.returned()).await;
        if let (None, Some(response)) = (in_time, made.open_ended()) {
            // The lease may be in what was not read of the body, which nobody reads before the lease is back.
            *response = Problem::INTERNAL.response(&self.problems);
        }
        lender.returned().await;
        made
    }
}
