//! From a request to its answer.

use super::{
    absent::Absentees,
    auth::Denied,
    body::{BodyLimits, read_body},
    count::Counters,
    plain::{NotPlain, plain},
    problems::{
        BUSY, ENCODING, ENCODING_INVALID, EVENT_INVALID, FUNCTION_ABSENT, IN_ORDER, KEYS_UNAVAILABLE,
        MEDIA_TYPE, METHOD, NOT_FOUND, REFUSED, STOPPING, STORE, TOO_LARGE, UNAUTHORIZED, told, told_after,
        told_as, told_with,
    },
    receipt::{Verdict, write, write_item, write_refused},
    source::{Source, Sources},
    subscription,
    sync::{Said, has_mismatch, said_json},
};
use crate::{config::Mode, listen::Memory, serve::Answer};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{ACCEPT_ENCODING, ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE},
};
use http_body::Body as _;
use hyper::body::Incoming;
use semel::http::{Problem, ProblemBase};
use semel_core::{sabotage::is_on, time::Clock};
use semel_events::{
    encoding::{ACCEPTED, EncodingError},
    event::Event,
    format::{ReadError, Received, read},
    handshake::Handshake,
};
use semel_runtime::{Receipt, Refused, Runtime};
use std::{
    net::IpAddr,
    slice,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tracing::warn;

/// How long a request waits for memory.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// When an event is to come again that a function would take which is not here: by then it may have been put anew.
const ABSENT_WAIT: Duration = Duration::from_secs(30);

/// Takes events in.
pub(crate) struct Ingest {
    pub(crate) runtime: Runtime,
    /// What signatures and tokens are judged by.
    clock: Arc<dyn Clock>,
    sources: RwLock<Arc<Sources>>,
    absentees: Absentees,
    limits: BodyLimits,
    memory: Memory,
    problems: ProblemBase,
    pub(crate) counters: Counters,
}

/// What the log says of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Noted {
    /// How many events were new.
    pub(crate) new: u64,
    /// How many had come before.
    pub(crate) duplicates: u64,
    /// How long the body was.
    pub(crate) received: u64,
    /// Why it was refused, for the operator.
    pub(crate) cause: Option<String>,
}

/// Why a request is refused.
pub(super) enum Refusal {
    Plain(Problem),
    /// With a sentence of its own.
    Said(Problem, String),
    /// For now.
    After(Problem, Duration),
    /// Nobody knows who sends.
    Unknown,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Plain(problem)
    }
}

impl Ingest {
    pub(crate) fn new(
        runtime: Runtime,
        sources: Sources,
        absentees: Absentees,
        limits: BodyLimits,
        buffer_bytes_max: u64,
        problems: ProblemBase,
    ) -> Self {
        let clock = runtime.queue().clock();
        let sources = RwLock::new(Arc::new(sources));
        let memory = Memory::new(buffer_bytes_max, ROOM_WAIT);
        Self { runtime, clock, sources, absentees, limits, memory, problems, counters: Counters::default() }
    }

    /// From now on there are these sources.
    pub(crate) fn replace(&self, sources: Sources) {
        *self.sources.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(sources);
    }

    /// Answers a request to `/events`, or to `/sources/NAME`. Its address has a share of the memory, unless there is none.
    pub(crate) async fn answer(
        &self,
        name: Option<&str>,
        request: Request<Incoming>,
        address: Option<IpAddr>,
    ) -> (Response<Answer>, Noted) {
        let mut noted = Noted::default();
        let sources = Arc::clone(&self.sources.read().unwrap_or_else(PoisonError::into_inner));
        let found = match name {
            None => Some(sources.events()),
            Some(name) => sources.named(name),
        };
        let Some(source) = found else { return (self.refused(None, NOT_FOUND.into()), noted) };
        let response = match *request.method() {
            Method::POST => self.posted(source, request, address, &mut noted).await,
            Method::OPTIONS => Ok(asked(source, request.headers(), &self.problems)),
            _ => Err(METHOD.into()),
        };
        (response.unwrap_or_else(|refusal| self.refused(Some(source), refusal)), noted)
    }

    fn refused(&self, source: Option<&Source>, refusal: Refusal) -> Response<Answer> {
        let (problem, mut response) = match refusal {
            Refusal::Plain(problem) => (problem, told(&problem, &self.problems)),
            Refusal::Said(problem, detail) => (problem, told_as(&problem, &self.problems, &detail)),
            Refusal::After(problem, wait) => (problem, told_after(&problem, &self.problems, wait)),
            Refusal::Unknown => (UNAUTHORIZED, told(&UNAUTHORIZED, &self.problems)),
        };
        self.counters.refused(problem.slug());
        let headers = response.headers_mut();
        if problem == UNAUTHORIZED
            && let Some(source) = source
        {
            headers.insert(WWW_AUTHENTICATE, source.auth.challenge());
        } else if problem == METHOD {
            headers.insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        } else if problem == ENCODING {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED));
        }
        response
    }

    async fn posted(
        &self,
        source: &Source,
        request: Request<Incoming>,
        address: Option<IpAddr>,
        noted: &mut Noted,
    ) -> Result<Response<Answer>, Refusal> {
        let (head, body) = request.into_parts();
        let headers = &head.headers;
        // By the clock that whoever signed it goes by.
        let now = self.clock.wall();
        let checked = source.auth.check_head(headers, now).await;
        checked.map_err(|denied| denied_as(denied, noted))?;
        let expected = body.size_hint();
        if expected.lower() > self.limits.bytes_max {
            return Err(TOO_LARGE.into());
        }
        let room = expected.upper().unwrap_or(self.limits.bytes_max).min(self.limits.bytes_max);
        // Held until it is answered, as far as it is needed.
        let taken = match self.memory.try_take(room, address) {
            Some(room) => Some(room),
            None => Box::pin(self.memory.take(room, address)).await,
        };
        let mut room = taken.ok_or(Refusal::After(BUSY, ROOM_WAIT))?;
        let body = read_body(body, &self.limits).await?;
        room.keep(body.len() as u64);
        noted.received = body.len() as u64;
        Counters::add(&self.counters.received_bytes, noted.received);
        let checked = source.auth.check_body(headers, &body, now).await;
        checked.map_err(|denied| denied_as(denied, noted))?;
        let (body, _room) =
            plain(&self.memory, room, headers, body, self.limits.bytes_max).await.map_err(plain_problem)?;
        let received = read(source.format, headers, &body, &source.settings).map_err(|error| {
            noted.cause = Some(error.to_string());
            event_problem(error)
        })?;
        match (received, source.mode) {
            (Received::One(event), Mode::Async) => self.one(source, headers, &event, noted).await,
            // What is less frequent is boxed, and takes no room in the future of the rest.
            (Received::One(event), Mode::Sync) => Box::pin(self.called(source, headers, &event, noted)).await,
            // Nobody could say with one status what became of several.
            (Received::Batch(items), _) => Box::pin(self.batch(source, headers, items, noted)).await,
            (Received::Subscription(subscription), _) => {
                Box::pin(subscription::answer(source, &subscription)).await
            }
            (Received::Nothing, _) => Ok(json(StatusCode::OK, b"{\"events\":[]}".to_vec())),
        }
    }

    async fn accepted(
        &self,
        source: &Source,
        headers: &HeaderMap,
        events: &[Event],
    ) -> Result<Vec<Receipt>, Refusal> {
        self.all_are_here(source, events)?;
        let accepted = match &source.functions {
            None => self.runtime.accept(events, headers).await,
            Some(only) => self.runtime.accept_for(events, headers, only).await,
        };
        accepted.map_err(|refused| not_taken(&refused))
    }

    /// Calls the functions, and answers with what they said.
    async fn called(
        &self,
        source: &Source,
        headers: &HeaderMap,
        event: &Event,
        noted: &mut Noted,
    ) -> Result<Response<Answer>, Refusal> {
        self.all_are_here(source, slice::from_ref(event))?;
        let called = match &source.functions {
            None => self.runtime.call(event, headers).await,
            Some(only) => self.runtime.call_for(event, headers, only).await,
        };
        let called = called.map_err(|refused| not_taken(&refused))?;
        let said = Said::of(&called, || self.has_functions());
        match said {
            Said::Done { is_replay: true } => {
                noted.duplicates += 1;
                Counters::add(&self.counters.duplicates, 1);
                Counters::add(&self.counters.mismatches, u64::from(has_mismatch(&called)));
            }
            Said::Done { is_replay: false } => {
                noted.new += 1;
                Counters::add(&self.counters.new, 1);
            }
            Said::Unmatched => Counters::add(&self.counters.unmatched, 1),
            Said::Refused(problem) => return Err(problem.into()),
            Said::Later(problem, wait) => return Err(Refusal::After(problem, wait)),
        }
        Counters::add(&self.counters.taken, 1);
        Ok(json(StatusCode::OK, said_json(event, &called)))
    }

    /// Whether all functions that take these events can be called from here.
    fn all_are_here(&self, source: &Source, events: &[Event]) -> Result<(), Refusal> {
        if self.absentees.would_take(events, source.functions.as_deref()) {
            return Err(Refusal::After(FUNCTION_ABSENT, ABSENT_WAIT));
        }
        Ok(())
    }

    fn has_functions(&self) -> bool {
        self.runtime.status().iter().any(|it| !it.is_removed)
    }

    async fn one(
        &self,
        source: &Source,
        headers: &HeaderMap,
        event: &Event,
        noted: &mut Noted,
    ) -> Result<Response<Answer>, Refusal> {
        let receipts = self.accepted(source, headers, slice::from_ref(event)).await?;
        let receipt = receipts.first().expect("each event has a receipt");
        let verdict = self.judged(receipt, noted);
        if let Verdict::Refused(problem) = verdict {
            return Err(problem.into());
        }
        Counters::add(&self.counters.taken, 1);
        let mut body = Vec::with_capacity(256);
        write(&mut body, event, receipt, &verdict);
        Ok(json(verdict.status(), body))
    }

    async fn batch(
        &self,
        source: &Source,
        headers: &HeaderMap,
        items: Vec<Result<Event, ReadError>>,
        noted: &mut Noted,
    ) -> Result<Response<Answer>, Refusal> {
        let events: Vec<Event> = items.iter().filter_map(|it| it.as_ref().ok()).cloned().collect();
        let receipts =
            if events.is_empty() { Vec::new() } else { self.accepted(source, headers, &events).await? };
        let mut taken = events.iter().zip(&receipts);
        let mut body = Vec::with_capacity(256 * items.len().max(1));
        let (mut is_new, mut is_refused) = (false, false);
        for item in &items {
            body.push(if body.is_empty() { b'[' } else { b',' });
            match item {
                Ok(_) => {
                    let (event, receipt) = taken.next().expect("each event has a receipt");
                    let verdict = self.judged(receipt, noted);
                    is_new |= verdict == Verdict::New;
                    is_refused |= matches!(verdict, Verdict::Refused(_));
                    write_item(&mut body, event, receipt, &verdict, &self.problems);
                }
                Err(error) => {
                    is_refused = true;
                    let (problem, detail) = event_problem_parts(*error);
                    write_refused(&mut body, &problem, &self.problems, &detail);
                }
            }
        }
        if body.is_empty() {
            body.push(b'[');
        }
        body.push(b']');
        if is_refused && !is_on("ingest_batch_hides_refusals") {
            self.counters.refused(REFUSED.slug());
            return Ok(told_with(&REFUSED, &self.problems, &body));
        }
        Counters::add(&self.counters.taken, 1);
        Ok(json(if is_new { StatusCode::ACCEPTED } else { StatusCode::OK }, body))
    }

    /// What a receipt means; counted and noted.
    fn judged(&self, receipt: &Receipt, noted: &mut Noted) -> Verdict {
        let verdict = Verdict::of(receipt, || self.has_functions());
        match &verdict {
            Verdict::New => {
                noted.new += 1;
                Counters::add(&self.counters.new, 1);
            }
            Verdict::Duplicate { is_mismatch } => {
                noted.duplicates += 1;
                Counters::add(&self.counters.duplicates, 1);
                Counters::add(&self.counters.mismatches, u64::from(*is_mismatch));
            }
            Verdict::Unmatched => Counters::add(&self.counters.unmatched, 1),
            Verdict::Refused(_) => {
                if let Receipt::Refused(unroutable) = receipt {
                    noted.cause = Some(unroutable.to_string());
                }
            }
        }
        verdict
    }
}

/// What is told where nothing was taken, or nobody can tell.
fn not_taken(refused: &Refused) -> Refusal {
    let wait = refused.retry_after();
    match refused {
        Refused::Busy { .. } => Refusal::After(BUSY, wait),
        Refused::Stopping => Refusal::After(STOPPING, wait),
        Refused::InOrder { function } => {
            warn!(
                function = &**function,
                "a source with `mode = \"sync\"` reaches a function that has an `order`"
            );
            Refusal::After(IN_ORDER, wait)
        }
        _ => {
            warn!(error = %chain(refused), "events cannot be stored");
            Refusal::After(STORE, wait)
        }
    }
}

/// What is told to whoever is not let in; the operator is told why.
fn denied_as(denied: Denied, noted: &mut Noted) -> Refusal {
    match denied {
        Denied::Refused(cause) => {
            noted.cause = Some(cause.to_string());
            Refusal::Unknown
        }
        Denied::NoKeys => Refusal::After(KEYS_UNAVAILABLE, super::auth::FETCH_EVERY),
    }
}

/// Answers CloudEvents' question whether somebody may send.
fn asked(source: &Source, headers: &HeaderMap, problems: &ProblemBase) -> Response<Answer> {
    let mut response = Response::new(Answer::empty());
    match source.senders.answer(headers) {
        Handshake::Allowed(headers) => *response.headers_mut() = headers,
        Handshake::Unanswered => {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        }
        Handshake::Malformed => return told(&super::problems::BAD_REQUEST, problems),
    }
    response
}

fn plain_problem(error: NotPlain) -> Refusal {
    match error {
        NotPlain::Busy => Refusal::After(BUSY, ROOM_WAIT),
        NotPlain::Encoding(error) => encoding_problem(error).into(),
    }
}

fn encoding_problem(error: EncodingError) -> Problem {
    match error.status() {
        415 => ENCODING,
        413 => TOO_LARGE,
        _ => ENCODING_INVALID,
    }
}

fn event_problem(error: ReadError) -> Refusal {
    let (problem, detail) = event_problem_parts(error);
    Refusal::Said(problem, detail)
}

fn event_problem_parts(error: ReadError) -> (Problem, String) {
    let problem = match error.status() {
        415 => MEDIA_TYPE,
        413 => TOO_LARGE,
        _ => return (EVENT_INVALID, format!("What was sent is no event: {error}.")),
    };
    (problem, problem.detail().to_owned())
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Answer> {
    let mut response = Response::new(Answer::from(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error and everything that caused it, in a line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}
