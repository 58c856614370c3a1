//! Records in Redis or Valkey, on one server or a cluster.
//!
//! 1. A record is one string: its fence in sixteen digits, then its bytes. Its name is `prefix:identity`, the
//!    identity in URL-safe base64: no character of a user's key reaches the server, and names stay short, because
//!    the server hashes one a dozen times for each swap.
//! 2. A swap is one script and one round trip: it compares the fence, writes and sets the expiry. Swaps that come at
//!    the same time go in one command, except to a cluster. The script is sent by its hash, and whole to a server that
//!    does not know it.
//! 3. A new record's fence is the server's time in µs, and every later one the next number, so that fences go on
//!    growing after the record is gone.
//! 4. Finished records are removed by the server, [`EXPIRY_MARGIN`] after they expired. Unfinished ones are never.
//!    There is nothing to purge.
//! 5. Leases are judged by the server's clock, which every answer to a swap tells. The servers of a cluster, and a
//!    replica that may be promoted, should agree on the time to within the margin of
//!    [`OnceBuilder::margin`](crate::OnceBuilder::margin).
//! 6. A lost connection is made again by the client; every command has an end ([`RESPONSE_MAX`]).
//!
//! # What is promised
//!
//! Tier C, best effort, however it is set up. Redis acknowledges a write before its replicas have it, and with
//! `appendfsync everysec` before its own disk has it. A failover, a power cut, a `FLUSHALL` or an eviction may
//! forget a record that was acknowledged, and with it that a call is running or was done: **the next duplicate
//! runs again**. A holder whose claim was forgotten is told so when it completes (its fence is gone), after its
//! effects have happened. [`RedisStore::doctor`] shows what can be seen of it. Where a second run is not merely a
//! nuisance, use a store of tier A, or give effects a class that survives one
//! ([`keyed`](crate::Effect::keyed), [`reconcile`](crate::Effect::reconcile)).
//!
//! What the fence still gives: two holders that both believe in their lease do not both complete.
//!
//! It does not use replicas to read, `WAIT`, or locks over several independent servers: none of these makes an
//! acknowledged write survive a failover.

mod batch;
mod connection;
mod doctor;
mod error;
mod gathering;
mod script;

pub use connection::{CONNECT_MAX, Connection, RESPONSE_MAX};
pub use script::EXPIRY_MARGIN;

use crate::store::offset::LearnedClock;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use batch::Batches;
use error::misconfigured;
use redis::{FromRedisValue, RedisError, cmd};
use script::{Request, server_time};
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{Store, StoreError, Swap},
    time::{Clock, Timestamp},
};
use std::sync::Arc;

/// What names begin with unless [`RedisStore::with_prefix`] says otherwise.
pub const PREFIX: &str = "semel";
/// What an identity takes in a name: 32 bytes, six bits a character.
const IDENTITY_CHARACTERS: usize = 43;
/// Longest prefix, in bytes.
pub const PREFIX_BYTES_MAX: usize = 128;

/// Records in Redis or Valkey.
///
/// ```no_run
/// use semel::{Once, store::redis::RedisStore};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1:6379").await?.with_prefix("billing")?;
/// println!("{}", store.doctor().await?.accepted()?);
/// let once = Once::new(store);
/// # Ok(()) }
/// ```
///
/// For TLS (`rediss://`), add the `redis` crate to your own dependencies with its `tokio-rustls-comp` or
/// `tokio-native-tls-comp` feature.
#[derive(Clone)]
pub struct RedisStore {
    connection: Connection,
    prefix: Arc<str>,
    batches: Arc<Batches>,
    clock: Arc<LearnedClock>,
}

impl RedisStore {
    /// Connects to one server: `redis://user:password@host:6379/0`.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::new(connection::open(url).await?).await
    }

    /// Connects to a cluster by some of its nodes; the others are found.
    pub async fn connect_cluster<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Self, StoreError> {
        let urls = urls.into_iter().map(|url| url.as_ref().to_owned()).collect();
        Self::new(connection::open_cluster(urls).await?).await
    }

    /// Over the user's own [`ConnectionManager`](redis::aio::ConnectionManager) or
    /// [`ClusterConnection`](redis::cluster_async::ClusterConnection). Its timeouts hold: set a response timeout,
    /// and do not read from replicas.
    ///
    /// Asks the server for its time.
    pub async fn new(connection: impl Into<Connection>) -> Result<Self, StoreError> {
        let connection = connection.into();
        let clock = Arc::new(LearnedClock::new());
        let batches = Arc::new(Batches::new(connection.clone(), Arc::clone(&clock)));
        let store = Self { connection, prefix: Arc::from(PREFIX), batches, clock };
        store.ask_time().await?;
        Ok(store)
    }

    /// With names that begin with this instead of [`PREFIX`]: one for each application in a database.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self, StoreError> {
        let is_plain = prefix.bytes().all(|it| it.is_ascii_graphic() && it != b'{' && it != b'}');
        if prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX || !is_plain {
            let wanted = format!("1 to {PREFIX_BYTES_MAX} visible ASCII characters without braces");
            return Err(misconfigured(format!("choose a prefix: it must be {wanted}")));
        }
        self.prefix = Arc::from(prefix);
        Ok(self)
    }

    /// The name under which the record of this key stands in Redis, for those who look with `redis-cli`.
    pub fn name(&self, key: &Key) -> String {
        String::from_utf8(self.name_bytes(key)).expect("a prefix and base64 are ASCII")
    }

    fn name_bytes(&self, key: &Key) -> Vec<u8> {
        let prefix = self.prefix.as_bytes();
        let mut name = vec![b':'; prefix.len() + 1 + IDENTITY_CHARACTERS];
        name[..prefix.len()].copy_from_slice(prefix);
        let place = &mut name[prefix.len() + 1..];
        let written = URL_SAFE_NO_PAD.encode_slice(key.identity().as_bytes(), place);
        assert_eq!(written, Ok(IDENTITY_CHARACTERS), "an identity has 32 bytes");
        name
    }

    async fn ask_time(&self) -> Result<(), StoreError> {
        let doing = |error: RedisError| self.connection.trouble("ask for the server's time", error);
        let sent = self.clock.monotonic();
        let reply = self.connection.send(&cmd("TIME")).await.map_err(doing)?;
        let (seconds, micros) = <(u64, u64)>::from_redis_value(reply).map_err(|it| doing(it.into()))?;
        self.clock.learn(server_time(seconds, micros), sent, self.clock.monotonic());
        Ok(())
    }
}

impl Store for RedisStore {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            let doing = |error: RedisError| self.connection.trouble("load a record", error);
            let mut command = cmd("GET");
            command.arg(self.name(key));
            let value = self.connection.send(&command).await.map_err(doing)?;
            let value = Option::<Vec<u8>>::from_redis_value(value).map_err(|it| doing(it.into()))?;
            value.map(|value| script::read(key, &value)).transpose()
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let request = Request::new(self.name_bytes(key), key, expected, record, self.clock.now())?;
            let reply = self.batches.send(request).await?;
            reply.map_err(|error| self.connection.trouble("swap a record", error))?.into_swap(key)
        })
    }

    /// Nothing: the server removes what has expired.
    fn purge(&self, _expired_at: Timestamp, _limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }
}
