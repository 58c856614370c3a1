//! The requests of a runtime, answered.

use super::{ANSWER_BYTES_MAX, Answer, Invocation};
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    net::TcpListener,
    sync::{Notify, oneshot},
};

const PREFIX: &str = "/2018-06-01/runtime/";

type Reply = Response<Full<Bytes>>;

/// What is asked for and answered.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Told whenever there is another invocation.
    came: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// By request id.
    taken: HashMap<String, oneshot::Sender<Answer>>,
    init_errors: Vec<String>,
}

struct Waiting {
    invocation: Invocation,
    took: oneshot::Sender<()>,
    answered: oneshot::Sender<Answer>,
}

/// In the form of a UUID, as Lambda's are.
pub(super) fn fresh_id() -> String {
    // Randomly keyed in every process and at every call.
    let [one, two] = [0, 1].map(|it| RandomState::new().hash_one(it));
    let (a, b, c) = (one >> 32, one >> 16 & 0xffff, one & 0xffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", two >> 48, two & 0xffff_ffff_ffff)
}

impl Shared {
    pub(super) fn push(
        &self,
        invocation: Invocation,
        took: oneshot::Sender<()>,
        answered: oneshot::Sender<Answer>,
    ) {
        self.lock().waiting.push_back(Waiting { invocation, took, answered });
        self.came.notify_one();
    }

    pub(super) fn init_errors(&self) -> Vec<String> {
        self.lock().init_errors.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next invocation, as soon as there is one.
    async fn next(&self) -> Invocation {
        loop {
            let came = self.came.notified();
            if let Some(invocation) = self.take() {
                // There may be more of them than there were wake-ups.
                self.came.notify_one();
                return invocation;
            }
            came.await;
        }
    }

    fn take(&self) -> Option<Invocation> {
        let mut state = self.lock();
        let Waiting { invocation, took, answered } = state.waiting.pop_front()?;
        // An earlier attempt of the same request is over: Lambda does not retry while it runs.
        state.taken.insert(invocation.request_id.clone(), answered);
        // Nobody has to be interested.
        let _unheard = took.send(());
        Some(invocation)
    }

    fn answer(&self, request_id: &str, answer: Answer) -> StatusCode {
        match self.lock().taken.remove(request_id) {
            Some(answered) => {
                let _unheard = answered.send(answer);
                StatusCode::ACCEPTED
            }
            None => StatusCode::BAD_REQUEST,
        }
    }
}

/// Answers everybody, until it is aborted.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let answer = service_fn(move |request| answered(Arc::clone(&shared), request));
            // A function that was killed breaks its connection off.
            let _broken = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answered(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Reply, Infallible> {
    let path = request.uri().path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
    let method = request.method().clone();
    let parts: Vec<&str> = path.split('/').collect();
    Ok(match (method, &parts[..]) {
        (Method::GET, ["invocation", "next"]) => given(shared.next().await),
        (Method::POST, ["invocation", id, "response"]) => {
            let body = read(request).await;
            responded(&shared, id, &body)
        }
        (Method::POST, ["invocation", id, "error"]) => {
            let body = read(request).await;
            plain(shared.answer(id, error(&body)))
        }
        (Method::POST, ["init", "error"]) => {
            let body = read(request).await;
            shared.lock().init_errors.push(String::from_utf8_lossy(&body).into_owned());
            plain(StatusCode::ACCEPTED)
        }
        _ => plain(StatusCode::NOT_FOUND),
    })
}

fn responded(shared: &Shared, id: &str, body: &[u8]) -> Reply {
    if body.len() > ANSWER_BYTES_MAX {
        let message = format!(
            "Response payload size exceeded maximum allowed payload size ({ANSWER_BYTES_MAX} bytes)."
        );
        shared.answer(id, Answer::Error { error_type: "Function.ResponseSizeTooLarge".to_owned(), message });
        return plain(StatusCode::PAYLOAD_TOO_LARGE);
    }
    plain(shared.answer(id, Answer::Response(String::from_utf8_lossy(body).into_owned())))
}

/// What Lambda says with an invocation.
fn given(invocation: Invocation) -> Reply {
    let Invocation { event, request_id, deadline_ms, tenant } = invocation;
    let mut reply = Response::builder()
        .header("content-type", "application/json")
        .header("lambda-runtime-aws-request-id", request_id)
        .header("lambda-runtime-deadline-ms", deadline_ms.to_string())
        .header(
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:eu-central-1:123456789012:function:local",
        )
        .header("lambda-runtime-trace-id", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0");
    if let Some(tenant) = tenant {
        reply = reply.header("lambda-runtime-aws-tenant-id", tenant);
    }
    reply.body(Full::new(event.into())).unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR))
}

fn plain(status: StatusCode) -> Reply {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = status;
    reply
}

async fn read(request: Request<Incoming>) -> Bytes {
    request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}

fn error(body: &[u8]) -> Answer {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    Answer::Error { error_type: text("errorType"), message: text("errorMessage") }
}
