//! How the server is reached.
//!
//! 1. One connection carries everybody's commands; it is cheap to clone, and made again when it breaks.
//! 2. Connecting and every command end in bounded time.
//! 3. The client would go on using a connection whose peer has vanished without a word. So a connection of our own
//!    on which commands were sent and nobody got an answer for [`RESPONSE_MAX`] is replaced, also if nobody waited
//!    for so long; the user's own is given up by the operating system, if it was told to.
//!
//! It does not repeat commands: the driver does, and recognises its own record. The cluster's client follows
//! redirections (`MOVED`, `ASK`), and may repeat a command whose reply was lost, which comes to the same. Its callers
//! share a connection, and one may use up the `ASKING` of another, which is then sent back and forth: once it was
//! sent [`CLUSTER_RETRIES_MAX`] times, the slot is unavailable, and the driver tries again.

use super::error::{cluster_trouble, misconfigured, trouble};
use redis::{
    Client, Cmd, IntoConnectionInfo, RedisError, RedisResult, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
    cluster::{ClusterClient, ClusterConfig},
    cluster_async::ClusterConnection,
    cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo},
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};
use semel_core::store::StoreError;
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How long connecting may take, each time it is tried.
pub const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long a command may take.
pub const RESPONSE_MAX: Duration = Duration::from_secs(2);
/// How long a peer may leave what was sent to it unacknowledged.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often connecting is tried once more before those who wait for it are told.
const RECONNECTS_MAX: usize = 1;
/// How often the cluster's client follows a redirection, or tries another node.
const CLUSTER_RETRIES_MAX: u32 = 4;
/// Longest pause between two of these, in milliseconds.
const CLUSTER_PAUSE_MAX_MS: u64 = 200;
/// How many commands may wait to be written: more callers than this take turns.
const WAITING_MAX: usize = 1024;

/// A connection to one server or to a cluster.
#[derive(Clone)]
pub struct Connection(Arc<Shared>);

struct Shared {
    current: Mutex<Current>,
    source: Source,
    is_cluster: bool,
}

/// The connection in use.
#[derive(Clone)]
struct Current {
    kind: Kind,
    silence: Arc<Silence>,
}

/// Since when a connection owes an answer: milliseconds after it was made, and one more; 0 if it owes none.
struct Silence {
    made_at: Instant,
    since: AtomicU64,
}

impl Silence {
    fn new() -> Arc<Self> {
        Arc::new(Self { made_at: Instant::now(), since: AtomicU64::new(0) })
    }

    /// A command is sent. Says whether those before it have waited for too long.
    fn begin(&self) -> bool {
        let now = self.made_at.elapsed().as_millis() as u64 + 1;
        let since = self.since.load(Ordering::Relaxed);
        if since == 0 {
            self.since.store(now, Ordering::Relaxed);
        }
        since != 0 && now > since + RESPONSE_MAX.as_millis() as u64
    }

    /// Something was answered.
    fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }
}

#[derive(Clone)]
enum Kind {
    Server(ConnectionManager),
    Cluster(ClusterConnection),
}

/// Where the next connection comes from.
enum Source {
    /// Nowhere: the user gave us one.
    Given,
    Server(Box<(Client, ConnectionManagerConfig)>),
    Cluster(Box<ClusterClient>),
}

impl From<ConnectionManager> for Connection {
    fn from(connection: ConnectionManager) -> Self {
        Self::new(Kind::Server(connection), Source::Given)
    }
}

impl From<ClusterConnection> for Connection {
    fn from(connection: ClusterConnection) -> Self {
        Self::new(Kind::Cluster(connection), Source::Given)
    }
}

impl Connection {
    fn new(kind: Kind, source: Source) -> Self {
        let is_cluster = matches!(kind, Kind::Cluster(_));
        let current = Mutex::new(Current { kind, silence: Silence::new() });
        Self(Arc::new(Shared { current, source, is_cluster }))
    }

    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let Current { kind, silence } = self.speaking();
        let result = match kind {
            // Clones, which share the connection.
            Kind::Server(mut connection) => command.query_async(&mut connection).await,
            Kind::Cluster(mut connection) => command.query_async(&mut connection).await,
        };
        if !result.as_ref().is_err_and(RedisError::is_timeout) {
            silence.end();
        }
        result
    }

    /// As [`Connection::send`], to each primary of a cluster: the answer is a map from their addresses.
    pub(super) async fn send_to_all(&self, command: Cmd) -> RedisResult<Value> {
        let kind = self.lock().kind.clone();
        match kind {
            Kind::Server(_) => self.send(&command).await,
            Kind::Cluster(mut connection) => {
                let to_all = (MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::Special));
                connection.route_command(command, RoutingInfo::MultiNode(to_all)).await
            }
        }
    }

    /// The connection in use, or another in its place if it has been silent for too long.
    fn speaking(&self) -> Current {
        let mut current = self.lock();
        if current.silence.begin()
            && let Some(kind) = self.0.source.open()
        {
            *current = Current { kind, silence: Silence::new() };
            current.silence.begin();
        }
        current.clone()
    }

    /// Nothing that is done under the lock panics.
    fn lock(&self) -> MutexGuard<'_, Current> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was being done over this connection, and what came of it.
    pub(super) fn trouble(&self, doing: &str, error: RedisError) -> StoreError {
        let judge = if self.is_cluster() { cluster_trouble } else { trouble };
        judge(doing, error)
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.0.is_cluster
    }
}

impl Source {
    /// Another connection, which connects when it is first used.
    fn open(&self) -> Option<Kind> {
        match self {
            Self::Given => None,
            Self::Server(it) => {
                ConnectionManager::new_lazy_with_config(it.0.clone(), it.1.clone()).ok().map(Kind::Server)
            }
            Self::Cluster(client) => {
                Some(Kind::Cluster(client.get_pending_async_connection_with_config(ClusterConfig::new())))
            }
        }
    }
}

pub(super) async fn open(url: &str) -> Result<Connection, StoreError> {
    let info = url.into_connection_info().map_err(|it| trouble("read the URL of Redis", it))?;
    let client = Client::open(info.set_tcp_settings(tcp_settings()))
        .map_err(|it| trouble("read the URL of Redis", it))?;
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(RECONNECTS_MAX)
        .set_connection_timeout(Some(CONNECT_MAX))
        .set_response_timeout(Some(RESPONSE_MAX))
        .set_pipeline_buffer_size(WAITING_MAX);
    let connection = ConnectionManager::new_with_config(client.clone(), config.clone()).await;
    let connection = connection.map_err(|it| trouble("connect to Redis", it))?;
    Ok(Connection::new(Kind::Server(connection), Source::Server(Box::new((client, config)))))
}

pub(super) async fn open_cluster(urls: Vec<String>) -> Result<Connection, StoreError> {
    if urls.is_empty() {
        return Err(misconfigured("connect to a cluster: name at least one of its nodes"));
    }
    let client = ClusterClient::builder(urls)
        .connection_timeout(CONNECT_MAX)
        .response_timeout(RESPONSE_MAX)
        .overall_response_timeout(Some(RESPONSE_MAX + CONNECT_MAX))
        .retries(CLUSTER_RETRIES_MAX)
        .max_retry_wait(CLUSTER_PAUSE_MAX_MS)
        .tcp_settings(tcp_settings())
        .build()
        .map_err(|it| trouble("read the URLs of the cluster", it))?;
    let connection = client.get_async_connection().await;
    let connection = connection.map_err(|it| trouble("connect to the cluster", it))?;
    Ok(Connection::new(Kind::Cluster(connection), Source::Cluster(Box::new(client))))
}

fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(SILENCE_MAX).with_interval(SILENCE_MAX / 5);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(SILENCE_MAX);
    settings
}
