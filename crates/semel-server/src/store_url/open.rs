//! Opening a store, and asking its doctor what it promises.
//!
//! 1. What the doctor refuses is not started on.
//! 2. A store that is not built in says how to get it.

use super::{Place, StoreUrl};
use crate::exit::Failure;
use semel::{
    MemoryStore, Once, StoreError, StoreErrorKind,
    doctor::{Report, Severity},
};
use tracing::{info, warn};

/// Opens a store, and tells the log what it promises.
pub(crate) async fn open(url: &StoreUrl) -> Result<Once, Failure> {
    let (once, report) = found(&url.place).await.map_err(|trouble| failure(url, trouble))?;
    for finding in report.findings.iter().filter(|it| it.severity == Severity::Warning) {
        warn!(finding = %finding, "the store promises less than it could");
    }
    let report = report.accepted().map_err(|error| failure(url, error.into()))?;
    info!(store = %url, kind = report.store, tier = %report.tier, meaning = report.tier.meaning(), "store open");
    Ok(once)
}

/// Why a store is not open.
enum Trouble {
    Store(StoreError),
    NotBuiltIn(&'static str),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn failure(url: &StoreUrl, trouble: Trouble) -> Failure {
    match trouble {
        Trouble::NotBuiltIn(feature) => {
            Failure::usage(format!("`--store {url}`: the store `{feature}` is not built into this program"))
                .hint(format!("`cargo install semel-server --features {feature}` builds one that has it"))
        }
        Trouble::Store(error) => {
            let what = format!("`--store {url}` cannot be used");
            let (failure, hint) = match error.kind() {
                StoreErrorKind::Misconfigured => (Failure::usage(what), "mend what is named above"),
                StoreErrorKind::Refused => {
                    (Failure::unavailable(what), "give this program the right to use it")
                }
                StoreErrorKind::Corrupt => {
                    (Failure::unavailable(what), "keep a copy of it, and look what happened")
                }
                _ => (Failure::unavailable(what), "see that it is there, or name another with `--store`"),
            };
            failure.because(&error).hint(hint)
        }
    }
}

/// What opening gives: the store, and what its doctor says.
type Found = Result<(Once, Report), Trouble>;

async fn found(place: &Place) -> Found {
    match place {
        Place::Memory => {
            let store = MemoryStore::new();
            let report = store.doctor().await?;
            Ok((Once::new(store), report))
        }
        Place::Embedded(directory) => embedded(directory).await,
        Place::Postgres { .. } => postgres(place).await,
        Place::Sqlite { url, table } => sqlite(url, table.as_deref()).await,
        Place::Redis { url, prefix } => redis(url, prefix.as_deref()).await,
        Place::Nats { url, bucket, replicas } => nats(url, bucket, *replicas).await,
        Place::DynamoDb { .. } => dynamodb(place).await,
        Place::Firestore { project, database, collection } => {
            firestore(project, database.as_deref(), collection.as_deref()).await
        }
    }
}

#[cfg(feature = "embedded")]
async fn embedded(directory: &std::path::Path) -> Found {
    let report = semel::doctor::embedded(directory)?;
    let (directory, clock) = (directory.to_owned(), std::sync::Arc::new(semel::SystemClock::new()));
    let opening = move || semel_embedded::EmbeddedStore::open(directory, clock);
    let store = tokio::task::spawn_blocking(opening).await.expect("opening a store does not panic")?;
    Ok((Once::new(store), report))
}

#[cfg(feature = "postgres")]
async fn postgres(place: &Place) -> Found {
    let Place::Postgres { url, table, schema, connections_max, creates } = place else {
        unreachable!("it is asked for PostgreSQL")
    };
    let mut builder = semel::store::postgres::PostgresStore::builder();
    if let Some(table) = table {
        builder = builder.table(table);
    }
    if let Some(schema) = schema {
        builder = builder.schema(schema);
    }
    if let Some(connections) = connections_max {
        builder = builder.connections_max(*connections);
    }
    if *creates {
        builder = builder.create();
    }
    let store = builder.connect(url).await?;
    let report = store.doctor().await?;
    Ok((Once::new(store), report))
}

#[cfg(feature = "sqlite")]
async fn sqlite(url: &str, table: Option<&str>) -> Found {
    let mut builder = semel::store::sqlite::SqliteStore::builder().create();
    if let Some(table) = table {
        builder = builder.table(table);
    }
    let store = builder.connect(url).await?;
    let report = store.doctor().await?;
    Ok((Once::new(store), report))
}

#[cfg(feature = "redis")]
async fn redis(url: &str, prefix: Option<&str>) -> Found {
    let mut store = semel::store::redis::RedisStore::connect(url).await?;
    if let Some(prefix) = prefix {
        store = store.with_prefix(prefix)?;
    }
    let report = store.doctor().await?;
    Ok((Once::new(store), report))
}

#[cfg(feature = "nats")]
async fn nats(url: &str, bucket: &str, replicas: usize) -> Found {
    use semel::store::nats::{Bucket, NatsStore};
    let store = NatsStore::connect_or_create(url, &Bucket::new(bucket).replicas(replicas)).await?;
    let report = store.doctor().await?;
    Ok((Once::new(store), report))
}

#[cfg(feature = "dynamodb")]
async fn dynamodb(place: &Place) -> Found {
    use semel::store::dynamodb::{DynamoStore, MARGIN};
    let Place::DynamoDb { table, region, endpoint } = place else { unreachable!("it is asked for DynamoDB") };
    let mut loader = aws_config::from_env();
    if let Some(region) = region {
        loader = loader.region(aws_config::Region::new(region.clone()));
    }
    if let Some(endpoint) = endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    let store = DynamoStore::new(aws_sdk_dynamodb::Client::new(&loader.load().await), table);
    let report = store.doctor().await?;
    Ok((Once::builder().margin(MARGIN).store(store), report))
}

#[cfg(feature = "firestore")]
async fn firestore(project: &str, database: Option<&str>, collection: Option<&str>) -> Found {
    let mut store = super::google::firestore(project)?;
    if let Some(database) = database {
        store = store.database(database);
    }
    if let Some(collection) = collection {
        store = store.collection(collection);
    }
    let report = store.doctor().await?;
    Ok((Once::new(store), report))
}

macro_rules! not_built_in {
    ($feature:literal, $name:ident($($argument:ty),*)) => {
        #[cfg(not(feature = $feature))]
        async fn $name($(_: $argument),*) -> Found {
            Err(Trouble::NotBuiltIn($feature))
        }
    };
}

not_built_in!("embedded", embedded(&std::path::Path));
not_built_in!("postgres", postgres(&Place));
not_built_in!("sqlite", sqlite(&str, Option<&str>));
not_built_in!("redis", redis(&str, Option<&str>));
not_built_in!("nats", nats(&str, &str, usize));
not_built_in!("dynamodb", dynamodb(&Place));
not_built_in!("firestore", firestore(&str, Option<&str>, Option<&str>));
