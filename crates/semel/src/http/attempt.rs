//! Carrying a request out once, or giving what came of it before.
//!
//! 1. The call is claimed, and the inner service called, under a lease that is renewed while it works and while its
//!    response is read.
//! 2. What it answered is written before its client sees anything of it.
//! 3. What the store cannot tell is not guessed: see the table in [`super`].

use super::{
    Answered, Body, CallLease, Problem,
    body::Partly,
    buffer::{Buffer, Ended},
    caller::CallerId,
    fingerprint::{Asked, fingerprint},
    headers::strip_own,
    layer::{CallSettings, Settings},
    lent::InTransaction,
    quota::UsedUp,
    route::{part_of, path_and_query},
    service::{BodyOf, HttpResponse, refused},
    stored::{self, KeptResponse, NotKept},
    verdict::{Doubt, Verdict, is_stream, verdict},
};
use crate::{
    begin::{Begin, How, Replay},
    call::{Call, OnBusy},
    error::{Error, ErrorKind},
    lease::Lease,
    observe::in_span,
    race::within,
    service::{Lender, lend},
    transaction::Settled,
};
use ::http::{HeaderMap, Method, Request, Response, request, response};
use bytes::Bytes;
use semel_core::{
    fingerprint::Fingerprint,
    key::{Key, Part},
    record::Reason,
    sabotage,
};
use std::{sync::Arc, time::Duration};
use tower_service::Service;

/// How long a client is told to wait when the store cannot be reached.
const STORE_WAIT: Duration = Duration::from_secs(5);
/// Room for the kept headers of a response, beside its body.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What the head of a request with a key says.
pub(super) struct Admitted {
    pub(super) key: String,
    pub(super) caller: CallerId,
    pub(super) route: String,
}

/// A request with a key, and the service that is ready for it.
pub(super) struct Attempt<S> {
    pub(super) service: S,
    pub(super) parts: request::Parts,
    pub(super) admitted: Admitted,
}

impl<S> Attempt<S> {
    /// Calls the service, or gives what came of it before.
    pub(super) async fn run<B>(
        self: Box<Self>,
        settings: Arc<Settings>,
        body: Bytes,
        trailers: Option<HeaderMap>,
    ) -> Result<Response<Body<BodyOf<S::Response>>>, S::Error>
    where
        S: Service<Request<Body<B>>, Response: HttpResponse>,
        B: http_body::Body,
        BodyOf<S::Response>: http_body::Body<Data = Bytes>,
    {
        let Self { service, parts, admitted } = *self;
        let asked = Asked {
            method: parts.method.as_str(),
            route: &admitted.route,
            path_and_query: path_and_query(&parts),
            headers: &parts.headers,
        };
        let fingerprint = fingerprint(&asked, &settings.compared, &body);
        let key = settings.key_of(&parts.method, &admitted);
        let begin = match settings.begin(key, fingerprint, admitted.caller).await {
            Ok(begin) => begin,
            Err(refusal) => return Ok(refused(refusal)),
        };
        let refusal = match begin {
            Begin::Run(lease) => {
                let answered = answered(lease.how());
                let request = Request::from_parts(parts, Body::whole(body, trailers));
                let response = settings.run(service, request, lease).await?;
                return Ok(response.map_or_else(refused, |mut response| {
                    response.extensions_mut().insert(answered);
                    response
                }));
            }
            Begin::Replay(replay) => return Ok(settings.replay(&replay)),
            Begin::Failed(failure) if failure.reason() == Reason::OutcomeUnknown => {
                settings.problem(Problem::OUTCOME_UNKNOWN)
            }
            Begin::Failed(_) => settings.problem(Problem::INTERNAL),
            Begin::Busy { until, .. } => {
                let left = until.since(settings.once.driver.clock.now());
                Problem::IN_PROGRESS.response_after(&settings.problems, left)
            }
            Begin::Mismatch { .. } => settings.problem(Problem::MISMATCH),
        };
        Ok(refused(refusal))
    }
}

fn answered(how: How) -> Answered {
    match how {
        How::Fresh => Answered::Fresh,
        How::Retried => Answered::Retried,
        How::TakenOver | How::Reentered => Answered::TakenOver,
        How::Unprotected => Answered::Unprotected,
        How::Replayed => Answered::Replayed,
    }
}

/// What the client is told: the service's response, or a problem.
type Told<R> = Result<Response<Body<R>>, Response<Body<R>>>;

/// What the service made of a request, read as far as it is read.
enum Made<R: http_body::Body, E> {
    /// A response, what it means, and what is stored of it if it is kept.
    Response { response: Response<Body<R>>, verdict: Verdict, stored: Vec<u8> },
    /// A response that is stored if the transaction was committed that the service wrote it in.
    InTransaction(Response<Body<R>>),
    /// No response.
    Error(E),
}

impl Settings {
    fn key_of(&self, method: &Method, admitted: &Admitted) -> Key {
        let Admitted { key, caller, route } = admitted;
        let scope = (part_of(&self.service), part_of(method.as_str()), part_of(route));
        // The caller stands with the id, so that the scope, which metrics are labelled by, is one of a few.
        let id = (Part::Bytes(caller.0.to_vec()), key.as_str());
        Key::new(scope, id).expect("its parts are checked, and none is long")
    }

    fn call_of(&self, key: Key, fingerprint: Fingerprint) -> Call {
        let CallSettings { wait, lease, retention, body_retention, is_elsewhere, on_lapse, fails_open } =
            self.call;
        let mut call = self
            .once
            .call_key(key)
            .fingerprint(fingerprint)
            .body_bytes_max(self.response_bytes_max.saturating_add(HEAD_BYTES_MAX))
            .on_busy(if wait.is_zero() { OnBusy::Reject } else { OnBusy::Wait { max: wait } })
            .on_lapse(on_lapse);
        if let Some(lease) = lease {
            call = call.lease(lease);
        }
        if let Some(retention) = retention {
            call = call.retention(retention);
        }
        if let Some(retention) = body_retention {
            call = call.body_retention(retention);
        }
        if is_elsewhere {
            call = call.elsewhere();
        }
        if fails_open { call.fail_open() } else { call }
    }

    /// Claims the call, if the caller may have one more.
    async fn begin<R: http_body::Body>(
        &self,
        key: Key,
        fingerprint: Fingerprint,
        caller: CallerId,
    ) -> Result<Begin, Response<Body<R>>> {
        let claim =
            async |key| self.call_of(key, fingerprint).begin().await.map_err(|error| self.told(&error));
        let Some(quota) = &self.quota else { return claim(key).await };
        let driver = &self.once.driver;
        if let Err(UsedUp { wait }) = quota.take(caller, driver.clock.now()) {
            // What is known already is answered all the same.
            let found = driver.look(&key, driver.clock.monotonic() + STORE_WAIT).await;
            let found = found.map_err(|error| self.told(&error))?;
            return if found.is_some_and(|it| !it.record.is_expired(driver.clock.now())) {
                claim(key).await
            } else {
                Err(Problem::QUOTA.response_after(&self.problems, wait))
            };
        }
        let begin = claim(key).await;
        if !matches!(&begin, Ok(Begin::Run(lease)) if lease.how() == How::Fresh) {
            quota.give_back(caller);
        }
        begin
    }

    fn problem<R: http_body::Body>(&self, problem: Problem) -> Response<Body<R>> {
        problem.response(&self.problems)
    }

    /// What the client is told of an error of ours.
    fn told<R: http_body::Body>(&self, error: &Error) -> Response<Body<R>> {
        match error.kind() {
            ErrorKind::Store | ErrorKind::Contended | ErrorKind::Lapsed => {
                Problem::STORE.response_after(&self.problems, STORE_WAIT)
            }
            ErrorKind::Unconfirmed => Problem::OUTCOME_UNCONFIRMED.response_after(&self.problems, STORE_WAIT),
            _ => self.problem(Problem::INTERNAL),
        }
    }

    /// The stored response, if it was kept.
    fn replay<R: http_body::Body>(&self, replay: &Replay) -> Response<Body<R>> {
        match stored_of(replay) {
            Ok(kept) => {
                let mut response = kept.into_replay();
                response.extensions_mut().insert(Answered::Replayed);
                response
            }
            Err(problem) => refused(self.problem(problem)),
        }
    }

    /// Calls the service under the lease, and writes what came of it. A problem is what the client gets instead.
    async fn run<S, B>(
        self: &Arc<Self>,
        mut service: S,
        mut request: Request<Body<B>>,
        lease: Lease,
    ) -> Result<Told<BodyOf<S::Response>>, S::Error>
    where
        S: Service<Request<Body<B>>, Response: HttpResponse>,
        B: http_body::Body,
        BodyOf<S::Response>: http_body::Body<Data = Bytes>,
    {
        let (lent, lender) = lend(lease);
        let is_head = request.method() == Method::HEAD;
        let kept_open = CallLease::put(lent, self, is_head, request.extensions_mut());
        let work = async {
            let answer = service.call(request).await.map(HttpResponse::into_response);
            drop(kept_open);
            match answer {
                Ok(response) => self.made(response, is_head, &lender).await,
                Err(error) => {
                    lender.returned().await;
                    Made::Error(error)
                }
            }
        };
        let made = match lender.lease().hold(in_span(lender.lease(), work)).await {
            Ok(made) => made,
            Err(lost) => return Ok(Err(self.told(&lost))),
        };
        match (lender.take_back().settle().await, made) {
            (Err(error), _) => Ok(Err(self.told(&error))),
            (Ok(Settled::Committed(_)), Made::InTransaction(response)) => Ok(Ok(response)),
            // Whatever the service said after the commit, this is what came of the request.
            (Ok(Settled::Committed(replay)), Made::Response { .. } | Made::Error(_)) => {
                let stored = stored_of(&replay).map(KeptResponse::into_response);
                Ok(stored.map_err(|problem| self.problem(problem)))
            }
            (Ok(Settled::Open(lease)), Made::Response { response, verdict, stored }) => {
                Ok(self.write(lease, response, verdict, &stored).await)
            }
            (Ok(Settled::Open(lease)), Made::InTransaction(_)) => {
                // Rolled back, so it did not happen. If this is not written, the lease lapses.
                let _ = lease.release("the transaction was not committed").await;
                Ok(Err(self.problem(Problem::INTERNAL)))
            }
            (Ok(Settled::Open(lease)), Made::Error(error)) => {
                // Whether this is written or not, the error is what the service said; if not, the lease lapses.
                let _ = lease.release("the service returned an error").await;
                Err(error)
            }
        }
    }

    /// Reads a response, as far as it has to be.
    async fn made<R, E>(&self, response: Response<R>, is_head: bool, lender: &Lender) -> Made<R, E>
    where
        R: http_body::Body<Data = Bytes>,
    {
        let (mut parts, body) = response.into_parts();
        strip_own(&mut parts.headers);
        if parts.extensions.remove::<InTransaction>().is_some() {
            lender.returned().await;
            return Made::InTransaction(Response::from_parts(parts, Body::pass(body)));
        }
        let verdict = verdict(&mut parts, self.stores_errors);
        let (body, stored) = match verdict {
            Verdict::Released | Verdict::Lost | Verdict::Unknown => (Body::pass(body), Vec::new()),
            Verdict::Kept if is_stream(&parts) => {
                (Body::pass(body), stored::encode_not_kept(parts.status, NotKept::Stream))
            }
            Verdict::Kept => self.read(&parts, body, is_head).await,
        };
        let response = Response::from_parts(parts, body);
        let clock = &*self.once.driver.clock;
        let is_back =
            within(clock, clock.monotonic() + self.response_wait, lender.returned()).await.is_some();
        let response = if is_back || response.body().is_whole() {
            response
        } else {
            // The lease may be in what was not read of the body, which nobody reads before the lease is back.
            drop(response);
            self.problem(Problem::INTERNAL)
        };
        lender.returned().await;
        Made::Response { response, verdict, stored }
    }

    /// Reads a body up to the limits, and gives it back with what is stored of the response.
    pub(super) async fn read<R>(&self, parts: &response::Parts, body: R, is_head: bool) -> (Body<R>, Vec<u8>)
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

    /// Writes what a response means; a problem is what the client gets instead.
    async fn write<R: http_body::Body>(
        &self,
        lease: Lease,
        mut response: Response<Body<R>>,
        verdict: Verdict,
        stored: &[u8],
    ) -> Told<R> {
        let said = format!("the service answered {}", response.status());
        let reruns = sabotage::is_on("http_oversized_reruns") && stored.get(1) == Some(&1);
        match verdict {
            Verdict::Kept if !reruns => match lease.complete_bytes(stored).await {
                Ok(()) => Ok(response),
                Err(error) => Err(self.told(&error)),
            },
            Verdict::Released | Verdict::Kept => {
                // Whether this is kept or not, it is what the service said; if not, the lease lapses.
                let _ = lease.release(said).await;
                Ok(response)
            }
            Verdict::Unknown => {
                let said = response.extensions_mut().remove().map_or(said, |Doubt(doubt)| doubt);
                let _ = lease.fail_unknown(said).await;
                Ok(response)
            }
            Verdict::Lost => Ok(response),
        }
    }
}

/// The stored response, or why there is none to give.
fn stored_of(replay: &Replay) -> Result<KeptResponse, Problem> {
    let bytes = replay.bytes().map_err(|error| match error.kind() {
        ErrorKind::Expired | ErrorKind::NotKept => Problem::RESPONSE_NOT_RETAINED,
        _ => Problem::INTERNAL,
    })?;
    stored::decode(&bytes.into()).ok_or(Problem::RESPONSE_NOT_RETAINED)
}
