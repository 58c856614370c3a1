//! An upstream in this process: it notes what it is asked, and answers as the test says.

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    net::TcpListener,
    sync::{Notify, Semaphore},
};

pub(crate) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What an upstream was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        self.headers.get_all(name).iter().map(|it| it.to_str().unwrap()).collect()
    }
}

/// An upstream that runs until this is dropped.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// Counted when a request's head has come.
    calls: AtomicUsize,
    connections: AtomicUsize,
    asked: Mutex<Vec<Asked>>,
    /// Told when a head has come, and when a request was read to its end.
    came: Notify,
}

impl Upstream {
    /// Answers each request, read to its end, with what the function gives.
    pub(crate) async fn start<F>(answer: impl Fn(Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let answer = Arc::new(answer);
        Self::serve(move |request, shared| {
            let answer = Arc::clone(&answer);
            async move {
                let asked = read(request).await;
                shared.asked.lock().unwrap().push(asked.clone());
                shared.came.notify_waiters();
                answer(asked).await
            }
        })
        .await
    }

    /// Answers every request with its own body.
    pub(crate) async fn echo() -> Self {
        Self::start(async |asked: Asked| answer(200, asked.body)).await
    }

    /// Answers every request with its own body, when it is let.
    pub(crate) async fn gated() -> (Self, Gate) {
        let gate = Gate::closed();
        let held = gate.clone();
        let upstream = Self::start(move |asked: Asked| {
            let held = held.clone();
            async move {
                held.pass().await;
                answer(200, asked.body)
            }
        });
        (upstream.await, gate)
    }

    /// Answers each request, whose body is not read yet, with what the function gives.
    pub(crate) async fn streaming<F>(answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        Self::serve(move |request, _| answer(request)).await
    }

    async fn serve<F>(answer: impl Fn(Request<Incoming>, Arc<Shared>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let (answer, counted) = (Arc::new(answer), Arc::clone(&shared));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                counted.connections.fetch_add(1, Ordering::SeqCst);
                let _ = stream.set_nodelay(true);
                let (answer, counted) = (Arc::clone(&answer), Arc::clone(&counted));
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        counted.calls.fetch_add(1, Ordering::SeqCst);
                        counted.came.notify_waiters();
                        let answered = answer(request, Arc::clone(&counted));
                        async move { Ok::<_, Infallible>(answered.await) }
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    // How a connection ends is the test's business, seen elsewhere.
                    let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, shared, task }
    }

    /// How many connections have come.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many requests have come.
    pub(crate) fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// Resolves when so many requests have come, of which some may not be read yet.
    pub(crate) async fn called(&self, count: usize) {
        self.when(|| self.calls() >= count).await;
    }

    /// What it was asked when so many requests have come and are read to their ends.
    pub(crate) async fn heard(&self, count: usize) -> Vec<Asked> {
        self.when(|| self.asked().len() >= count).await;
        self.asked()
    }

    async fn when(&self, is_so: impl Fn() -> bool) {
        let waiting = async {
            loop {
                let mut came = std::pin::pin!(self.shared.came.notified());
                came.as_mut().enable();
                if is_so() {
                    return;
                }
                came.await;
            }
        };
        super::soon("the request", waiting).await;
    }

    /// What it was asked, each read to its end.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The one request that it was asked.
    pub(crate) fn only(&self) -> Asked {
        let asked = self.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked[0].clone()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(request: Request<Incoming>) -> Asked {
    let (parts, body) = request.into_parts();
    let collected = body.collect().await;
    let (body, trailers) = match collected {
        Ok(collected) => {
            let trailers = collected.trailers().cloned();
            (collected.to_bytes(), trailers)
        }
        Err(_) => (Bytes::from_static(b"(broken)"), None),
    };
    let http::request::Parts { uri, version, headers, .. } = parts;
    Asked { uri, version, headers, body, trailers }
}

/// An answer with this status and body.
pub(crate) fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed());
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

/// Lets so many through as the test says, and keeps the others waiting.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub(crate) fn open(&self, count: usize) {
        self.0.add_permits(count);
    }

    pub(crate) async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}
