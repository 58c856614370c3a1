//! The runtime API of AWS Lambda, for functions that are tested as the platform runs them.
//!
//! 1. [`RuntimeApi`] listens on a free port of loopback. A function that is started with its
//!    [`RuntimeApi::environment`] asks it for invocations, through the real `lambda_runtime`.
//! 2. [`RuntimeApi::invoke`] gives one event and waits for the answer; [`RuntimeApi::send`] gives it, and tells when
//!    a function took it and what it answered, so that a test can end the function in between.
//! 3. The same invocation sent again is Lambda's retry: it has the same request id.
//! 4. As with Lambda, an answer of more than [`ANSWER_BYTES_MAX`] is refused and becomes an error, an answer to an
//!    invocation that nobody made is refused, and each invocation is given to one function.
//!
//! It does not end a function at its deadline: that is for the test to do. It knows no extensions, and no `SnapStart`.

mod server;

use server::Shared;
use std::{
    fmt,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// Largest answer that Lambda takes, in bytes.
pub const ANSWER_BYTES_MAX: usize = 6_291_556;

/// How long an invocation has unless it says otherwise: Lambda's own default.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A local implementation of the runtime API. It ends when it is dropped.
///
/// ```no_run
/// use semel_testkit::lambda::{Answer, RuntimeApi};
/// # async fn test() {
/// let api = RuntimeApi::start().await;
/// let mut function = std::process::Command::new("target/debug/orders")
///     .envs(api.environment("orders"))
///     .spawn()
///     .unwrap();
/// let answer = api.invoke(r#"{"id": "evt-1"}"#).await;
/// assert_eq!(answer, Answer::Response(r#""done""#.to_owned()));
/// function.kill().unwrap();
/// # }
/// ```
pub struct RuntimeApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// One invocation: an event, and what Lambda says about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invocation {
    /// JSON.
    event: String,
    request_id: String,
    deadline_ms: u64,
    tenant: Option<String>,
}

impl Invocation {
    /// An invocation with this event, which is JSON, that has the three seconds which Lambda gives by default.
    pub fn new(event: impl Into<String>) -> Self {
        let request_id = server::fresh_id();
        Self { event: event.into(), request_id, deadline_ms: 0, tenant: None }.timeout(TIMEOUT)
    }

    /// How long it has, from now on.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        let deadline = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + timeout;
        self.deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// For this tenant, as functions in tenant isolation mode are invoked.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }
}

impl From<&str> for Invocation {
    fn from(event: &str) -> Self {
        Self::new(event)
    }
}

/// What a function answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Its result, which is JSON.
    Response(String),
    /// An error.
    Error {
        /// `errorType`.
        error_type: String,
        /// `errorMessage`.
        message: String,
    },
}

impl Answer {
    /// The result.
    ///
    /// # Panics
    ///
    /// If it is an error.
    #[track_caller]
    pub fn response(self) -> String {
        match self {
            Self::Response(json) => json,
            Self::Error { error_type, message } => panic!("the function failed: {error_type}: {message}"),
        }
    }

    /// The type of the error.
    ///
    /// # Panics
    ///
    /// If it is a result.
    #[track_caller]
    pub fn error_type(self) -> String {
        match self {
            Self::Error { error_type, .. } => error_type,
            Self::Response(json) => panic!("the function succeeded: {json}"),
        }
    }
}

/// An invocation on its way.
#[must_use = "an invocation that nobody waits for proves nothing"]
pub struct Sent {
    taken: oneshot::Receiver<()>,
    answer: oneshot::Receiver<Answer>,
}

impl Sent {
    /// Resolves when a function took it.
    ///
    /// # Panics
    ///
    /// If the API ended first.
    pub async fn taken(&mut self) {
        (&mut self.taken).await.expect("the API runs until a function takes the invocation");
    }

    /// Resolves when a function answered.
    ///
    /// # Panics
    ///
    /// If the API ended first.
    pub async fn answer(self) -> Answer {
        self.answer.await.expect("the API runs until the function answers")
    }
}

impl RuntimeApi {
    /// Listens on a free port of loopback.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free on loopback");
        let address = listener.local_addr().expect("it was bound");
        let shared = Arc::new(Shared::default());
        let accepting = tokio::spawn(server::accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    /// What a function of this name is started with.
    pub fn environment(&self, function: &str) -> [(&'static str, String); 7] {
        [
            ("AWS_LAMBDA_RUNTIME_API", self.address.to_string()),
            ("AWS_LAMBDA_FUNCTION_NAME", function.to_owned()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128".to_owned()),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "local".to_owned()),
            ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{function}")),
            ("AWS_REGION", "eu-central-1".to_owned()),
        ]
    }

    /// Gives an invocation to the next function that asks.
    pub fn send(&self, invocation: impl Into<Invocation>) -> Sent {
        let (took, taken) = oneshot::channel();
        let (answered, answer) = oneshot::channel();
        self.shared.push(invocation.into(), took, answered);
        Sent { taken, answer }
    }

    /// Gives an invocation to the next function that asks, and waits for its answer.
    pub async fn invoke(&self, invocation: impl Into<Invocation>) -> Answer {
        self.send(invocation).answer().await
    }

    /// What functions said that could not be started.
    pub fn init_errors(&self) -> Vec<String> {
        self.shared.init_errors()
    }
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl fmt::Debug for RuntimeApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeApi").field("address", &self.address).finish_non_exhaustive()
    }
}
