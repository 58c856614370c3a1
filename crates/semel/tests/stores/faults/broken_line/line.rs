//! A line to each store.

use crate::faults::race::fresh_key;
use semel::{Key, Once, Status, Store};
use semel_testkit::FaultProxy;
use std::{any::Any, sync::Arc, time::Duration};

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
    fn new(proxy: FaultProxy, through: impl Store, direct: impl Store, kept: impl Any + Send + Sync) -> Self {
        Self { proxy, through: Arc::new(through), direct: Arc::new(direct), _kept: Box::new(kept) }
    }

    /// The library over the line that may break, which works.
    pub(super) async fn once(&self, lease: Duration) -> Once {
        let once = Once::builder().lease(lease).from_store(self.through.clone());
        // Some servers are slow to begin with.
        once.call_key(fresh_key()).lease(Duration::from_mins(5)).run(async |_| Ok(())).await.unwrap();
        once
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

#[cfg(feature = "nats")]
pub(super) async fn nats() -> Line {
    use semel::store::nats::{Bucket, NatsStore};
    let server = semel_testkit::servers::nats();
    let proxy = FaultProxy::before(&server.url).await;
    let direct = NatsStore::connect_or_create(&server.url, &Bucket::new(&server.bucket)).await.unwrap();
    let through = NatsStore::connect(proxy.url(), &server.bucket).await.unwrap();
    Line::new(proxy, through, direct, ())
}

#[cfg(feature = "dynamodb")]
pub(super) async fn dynamodb() -> Line {
    use aws_sdk_dynamodb::{
        Client, Config,
        config::{BehaviorVersion, Credentials, Region},
    };
    use semel::store::dynamodb::DynamoStore;
    let server = semel_testkit::servers::dynamodb();
    let proxy = FaultProxy::before(&server.endpoint).await;
    let store = |endpoint: &str| {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
            .endpoint_url(endpoint);
        DynamoStore::new(Client::from_conf(config.build()), &server.table)
    };
    let (through, direct) = (store(proxy.url()), store(&server.endpoint));
    direct.create_table().await.unwrap();
    Line::new(proxy, through, direct, ())
}

#[cfg(feature = "firestore")]
pub(super) async fn firestore() -> Line {
    use semel::store::firestore::FirestoreStore;
    let server = semel_testkit::servers::firestore();
    let proxy = FaultProxy::before(&server.host).await;
    let through = FirestoreStore::emulator(proxy.url(), &server.project);
    let direct = FirestoreStore::emulator(&server.host, &server.project);
    Line::new(proxy, through, direct, ())
}
