//! Opening the queue.
//!
//! 1. A directory is the embedded queue, for one process at a time; `memory:` is for trying things out; PostgreSQL is for
//!    several nodes. Nothing else can keep executions.
//! 2. A directory that somebody else has open is told so, and ends with 69.

use super::Foundation;
#[cfg(any(feature = "embedded", feature = "postgres"))]
use super::foundation::Ailments;
use crate::{
    exit::Failure,
    store_url::{Place, StoreUrl},
};
use semel::doctor::Tier;
#[cfg(any(feature = "embedded", feature = "postgres"))]
use semel::doctor::{Report, Severity};
use semel_core::queue::Queue;
#[cfg(any(feature = "embedded", feature = "postgres"))]
use semel_core::store::{StoreError, StoreErrorKind};
use semel_runtime::queue::memory::MemoryQueue;
use std::{path::Path, sync::Arc};
use tracing::{info, warn};

/// A queue, and what is known of where it is kept.
pub(crate) type Opened = (Arc<dyn Queue>, Foundation);

/// Opens the queue that a URL means.
pub(crate) async fn open(url: &StoreUrl, disk_bytes_max: u64) -> Result<Opened, Failure> {
    let opened: Opened = match &url.place {
        Place::Memory => {
            warn!("executions are kept in memory: they are gone when the process ends");
            let clock: Arc<dyn semel_core::time::Clock> = Arc::new(semel::SystemClock::new());
            (Arc::new(MemoryQueue::new(clock)), Foundation::new(url, Tier::C, &[]))
        }
        Place::Embedded(directory) => embedded(url, directory, disk_bytes_max).await?,
        Place::Postgres { .. } => postgres(url).await?,
        Place::Sqlite { .. }
        | Place::Redis { .. }
        | Place::Nats { .. }
        | Place::DynamoDb { .. }
        | Place::Firestore { .. } => {
            return Err(Failure::usage(format!("`--store {url}`: executions cannot be kept there"))
                .hint("a directory such as `./semel-data`, `postgres://…`, or `memory:` to try things out"));
        }
    };
    info!(store = %url, "queue open");
    Ok(opened)
}

#[cfg(feature = "embedded")]
async fn embedded(url: &StoreUrl, directory: &Path, bytes_max: u64) -> Result<Opened, Failure> {
    let opened = async {
        let report = promised(semel::doctor::embedded(directory)?)?;
        let builder = semel_embedded::EmbeddedQueue::builder(directory, Arc::new(semel::SystemClock::new()));
        let opening = move || builder.bytes_max(bytes_max).open();
        let queue = tokio::task::spawn_blocking(opening).await.expect("opening a queue does not panic")?;
        let queue = Arc::new(queue);
        // It must not keep the queue open.
        let seen = Arc::downgrade(&queue);
        let (watched, ailing) = (seen.clone(), seen.clone());
        let used = move || seen.upgrade().map_or(0, |it| it.disk_bytes());
        let stopped = move || watched.upgrade().and_then(|it| it.stopped());
        let ailments = move || {
            let of = |it: Arc<semel_embedded::EmbeddedQueue>| Ailments {
                damaged: it.damaged(),
                trouble: it.trouble(),
                refuses: it.refuses(),
            };
            ailing.upgrade().map(of).unwrap_or_default()
        };
        let queue: Arc<dyn Queue> = queue;
        let foundation = Foundation::new(url, report.tier, &report.findings).ailing(ailments);
        Ok((queue, foundation.on_disk(directory, bytes_max, used, stopped)))
    };
    match opened.await {
        Ok(opened) => Ok(opened),
        Err(error) => Err(failure(url, &error)),
    }
}

/// Tells the log what is promised; what the doctor refuses is not started on.
#[cfg(any(feature = "embedded", feature = "postgres"))]
fn promised(report: Report) -> Result<Report, StoreError> {
    for finding in report.findings.iter().filter(|it| it.severity == Severity::Warning) {
        warn!(finding = %finding, "the store promises less than it could");
    }
    let report = report.accepted()?;
    info!(tier = %report.tier, meaning = report.tier.meaning(), "what the store promises");
    Ok(report)
}

#[cfg(feature = "postgres")]
async fn postgres(url: &StoreUrl) -> Result<Opened, Failure> {
    let Place::Postgres { url: address, table, schema, connections_max, creates } = &url.place else {
        unreachable!("it is asked for PostgreSQL")
    };
    let mut builder = semel_runtime::queue::postgres::PostgresQueue::builder();
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
    let opened = async {
        let queue = builder.connect(address).await?;
        let report = promised(queue.doctor().await?)?;
        let queue = Arc::new(queue);
        // It must not keep the queue open.
        let seen = Arc::downgrade(&queue);
        let queue: Arc<dyn Queue> = queue;
        let ailments = move || {
            let ids = seen.upgrade().map(|it| it.damaged()).unwrap_or_default();
            let damaged = ids.iter().map(|id| format!("the row of execution {id} is damaged")).collect();
            Ailments { damaged, ..Ailments::default() }
        };
        Ok((queue, Foundation::new(url, report.tier, &report.findings).ailing(ailments)))
    };
    match opened.await {
        Ok(opened) => Ok(opened),
        Err(error) => Err(failure(url, &error)),
    }
}

#[cfg(not(feature = "embedded"))]
fn embedded(_: &StoreUrl, _: &Path, _: u64) -> std::future::Ready<Result<Opened, Failure>> {
    std::future::ready(Err(not_built_in("embedded")))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &StoreUrl) -> std::future::Ready<Result<Opened, Failure>> {
    std::future::ready(Err(not_built_in("postgres")))
}

#[cfg(not(all(feature = "embedded", feature = "postgres")))]
fn not_built_in(feature: &str) -> Failure {
    Failure::usage(format!("the store `{feature}` is not built into this program"))
        .hint(format!("`cargo install semel-server --features {feature}` builds one that has it"))
}

#[cfg(any(feature = "embedded", feature = "postgres"))]
fn failure(url: &StoreUrl, error: &StoreError) -> Failure {
    let what = format!("`--store {url}` cannot be used");
    let is_directory = matches!(url.place, Place::Embedded(_));
    let (failure, hint) = match error.kind() {
        StoreErrorKind::Misconfigured if is_directory => (
            Failure::unavailable(what),
            "see that no other program has it open and that this one may write there, or name another with `--store`",
        ),
        StoreErrorKind::Misconfigured => (Failure::usage(what), "mend what is named above"),
        StoreErrorKind::Refused => (Failure::unavailable(what), "give this program the right to use it"),
        StoreErrorKind::Corrupt => (Failure::unavailable(what), "keep a copy of it, and look what happened"),
        _ => (Failure::unavailable(what), "see that it is there, or name another with `--store`"),
    };
    failure.because(error).hint(hint)
}
