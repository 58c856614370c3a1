//! Opening the queue.
//!
//! 1. A directory is the embedded queue, for one process at a time; `memory:` is for trying things out; PostgreSQL is for
//!    several nodes. Nothing else can keep executions.
//! 2. A directory that somebody else has open is told so, and ends with 69.

use crate::{
    exit::Failure,
    store_url::{Place, StoreUrl},
};
use semel_core::{
    queue::Queue,
    store::{StoreError, StoreErrorKind},
};
use semel_runtime::queue::memory::MemoryQueue;
use std::sync::Arc;
use tracing::{info, warn};

/// Opens the queue that a URL means.
pub(super) async fn open(url: &StoreUrl) -> Result<Arc<dyn Queue>, Failure> {
    let queue: Arc<dyn Queue> = match &url.place {
        Place::Memory => {
            warn!("executions are kept in memory: they are gone when the process ends");
            let clock: Arc<dyn semel_core::time::Clock> = Arc::new(semel::SystemClock::new());
            Arc::new(MemoryQueue::new(clock))
        }
        Place::Embedded(directory) => embedded(directory).await.map_err(|error| failure(url, &error))?,
        Place::Postgres { .. } => return Err(postgres(url)),
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
    Ok(queue)
}

#[cfg(feature = "embedded")]
async fn embedded(directory: &std::path::Path) -> Result<Arc<dyn Queue>, StoreError> {
    let (directory, clock) = (directory.to_owned(), Arc::new(semel::SystemClock::new()));
    let opening = move || semel_embedded::EmbeddedQueue::open(directory, clock);
    let queue = tokio::task::spawn_blocking(opening).await.expect("opening a queue does not panic")?;
    Ok(Arc::new(queue))
}

fn postgres(url: &StoreUrl) -> Failure {
    Failure::usage(format!("`--store {url}`: the queue `postgres` is not built into this program"))
}

fn failure(url: &StoreUrl, error: &StoreError) -> Failure {
    let what = format!("`--store {url}` cannot be used");
    let (failure, hint) = match error.kind() {
        StoreErrorKind::Misconfigured => (
            Failure::unavailable(what),
            "end the program that has it open, or name another directory with `--store`",
        ),
        StoreErrorKind::Refused => (Failure::unavailable(what), "give this program the right to use it"),
        StoreErrorKind::Corrupt => (Failure::unavailable(what), "keep a copy of it, and look what happened"),
        _ => (Failure::unavailable(what), "see that it is there, or name another with `--store`"),
    };
    failure.because(error).hint(hint)
}
