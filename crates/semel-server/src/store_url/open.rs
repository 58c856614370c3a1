//! Opening a store, and asking its doctor what it promises.
//!
//! 1. What the doctor refuses is not started on.
//! 2. A store that is not built in says how to get it.
//! 3. Results are sealed before they reach the store if there are keys: see [`super::seal`].

use super::{Place, StoreUrl, seal};
use crate::exit::Failure;
use semel::{
    MemoryStore, Once, OnceBuilder, StoreError, StoreErrorKind,
    doctor::{Report, Severity},
};
use std::path::Path;
use tracing::{info, warn};

/// Opens a store, with the keys of this file if there is one, and tells the log what it promises.
pub(crate) async fn open(url: &StoreUrl, seal_keys: Option<&Path>) -> Result<Once, Failure> {
    let builder = match seal_keys {
        Some(file) => seal::sealed(Once::builder(), file)?,
        None => Once::builder(),
    };
    let (once, report) = found(&url.place, builder).await.map_err(|trouble| failure(url, trouble))?;
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

async fn found(place: &Place, builder: OnceBuilder) -> Found {
    match place {
        Place::Memory => {
            let store = MemoryStore::new();
            let report = store.doctor().await?;
            Ok((builder.store(store), report))
        }
        Place::Embedded(directory) => embedded(directory, builder).await,
        Place::Postgres { .. } => postgres(place, builder).await,
        Place::Sqlite { url, table } => sqlite(url, table.as_deref(), builder).await,
        Place::Redis { url, prefix } => redis(url, prefix.as_deref(), builder).await,
        Place::Nats { .. } => nats(place, builder).await,
        Place::DynamoDb { .. } => dynamodb(place, builder).await,
        Place::Firestore { project, database, collection } => {
            firestore(project, database.as_deref(), collection.as_deref(), builder).await
        }
    }
}

#[cfg(feature = "embedded")]
async fn embedded(directory: &Path, builder: OnceBuilder) -> Found {
    let report = semel::doctor::embedded(directory)?;
    let (directory, clock) = (directory.to_owned(), std::sync::Arc::new(semel::SystemClock::new()));
    let opening = move || semel_embedded::EmbeddedStore::open(directory, clock);
    let store = tokio::task::spawn_blocking(opening).await.expect("opening a store does not panic")?;
    Ok((builder.store(store), report))
}

#[cfg(feature = "postgres")]
async fn postgres(place: &Place, builder: OnceBuilder) -> Found {
    let Place::Postgres { url, table, schema, connections_max, creates } = place else {
        unreachable!("it is asked for PostgreSQL")
    };
    let mut store = semel::store::postgres::PostgresStore::builder();
    if let Some(table) = table {
        store = store.table(table);
    }
    if let Some(schema) = schema {
        store = store.schema(schema);
    }
    if let Some(connections) = connections_max {
        store = store.connections_max(*connections);
    }
    if *creates {
        store = store.create();
    }
    let store = store.connect(url).await?;
    let report = store.doctor().await?;
    Ok((builder.store(store), report))
}

#[cfg(feature = "sqlite")]
async fn sqlite(url: &str, table: Option<&str>, builder: OnceBuilder) -> Found {
    let mut store = semel::store::sqlite::SqliteStore::builder().create();
    if let Some(table) = table {
        store = store.table(table);
    }
    let store = store.connect(url).await?;
    let report = store.doctor().await?;
    Ok((builder.store(store), report))
}

#[cfg(feature = "redis")]
async fn redis(url: &str, prefix: Option<&str>, builder: OnceBuilder) -> Found {
    let mut store = semel::store::redis::RedisStore::connect(url).await?;
    if let Some(prefix) = prefix {
        store = store.with_prefix(prefix)?;
    }
    let report = store.doctor().await?;
    Ok((builder.store(store), report))
}

#[cfg(feature = "nats")]
async fn nats(place: &Place, builder: OnceBuilder) -> Found {
    use semel::store::nats::{Bucket, NatsStore};
    let Place::Nats { url, bucket, replicas, syncs_always } = place else {
        unreachable!("it is asked for NATS")
    };
    let mut store = NatsStore::connect_or_create(url, &Bucket::new(bucket).replicas(*replicas)).await?;
    if *syncs_always {
        store = store.syncs_always();
    }
    let report = store.doctor().await?;
    Ok((builder.store(store), report))
}

#[cfg(feature = "dynamodb")]
async fn dynamodb(place: &Place, builder: OnceBuilder) -> Found {
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
    Ok((builder.margin(MARGIN).store(store), report))
}

#[cfg(feature = "firestore")]
async fn firestore(
    project: &str,
    database: Option<&str>,
    collection: Option<&str>,
    builder: OnceBuilder,
) -> Found {
    let mut store = super::google::firestore(project)?;
    if let Some(database) = database {
        store = store.database(database);
    }
    if let Some(collection) = collection {
        store = store.collection(collection);
    }
    let report = store.doctor().await?;
    Ok((builder.store(store), report))
}

macro_rules! not_built_in {
    ($feature:literal, $name:ident($($argument:ty),*)) => {
        #[cfg(not(feature = $feature))]
        async fn $name($(_: $argument),*) -> Found {
            Err(Trouble::NotBuiltIn($feature))
        }
    };
}

not_built_in!("embedded", embedded(&Path, OnceBuilder));
not_built_in!("postgres", postgres(&Place, OnceBuilder));
not_built_in!("sqlite", sqlite(&str, Option<&str>, OnceBuilder));
not_built_in!("redis", redis(&str, Option<&str>, OnceBuilder));
not_built_in!("nats", nats(&Place, OnceBuilder));
not_built_in!("dynamodb", dynamodb(&Place, OnceBuilder));
not_built_in!("firestore", firestore(&str, Option<&str>, Option<&str>, OnceBuilder));
