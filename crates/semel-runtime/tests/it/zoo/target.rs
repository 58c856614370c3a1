//! A target that is told how to behave.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use rustls::RootCertStore;
use semel_core::BoxFuture;
use semel_runtime::deliver::{
    Answer, Client, Deliver as _, Delivery, Limits, Settings, Status,
    guard::{Policy, check_url},
};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

/// What a well-behaved target answers.
pub(super) const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";

/// What was seen of all connections to a target.
#[derive(Default, Debug)]
pub(super) struct Seen {
    connections: AtomicUsize,
    requests: AtomicUsize,
    sent_bytes: AtomicUsize,
    /// Told at each request that was read.
    pub(super) request: Notify,
    /// Told by the test when a connection that is held should end.
    pub(super) end: Notify,
}

impl Seen {
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(super) fn sent_bytes(&self) -> usize {
        self.sent_bytes.load(Ordering::SeqCst)
    }
}

/// A connection, from the target's side.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// How many were there before it.
    pub(super) nth: usize,
    seen: Arc<Seen>,
    buffer: Vec<u8>,
}

impl Connection {
    /// The next request, head and body as one text; `None` if there is none.
    pub(super) async fn request(&mut self) -> Option<String> {
        loop {
            if let Some(whole) = whole_request(&self.buffer) {
                let request: Vec<u8> = self.buffer.drain(..whole).collect();
                self.seen.requests.fetch_add(1, Ordering::SeqCst);
                self.seen.request.notify_one();
                return Some(String::from_utf8_lossy(&request).into_owned());
            }
            if self.stream.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// Sends bytes; `false` when the client has had enough.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> bool {
        let is_sent = self.stream.write_all(bytes).await.is_ok();
        if is_sent {
            self.seen.sent_bytes.fetch_add(bytes.len(), Ordering::SeqCst);
        }
        is_sent
    }

    /// Answers every request.
    pub(super) async fn behave(mut self) {
        while self.request().await.is_some() {
            if !self.send(GOOD).await {
                return;
            }
        }
    }

    /// Does nothing, until the client has gone.
    pub(super) async fn hold(mut self) {
        let mut buffer = [0; 4096];
        while self.stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    }

    /// Does nothing, until the test says that it should end.
    pub(super) async fn hold_until_told(self) {
        let seen = Arc::clone(&self.seen);
        tokio::select! {
            () = self.hold() => {}
            () = seen.end.notified() => {}
        }
    }

    /// Ends without a goodbye.
    pub(super) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

/// How long the first request in the buffer is, if it is there.
fn whole_request(buffer: &[u8]) -> Option<usize> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let whole = head + length.trim().parse::<usize>().unwrap();
    (buffer.len() >= whole).then_some(whole)
}

/// A target. Ends with its test.
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) seen: Arc<Seen>,
    task: JoinHandle<()>,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Target {
    /// A target that does this on each connection.
    pub(super) async fn start<F, Running>(on_connection: F) -> Self
    where
        F: Fn(Connection) -> Running + Send + 'static,
        Running: Future<Output = ()> + Send + 'static,
    {
        Self::start_at("127.0.0.1:0".parse().unwrap(), on_connection).await
    }

    pub(super) async fn start_at<F, Running>(address: SocketAddr, on_connection: F) -> Self
    where
        F: Fn(Connection) -> Running + Send + 'static,
        Running: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let nth = shared.connections.fetch_add(1, Ordering::SeqCst);
                let seen = Arc::clone(&shared);
                tokio::spawn(on_connection(Connection { stream, nth, seen, buffer: Vec::new() }));
            }
        });
        Self { address, seen, task }
    }

    pub(super) async fn good() -> Self {
        Self::start(Connection::behave).await
    }

    /// A target that does this on its first connection, and behaves on all others.
    pub(super) async fn first(animal: Animal) -> Self {
        Self::start(move |connection| match connection.nth {
            0 => animal(connection),
            _ => Box::pin(connection.behave()),
        })
        .await
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// A delivery like most.
    pub(super) fn delivery(&self) -> Delivery {
        delivery(&self.url())
    }
}

/// What a target does on a connection.
pub(super) type Animal = fn(Connection) -> BoxFuture<'static, ()>;

pub(super) fn delivery(url: &str) -> Delivery {
    let target = check_url(url, &anything()).unwrap();
    Delivery::new(target, HeaderMap::new(), Bytes::from("{}"), Duration::from_mins(1))
}

/// Every address and name, for the making of deliveries; the client has a policy of its own.
fn anything() -> Policy {
    Policy { allow: vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()], loopback: true }
}

/// A client that may call this machine.
pub(super) fn client() -> Client {
    client_with(Limits::default())
}

pub(super) fn client_with(limits: Limits) -> Client {
    Client::new(Settings { limits, ..settings() })
}

/// Of a client that may call this machine, and believes nobody.
pub(super) fn settings() -> Settings {
    Settings { policy: Policy::development(), roots: Some(RootCertStore::empty()), ..Settings::default() }
}

/// Checks that the next delivery works.
pub(super) async fn check_next(client: &Client, target: &Target) {
    let Answer::Status(status) = client.deliver(target.delivery()).await else { panic!("no answer") };
    assert_eq!(status.code, StatusCode::OK);
    assert_eq!(status.body, "good");
}

/// The status, if there is one.
pub(super) fn status(answer: Answer) -> Status {
    match answer {
        Answer::Status(status) => status,
        Answer::NotSent(cause) | Answer::Broken(cause) => panic!("{cause}"),
        Answer::TimedOut(stage) => panic!("no {stage:?} in time"),
    }
}
