//! How the server is reached.
//!
//! 1. One connection carries everybody's commands; it is cheap to clone, and made again when it breaks.
//! 2. Connecting and every command end in bounded time.
//! 3. A connection whose peer vanished without a word is given up by the operating system ([`SILENCE_MAX`]).
//!
//! It does not repeat commands: the driver does, and recognises its own record. The cluster's client follows
//! redirections (`MOVED`, `ASK`), and may repeat a command whose reply was lost, which comes to the same.

use super::error::{misconfigured, trouble};
use redis::{
    Client, Cmd, IntoConnectionInfo, RedisResult, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};
use semel_core::store::StoreError;
use std::time::Duration;

/// How long connecting may take, each time it is tried.
pub const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long a command may take.
pub const RESPONSE_MAX: Duration = Duration::from_secs(5);
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
pub struct Connection(Kind);

#[derive(Clone)]
enum Kind {
    Server(ConnectionManager),
    Cluster(ClusterConnection),
}

impl From<ConnectionManager> for Connection {
    fn from(connection: ConnectionManager) -> Self {
        Self(Kind::Server(connection))
    }
}

impl From<ClusterConnection> for Connection {
    fn from(connection: ClusterConnection) -> Self {
        Self(Kind::Cluster(connection))
    }
}

impl Connection {
    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        match &self.0 {
            // Their clones share one connection.
            Kind::Server(connection) => command.query_async(&mut connection.clone()).await,
            Kind::Cluster(connection) => command.query_async(&mut connection.clone()).await,
        }
    }

    pub(super) const fn is_cluster(&self) -> bool {
        match self.0 {
            Kind::Server(_) => false,
            Kind::Cluster(_) => true,
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
    let connection = ConnectionManager::new_with_config(client, config).await;
    connection.map(Connection::from).map_err(|it| trouble("connect to Redis", it))
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
    connection.map(Connection::from).map_err(|it| trouble("connect to the cluster", it))
}

fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(SILENCE_MAX).with_interval(SILENCE_MAX / 5);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(SILENCE_MAX);
    settings
}
