//! The function, and the account that it charges.
//!
//! 1. What a call does is decided by the seed, its event and its attempt.
//! 2. The account charges once for each `Idempotency-Key`, as payment providers do, and counts every charge for each event:
//!    two keys for one event would be two charges.
//! 3. A call that finds its charge made came again. That is right if the call before it ended without an answer, was so slow
//!    that nobody may have waited for it, or was made by a server that has crashed since. Anything else is a call too many.
//! 4. Whose call it is, is known by its connection: what a server sent before it crashed may be read long after.

use super::{chance::Chance, plan::cents};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::net::TcpListener;

/// How long a call may have taken, and its answer surely been waited for: less than the function's timeout by far.
const PROMPT: Duration = Duration::from_millis(500);

/// The function, and the account that it charges.
#[derive(Debug)]
pub(super) struct Account {
    seed: u64,
    books: Mutex<Books>,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    /// By `Idempotency-Key`.
    charges: HashMap<String, Charge>,
    /// How often each event was charged, and for how much.
    by_event: HashMap<u32, (u32, u64)>,
    /// Calls that came.
    pub(super) calls: u64,
    /// Calls that failed: answered with an error, or not at all.
    pub(super) failed: u64,
    /// Calls that found their charge made.
    pub(super) repeated: u64,
    /// Of them, those that nothing explains.
    pub(super) too_many: u64,
    /// Which server is running: the first is 0.
    life: u32,
    /// Who connected last.
    last_peer: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Charge {
    /// During which server's life it was last told to be made, in time.
    told_in: Option<u32>,
}

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behaviour {
    Charge,
    Slow(Duration),
    Fail,
    CrashBefore,
    CrashAfter,
}

impl Behaviour {
    fn of(seed: u64, event: u32, attempt: u64) -> Self {
        let mut chance = Chance::new(seed, &[2, u64::from(event), attempt]);
        match chance.below(100) {
            0..8 => Self::Fail,
            8..12 => Self::CrashBefore,
            12..16 => Self::CrashAfter,
            16..22 => Self::Slow(Duration::from_millis(10 + chance.below(90))),
            _ => Self::Charge,
        }
    }
}

/// The function ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the function crashed")]
struct Crashed;

impl Account {
    /// Starts the function in the surrounding runtime.
    pub(super) async fn start(seed: u64) -> io::Result<(SocketAddr, Arc<Self>)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let account = Arc::new(Self { seed, books: Mutex::default() });
        let called = Arc::clone(&account);
        tokio::spawn(async move {
            loop {
                let Ok((stream, peer)) = listener.accept().await else { continue };
                let life = called.books().connected(peer);
                // Without it, answers are slower and not wrong.
                let _ = stream.set_nodelay(true);
                let account = Arc::clone(&called);
                let service = service_fn(move |request| {
                    let account = Arc::clone(&account);
                    async move { account.call(request, life).await }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok((address, account))
    }

    /// What happened so far.
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the server that had this life.
    async fn call(&self, request: Request<Incoming>, life: u32) -> Result<Response<Full<Bytes>>, Crashed> {
        let since = Instant::now();
        self.books().calls += 1;
        let (head, body) = request.into_parts();
        let Some((event, attempt, key)) = named(&head.headers) else {
            return Ok(self.failed(StatusCode::BAD_REQUEST));
        };
        // What it is charged is in the body.
        let Some(cents) = body.collect().await.ok().and_then(|it| amount(&it.to_bytes())) else {
            return Ok(self.failed(StatusCode::BAD_REQUEST));
        };
        match Behaviour::of(self.seed, event, attempt) {
            Behaviour::Fail => return Ok(self.failed(StatusCode::INTERNAL_SERVER_ERROR)),
            Behaviour::CrashBefore => return Err(self.crashed()),
            Behaviour::CrashAfter => {
                self.books().charge(&key, event, cents, life);
                return Err(self.crashed());
            }
            Behaviour::Slow(delay) => tokio::time::sleep(delay).await,
            Behaviour::Charge => {}
        }
        let mut books = self.books();
        books.charge(&key, event, cents, life);
        let told_in = (since.elapsed() < PROMPT).then_some(life);
        books.charges.insert(key, Charge { told_in });
        Ok(Response::new(Full::new(Bytes::from_static(b"{\"charged\":true}"))))
    }

    fn failed(&self, status: StatusCode) -> Response<Full<Bytes>> {
        self.books().failed += 1;
        let mut response = Response::new(Full::default());
        *response.status_mut() = status;
        response
    }

    fn crashed(&self) -> Crashed {
        self.books().failed += 1;
        Crashed
    }
}

impl Books {
    /// The server has crashed, and this is who connected after it: what it was told may be lost. Whether everybody who connected
    /// before was seen, so that another server can begin.
    pub(super) fn is_over(&mut self, since: SocketAddr) -> bool {
        let is_over = self.last_peer == Some(since);
        self.life += u32::from(is_over);
        is_over
    }

    /// Somebody connects: the server that has this life.
    fn connected(&mut self, peer: SocketAddr) -> u32 {
        self.last_peer = Some(peer);
        self.life
    }

    /// Charges, unless this key was charged before. A server that has this life says so.
    fn charge(&mut self, key: &str, event: u32, cents: u64, life: u32) {
        if let Some(charge) = self.charges.get(key) {
            self.repeated += 1;
            self.too_many += u64::from(charge.told_in == Some(life));
            return;
        }
        self.charges.insert(key.to_owned(), Charge { told_in: None });
        let (times, sum) = self.by_event.entry(event).or_default();
        *times += 1;
        *sum += cents;
    }

    /// How many charges were made.
    pub(super) fn effects(&self) -> u64 {
        self.charges.len() as u64
    }

    /// The events that were not charged once, with their own amount.
    pub(super) fn wrong(&self, events: u32) -> Vec<u32> {
        (0..events).filter(|it| self.by_event.get(it) != Some(&(1, cents(*it)))).collect()
    }
}

/// Which event a call is about, which attempt it is, and its `Idempotency-Key`.
fn named(headers: &HeaderMap) -> Option<(u32, u64, String)> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let event = text("ce-id")?.strip_prefix("order-")?.parse().ok()?;
    Some((event, text("semel-attempt")?.parse().ok()?, text("idempotency-key")?.to_owned()))
}

fn amount(body: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(body).ok()?["cents"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(books: &mut Books, key: &str) {
        books.charges.insert(key.to_owned(), Charge { told_in: Some(books.life) });
    }

    #[test]
    fn two_keys_for_one_event_are_two_charges() {
        let mut books = Books::default();
        books.charge("a", 0, cents(0), 0);
        books.charge("a", 0, cents(0), 0);
        assert!(books.wrong(1).is_empty());
        books.charge("b", 0, cents(0), 0);
        assert_eq!((books.effects(), books.wrong(1)), (2, vec![0]));
    }

    #[test]
    fn an_event_that_is_missing_or_has_another_amount_is_wrong() {
        let mut books = Books::default();
        books.charge("a", 0, cents(0) + 1, 0);
        assert_eq!(books.wrong(2), [0, 1]);
    }

    #[test]
    fn a_call_after_an_answer_is_one_too_many_unless_the_server_crashed_in_between() {
        let mut books = Books::default();
        books.charge("a", 0, cents(0), 0);
        books.charge("a", 0, cents(0), 0);
        assert_eq!((books.repeated, books.too_many), (1, 0), "nobody heard of the first");
        told(&mut books, "a");
        let [old, probe, new] = [1, 2, 3].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        assert_eq!((books.connected(old), books.is_over(probe)), (0, false), "it may have connected again");
        assert_eq!((books.connected(probe), books.is_over(probe), books.connected(new)), (0, true, 1));
        books.charge("a", 0, cents(0), 1);
        assert_eq!((books.repeated, books.too_many), (2, 0), "the server crashed");
        told(&mut books, "a");
        books.charge("a", 0, cents(0), 0);
        assert_eq!((books.repeated, books.too_many), (3, 0), "what the old server sent was read after that");
        books.charge("a", 0, cents(0), 1);
        assert_eq!((books.repeated, books.too_many), (4, 1));
    }
}
