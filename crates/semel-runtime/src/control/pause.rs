//! Pausing functions, on all nodes.
//!
//! 1. Which functions are paused is a document. Whoever changes it acts on it at once; other nodes read it every
//!    [`POLL`]. A node knows it before it starts anything.
//! 2. A paused function starts nothing: what is accepted for it waits. What runs goes on.
//! 3. A function that is drained is paused, and what runs of it on this node is waited for.
//! 4. A function that says that it wants no more events is paused by the runtime itself.

use super::{Auditing, document};
use crate::engine::{Engine, Runtime, Stage};
use semel_core::store::{StoreError, StoreErrorKind};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How often nodes look for what others paused.
const POLL: Duration = Duration::from_secs(5);
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

    /// Pauses a function, and waits until nothing of it runs on this node, or the time is over. Whether nothing does.
    pub async fn drain(&self, function: &str, who: &str, within: Duration) -> Result<bool, StoreError> {
        set(self.engine(), function, who, true, "drain").await?;
        Ok(self.engine().idle(within, |table| table.in_flight_of(function)).await)
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
