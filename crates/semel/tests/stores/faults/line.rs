//! A line to each store.

use semel::{Key, Once, Status, Store};
use semel_testkit::FaultProxy;
use std::{any::Any, sync::Arc, time::Duration};

/// Short, because an outage is waited for in real time; and still many times what a call needs.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// What a busy machine may add to any time.
pub(super) const SLACK: Duration = Duration::from_secs(10);

/// A store behind a proxy, and another that sees what it wrote.
pub(super) struct Line {
    pub(super) proxy: FaultProxy,
    pub(super) through: Arc<dyn Store>,
    pub(super) direct: Arc<dyn Store>,
    /// What must stay for as long as the line does.
    _kept: Box<dyn Any + Send + Sync>,
}

impl Line {
    #[cfg_attr(
        not(any(feature = "postgres", feature = "redis")),
        expect(dead_code, reason = "no store has one")
    )]
    fn new(proxy: FaultProxy, through: impl Store, direct: impl Store, kept: impl Any + Send + Sync) -> Self {
        Self { proxy, through: Arc::new(through), direct: Arc::new(direct), _kept: Box::new(kept) }
    }

    /// The library over the line that may break.
    pub(super) fn once(&self) -> Once {
        Once::builder().lease(LEASE).from_store(self.through.clone())
    }

    /// What a completed call gave, as it stands in the store.
    pub(super) async fn completed(&self, key: &Key) -> Option<u32> {
        let stored = self.direct.load(key).await.unwrap()?;
        if stored.record.status() != Status::Completed {
            return None;
        }
        let replayed = Once::from_store(self.direct.clone()).call_key(key.clone());
        Some(replayed.run(async |_| panic!("it is completed")).await.unwrap())
    }
}

/// A key that no other test has.
pub(super) fn fresh_key() -> Key {
    Key::new("faults", fastrand::u64(..)).unwrap()
}

#[cfg(feature = "postgres")]
pub(super) async fn postgres() -> Line {
    use semel::store::postgres::PostgresStore;
    let database = semel_testkit::servers::postgres().await;
    let direct = PostgresStore::builder().create().connect(&database.url).await.unwrap();
    let proxy = FaultProxy::before(&database.url).await;
    let through = PostgresStore::connect(proxy.url()).await.unwrap();
    Line::new(proxy, through, direct, database)
}

#[cfg(feature = "redis")]
pub(super) async fn redis() -> Line {
    redis_at(semel_testkit::servers::redis()).await
}

#[cfg(feature = "redis")]
pub(super) async fn valkey() -> Line {
    redis_at(semel_testkit::servers::valkey()).await
}

#[cfg(feature = "redis")]
async fn redis_at(server: semel_testkit::servers::Redis) -> Line {
    use semel::store::redis::RedisStore;
    let proxy = FaultProxy::before(&server.url).await;
    let connect =
        async |url: &str| RedisStore::connect(url).await.unwrap().with_prefix(&server.prefix).unwrap();
    let (through, direct) = (connect(proxy.url()).await, connect(&server.url).await);
    Line::new(proxy, through, direct, ())
}
