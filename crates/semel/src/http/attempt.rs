//! Carrying a request out once, or giving what came of it before.
//!
//! 1. The call is claimed, and the inner service called, under a lease that is renewed while it works and while its
//!    response is read.
//! 2. What it answered is written before its client sees anything of it.
//! 3. What the store cannot tell is not guessed: see the table in [`super`].
//! 4. What happens rarely is boxed, so that what happens always fits into a small future.

use super::{
    Answered, Body, CallLease, Problem,
    caller::CallerId,
    fingerprint::{Asked, fingerprint},
    layer::{CallSettings, Settings},
    problem::STORE_WAIT,
    quota::{Counted, UsedUp},
    refusal::Refused,
    response::Made,
    route::{Named, path_and_query, route_of},
    service::{BodyOf, HttpResponse},
    stored::{self, KeptResponse, Stored},
    verdict::{Doubt, Verdict},
};
use crate::{
    begin::{Begin, How, Replay},
    call::{Call, OnBusy},
    error::{Error, ErrorKind},
    lease::Lease,
    race::{InPlace, boxed},
    service::lend,
    transaction::Settled,
};
use ::http::{HeaderMap, Method, Request, Response, request::Parts};
use bytes::Bytes;
use semel_core::{
    fingerprint::Fingerprint,
    key::{Key, PartRef},
    record::Reason,
};
use std::{pin::pin, sync::Arc};
use tower_service::Service;

/// Room for the kept headers of a response, beside its body.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What the head of a request with a key says.
pub(super) struct Admitted {
    /// What the request names.
    pub(super) key: Key,
    pub(super) caller: CallerId,
    /// Where it goes, if the layer has a function that tells.
    pub(super) route: Option<String>,
}

impl Admitted {
    pub(super) fn new(settings: &Settings, parts: &Parts, key: &str, caller: CallerId) -> Self {
        let told = settings.route.as_ref().map(|route| route(parts));
        let (method, route) = (parts.method.as_str(), told.as_deref().unwrap_or_else(|| route_of(parts)));
        let scope = [Named::new(&settings.service), Named::new(method), Named::new(route)];
        // The caller stands with the id, so that the scope, which metrics are labelled by, is one of a few.
        let id = [PartRef::Bytes(&caller.0), PartRef::Text(key)];
        let key = Key::of_refs(&scope.each_ref().map(Named::part), &id);
        let key = key.expect("its parts are checked, and none is long");
        Self { key, caller, route: told }
    }
}

/// A request with a key, and the service that is ready for it.
pub(super) struct Attempt<S> {
    service: S,
    pub(super) parts: Parts,
    /// Gone when the call was described.
    key: Option<Key>,
    caller: CallerId,
    route: Option<String>,
    /// Empty until it was read.
    pub(super) body: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

impl<S> Attempt<S> {
    // Inlined, so that it is made where it stays.
    #[inline]
    pub(super) fn new(service: S, parts: Parts, admitted: Admitted) -> Self {
        let Admitted { key, caller, route } = admitted;
        Self { service, parts, key: Some(key), caller, route, body: Bytes::new(), trailers: None }
    }

    /// Calls the service, or gives what came of it before.
    pub(super) async fn run<B>(
        mut self: Box<Self>,
        settings: Arc<Settings>,
    ) -> Result<Response<Body<BodyOf<S::Response>>>, S::Error>
    where
        S: Service<Request<Body<B>>, Response: HttpResponse> + Send,
        S::Error: Send,
        B: http_body::Body,
        BodyOf<S::Response>: http_body::Body<Data = Bytes, Error: Send> + Send,
    {
        let _under_way = settings.works.begin();
        let begin = match settings.quota.as_deref() {
            Some(quota) => {
                let call = self.call(&settings);
                boxed(settings.begin_within(quota, call, self.caller)).await
            }
            None => self.call(&settings).begin().await.map_err(Refusal::Error),
        };
        // What is matched on stays in the future while an arm waits: nothing does here.
        let lease = match lease_of(begin) {
            Ok(lease) => lease,
            Err(not_run) => return Ok(settings.told_instead(&self.parts.headers, not_run)),
        };
        settings.run(self, lease).await
    }

    /// What the request names, and what it asks for.
    fn call(&mut self, settings: &Settings) -> Call {
        let Self { parts, key, route, body, .. } = self;
        let key = key.take().expect("a call is described once");
        let (method, path_and_query) = (parts.method.as_str(), path_and_query(parts));
        let route = route.as_deref().unwrap_or_else(|| route_of(parts));
        let asked = Asked { method, route, path_and_query, headers: &parts.headers };
        settings.call(key, fingerprint(&asked, &settings.compared, body))
    }
}

/// Calls the service. Not in an `async` block, which would keep room for the request beside the answer.
#[expect(clippy::boxed_local, reason = "it is moved out of its box here, and nowhere before")]
fn call<S, B>(attempt: Box<Attempt<S>>) -> S::Future
where
    S: Service<Request<Body<B>>>,
    B: http_body::Body,
{
    let Attempt { mut service, parts, body, trailers, .. } = *attempt;
    service.call(Request::from_parts(parts, Body::whole(body, trailers)))
}

/// Why a call was not begun.
enum Refusal {
    Error(Error),
    Quota(UsedUp),
}

/// What became of a call that is not to be run.
enum NotRun {
    Begun(Begin),
    Refused(Refusal),
}

/// The lease to carry the request out under.
fn lease_of(begin: Result<Begin, Refusal>) -> Result<Lease, NotRun> {
    match begin {
        Ok(Begin::Run(lease)) => Ok(lease),
        Ok(begun) => Err(NotRun::Begun(begun)),
        Err(refusal) => Err(NotRun::Refused(refusal)),
    }
}

impl Settings {
    fn call(&self, key: Key, fingerprint: Fingerprint) -> Call {
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
    async fn begin_within(&self, quota: &Counted, call: Call, caller: CallerId) -> Result<Begin, Refusal> {
        let driver = &self.once.driver;
        let retention = self.call.retention.unwrap_or(driver.defaults.terms.retention);
        let taken = match quota.take(caller, driver.clock.now(), retention) {
            Ok(taken) => taken,
            Err(used_up) => {
                // What is known already is answered all the same.
                let (key, _) = call.described().map_err(Refusal::Error)?;
                let found = driver.look(&key, driver.clock.monotonic() + STORE_WAIT).await;
                return match found.map_err(Refusal::Error)? {
                    Some(it) if !it.record.is_expired(driver.clock.now()) => {
                        call.begin().await.map_err(Refusal::Error)
                    }
                    Some(_) | None => Err(Refusal::Quota(used_up)),
                };
            }
        };
        let begin = call.begin().await;
        if !matches!(&begin, Ok(Begin::Run(lease)) if lease.how() == How::Fresh) {
            quota.give_back(caller, taken);
        }
        begin.map_err(Refusal::Error)
    }

    /// What a client that sent these headers is told instead of being served.
    fn told_instead<R: http_body::Body>(&self, sent: &HeaderMap, not_run: NotRun) -> Response<Body<R>> {
        let refused = match not_run {
            NotRun::Begun(begin) => match self.not_run(begin) {
                Ok(kept) => return self.marked(kept.into_replay(), Answered::Replayed),
                Err(refused) => refused,
            },
            NotRun::Refused(Refusal::Error(error)) => Refused::by(&error),
            NotRun::Refused(Refusal::Quota(UsedUp { wait })) => Refused::for_now(Problem::QUOTA, wait),
        };
        self.refused_to(sent, refused)
    }

    /// What the client gets if there is nothing to be carried out.
    fn not_run(&self, begin: Begin) -> Result<KeptResponse, Refused> {
        match begin {
            Begin::Replay(replay) => stored_of(replay),
            Begin::Failed(failure) if failure.reason() == Reason::OutcomeUnknown => {
                Err(Refused::in_doubt(failure.key().clone()))
            }
            Begin::Busy { until, .. } => {
                let left = until.since(self.once.driver.clock.now());
                Err(Refused::for_now(Problem::IN_PROGRESS, left))
            }
            Begin::Mismatch { .. } => Err(Problem::MISMATCH.into()),
            // Nobody but an operator makes such records of requests; and what is to be run is run.
            Begin::Failed(_) | Begin::Run(_) => Err(Problem::INTERNAL.into()),
        }
    }

    /// What the client is told of an error of ours.
    fn told_of<R: http_body::Body>(&self, error: &Error) -> Response<Body<R>> {
        self.refused(Refused::by(error))
    }

    /// Calls the service under the lease, and writes what came of it.
    async fn run<S, B>(
        self: &Arc<Self>,
        mut attempt: Box<Attempt<S>>,
        lease: Lease,
    ) -> Result<Response<Body<BodyOf<S::Response>>>, S::Error>
    where
        S: Service<Request<Body<B>>, Response: HttpResponse>,
        S::Error: Send,
        B: http_body::Body,
        BodyOf<S::Response>: http_body::Body<Data = Bytes, Error: Send> + Send,
    {
        let answered = answered(lease.how());
        let (lent, lender) = lend(lease);
        let is_head = attempt.parts.method == Method::HEAD;
        let kept_open = CallLease::put(lent, self, is_head, &mut attempt.parts.extensions);
        // It is made where it stays: an answer is large, and would be moved from each future to the next.
        let mut made = None;
        let held = {
            let work = pin!(Some(async {
                let sorted = self.sorted(call(attempt).await.map(HttpResponse::into_response), is_head);
                drop(kept_open);
                self.make(&mut made, sorted, is_head, &lender).await;
            }));
            lender.lease().hold_in_span(InPlace::new(work)).await
        };
        if let Err(lost) = held {
            return Ok(self.told_of(&lost));
        }
        let lease = lender.take_back();
        let stored = match &mut made {
            Some(Made::Kept { stored, .. }) if !lease.is_in_transaction() => std::mem::take(stored),
            _ => return boxed(self.end(lease, made.take().expect("it was made"), answered)).await,
        };
        match lease.complete_encoded(stored).await {
            Ok(()) => match made {
                Some(Made::Kept { mut response, .. }) => {
                    self.mark(&mut response, answered);
                    Ok(response)
                }
                _ => unreachable!("what is stored was kept"),
            },
            Err(error) => Ok(self.told_of(&error)),
        }
    }

    /// Writes what came of a request that did not simply succeed.
    async fn end<R, E>(
        &self,
        lease: Lease,
        made: Made<R, E>,
        answered: Answered,
    ) -> Result<Response<Body<R>>, E>
    where
        R: http_body::Body<Data = Bytes>,
    {
        let lease = match lease.settle().await {
            Err(error) => return Ok(self.told_of(&error)),
            Ok(Settled::Open(lease)) => lease,
            Ok(Settled::Committed(replay)) => {
                // Whatever the service said after the commit, what was committed is what came of the request.
                let response = match made {
                    Made::InTransaction(response) => Ok(response),
                    Made::Kept { .. } | Made::Ended { .. } | Made::Error(_) => {
                        stored_of(replay).map(KeptResponse::into_response)
                    }
                };
                let marked = response.map(|it| self.marked(it, answered));
                return Ok(marked.unwrap_or_else(|refused| self.refused(refused)));
            }
        };
        // If one of these is not written, the lease lapses; what the service said is what it said.
        match made {
            Made::Kept { response, stored } => Ok(match lease.complete_encoded(stored).await {
                Ok(()) => self.marked(response, answered),
                Err(error) => self.told_of(&error),
            }),
            Made::Ended { mut response, verdict } => {
                let said = format!("the service answered {}", response.status());
                let _ = match verdict {
                    Verdict::Released | Verdict::Kept => lease.release(said).await,
                    Verdict::Unknown => {
                        let doubt = response.extensions_mut().remove().map(|Doubt(doubt)| doubt);
                        lease.fail_unknown(doubt.unwrap_or(said)).await
                    }
                    Verdict::Lost => Ok(()),
                };
                Ok(self.marked(response, answered))
            }
            Made::InTransaction(_) => {
                // Rolled back, so it did not happen.
                let _ = lease.release("the transaction was not committed").await;
                Ok(self.refused(Problem::INTERNAL))
            }
            Made::Error(error) => {
                let _ = lease.release("the service returned an error").await;
                Err(error)
            }
        }
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

/// The stored response, or why there is none to give.
fn stored_of(replay: Replay) -> Result<KeptResponse, Refused> {
    let bytes = replay.into_bytes().map_err(|error| match error.kind() {
        ErrorKind::Expired | ErrorKind::NotKept => Problem::RESPONSE_NOT_RETAINED,
        _ => Problem::INTERNAL,
    })?;
    match stored::decode(&bytes) {
        Some(Stored::Kept(kept)) => Ok(kept),
        Some(Stored::NotKept { unkept, .. }) => Err(Refused::not_retained(unkept)),
        None => Err(Problem::RESPONSE_NOT_RETAINED.into()),
    }
}
