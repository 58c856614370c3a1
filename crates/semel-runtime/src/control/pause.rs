//! Pausing functions, on all nodes.
//!
//! 1. Which functions are paused is a document. Whoever changes it acts on it at once; other nodes read it every
//!    [`POLL`]. A node knows it before it starts anything.
//! 2. A paused function starts nothing: what is accepted for it waits. What runs goes on.
//! 3. A function that is drained is paused, and what runs of it is waited for: on this node until it is settled, on others until
//!    the queue has nothing of it that is leased. What a node starts before it has read of the pause is missed by a look before
//!    that: whoever has several nodes drains again.
//! 4. A function that says that it wants no more events is paused by the runtime itself.

use super::{Auditing, document};
use crate::engine::{Engine, Runtime, Stage};
use semel_core::{
    queue::{Filter, PAGE_MAX},
    record::Status,
    store::{StoreError, StoreErrorKind},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How often nodes look for what others paused.
const POLL: Duration = Duration::from_secs(5);
/// How often it is looked whether other nodes have finished what they run.
const LOOK: Duration = Duration::from_millis(200);
const DOCUMENT: &str = "paused";
/// Who pauses a function that wants no more events.
const RUNTIME: &str = "$runtime";

impl Runtime {
    /// Starts nothing more of this function, on any node, until it is resumed. Whether it was not paused already.
    pub async fn pause(&self, function: &str, who: &str) -> Result<bool, StoreError> {
        set(self.engine(), function, who, true, "").await
    }

    /// Lets a paused function go on. Whether it was paused.
    pub async fn resume(&self, function: &str, who: &str) -> Result<bool, StoreError> {
        set(self.engine(), function, who, false, "").await
    }

    /// Pauses a function, and waits until nothing of it runs on any node, or the time is over. Whether nothing does.
    pub async fn drain(&self, function: &str, who: &str, within: Duration) -> Result<bool, StoreError> {
        let engine = self.engine();
        let until = engine.clock.monotonic() + within;
        set(engine, function, who, true, "drain").await?;
        if !engine.idle(within, |table| table.in_flight_of(function)).await {
            return Ok(false);
        }
        while is_leased(engine, function).await? {
            let left = until.saturating_sub(engine.clock.monotonic());
            if left.is_zero() {
                return Ok(false);
            }
            engine.clock.sleep(LOOK.min(left)).await;
        }
        Ok(true)
    }
}

/// Whether anybody holds an execution of this function. One whose lease has lapsed is held by nobody: it waits to be taken over,
/// and that is not before the function is resumed.
async fn is_leased(engine: &Engine, function: &str) -> Result<bool, StoreError> {
    let counts = engine.queue.counts().await?;
    if counts.iter().all(|it| *it.function != *function || it.in_progress == 0) {
        return Ok(false);
    }
    let filter =
        Filter { function: Some(function.into()), status: Some(Status::InProgress), ..Filter::default() };
    let mut from = None;
    loop {
        let page = engine.queue.list(&filter, from.as_ref(), PAGE_MAX).await?;
        let now = engine.clock.now();
        if page.items.iter().any(|it| it.value.due_at().is_some_and(|lease_until| lease_until > now)) {
            return Ok(true);
        }
        from = page.next;
        if from.is_none() {
            return Ok(false);
        }
    }
}

/// The function wants no more events.
pub(crate) async fn pause_by_runtime(engine: &Engine, function: &str, why: &str) {
    if let Err(error) = set(engine, function, RUNTIME, true, why).await {
        tracing::error!(%error, function, "a function that wants no more events could not be paused");
    }
}

async fn set(
    engine: &Engine,
    function: &str,
    who: &str,
    is_paused: bool,
    detail: &str,
) -> Result<bool, StoreError> {
    let what = if is_paused { "pause" } else { "resume" };
    let auditing = Auditing { who, what, subject: function, detail };
    let was_paused = engine.table().paused().contains(function);
    let content = document::change(engine, DOCUMENT, &auditing, |before| {
        let mut names: BTreeSet<String> = names(before).unwrap_or_default();
        let is_changed = if is_paused { names.insert(function.to_owned()) } else { names.remove(function) };
        is_changed.then(|| serde_json::to_vec(&names).expect("names are JSON"))
    });
    apply(engine, content.await?.as_deref())?;
    Ok(was_paused != is_paused)
}

fn names(content: Option<&[u8]>) -> Result<BTreeSet<String>, serde_json::Error> {
    content.filter(|it| !it.is_empty()).map_or_else(|| Ok(BTreeSet::new()), serde_json::from_slice)
}

fn apply(engine: &Engine, content: Option<&[u8]>) -> Result<(), StoreError> {
    let names = names(content).map_err(|error| {
        StoreError::new(StoreErrorKind::Corrupt, "control", "read which functions are paused").because(error)
    })?;
    engine.table().set_paused(engine.clock.monotonic(), names.into_iter().map(Into::into).collect());
    engine.wake.notify_one();
    Ok(())
}

/// Reads which functions are paused, before anything is started.
pub(crate) async fn load(engine: &Engine) -> Result<(), StoreError> {
    let content = document::read(engine, DOCUMENT).await?;
    apply(engine, content.as_deref())
}

/// Follows what other nodes pause, until the runtime stops.
pub(crate) async fn follow(engine: Arc<Engine>) {
    while engine.stage() == Stage::Running {
        engine.clock.sleep(POLL).await;
        if let Err(error) = load(&engine).await {
            tracing::warn!(%error, "which functions are paused could not be read");
        }
    }
}
