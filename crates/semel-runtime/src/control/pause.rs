//! Pausing functions, on all nodes.
//!
//! 1. Which functions are paused is a document. Whoever changes it acts on it at once; other nodes read it every
//!    [`POLL`]. A node knows it before it starts anything, and one that could not read it for
//!    [a while](crate::engine::BELIEVED) starts nothing until it can.
//! 2. A paused function starts nothing: what is accepted for it waits. What runs goes on.
//! 3. A function that is drained is paused, and what runs of it is waited for: on this node until it is settled, on others until
//!    all of them know of the pause, or start nothing, and the queue then has nothing of it that is leased. What was begun
//!    before is leased; so nothing is missed.
//! 4. A function that says that it wants no more events is paused by the runtime itself, which goes on trying where that
//!    cannot be written.

use super::{
    Auditing,
    document::{self, Edition},
};
use crate::engine::{BELIEVED, Engine, Here, Runtime, Stage};
use semel_core::{
    queue::{Filter, PAGE_MAX},
    record::Status,
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How often nodes look for what others paused.
const POLL: Duration = Duration::from_secs(2);
const _: () = assert!(POLL.as_secs() * 2 < BELIEVED.as_secs(), "one read that fails changes nothing");
/// How often it is looked whether other nodes have finished what they run.
const LOOK: Duration = Duration::from_millis(200);
/// How long after the first try to pause a function that wants no more events the second comes.
const AGAIN_MIN: Duration = Duration::from_secs(1);
/// Longest time between two of them.
const AGAIN_MAX: Duration = Duration::from_secs(30);
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

    /// Pauses a function, and waits until nothing of it runs on any node and none can start it, or the time is over. Whether
    /// nothing does. It takes five seconds until all nodes know, unless they do already or this one is
    /// [alone](crate::engine::Builder::alone).
    pub async fn drain(&self, function: &str, who: &str, within: Duration) -> Result<bool, StoreError> {
        let began = self.engine().clock.monotonic();
        set(self.engine(), function, who, true, "drain").await?;
        let took = self.engine().clock.monotonic().saturating_sub(began);
        self.drained(function, within.saturating_sub(took)).await
    }

    /// Waits as [`Runtime::drain`] does, and pauses nothing: for whoever has drained a function before, and would not undo what
    /// somebody did since. If somebody resumed it, this is not waited for.
    pub async fn drained(&self, function: &str, within: Duration) -> Result<bool, StoreError> {
        let engine = self.engine();
        let until = engine.clock.monotonic() + within;
        if !engine.idle(within, |table| table.in_flight_of(function)).await {
            return Ok(false);
        }
        loop {
            let drained = look(engine, function).await?;
            let left = until.saturating_sub(engine.clock.monotonic());
            match drained {
                Drained::Wholly => return Ok(true),
                Drained::Resumed => return Ok(false),
                Drained::NotYet(_) if left.is_zero() => return Ok(false),
                Drained::NotYet(wait) => engine.clock.sleep(wait.min(left)).await,
            }
        }
    }
}

/// How far a function is drained.
enum Drained {
    /// Nothing of it runs, and nothing can start.
    Wholly,
    /// Look again after this.
    NotYet(Duration),
    /// Somebody lets it go on.
    Resumed,
}

/// Looks what runs of a function that this node knows to be paused.
async fn look(engine: &Engine, function: &str) -> Result<Drained, StoreError> {
    let all_know_at = engine.all_know_at();
    let unknown_for = all_know_at.saturating_sub(engine.clock.monotonic());
    if !unknown_for.is_zero() {
        return Ok(Drained::NotYet(unknown_for));
    }
    if is_leased(engine, function).await? {
        return Ok(Drained::NotYet(LOOK));
    }
    // Somebody may have let it go on meanwhile, for a moment or for longer.
    load(engine).await?;
    if !engine.table().paused().contains(function) {
        return Ok(Drained::Resumed);
    }
    Ok(if engine.all_know_at() == all_know_at { Drained::Wholly } else { Drained::NotYet(Duration::ZERO) })
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

/// The function wants no more events. It is tried until it is written, unless that makes no sense, or the runtime stops.
pub(crate) async fn pause_by_runtime(engine: &Engine, function: &str, why: &str) {
    let mut pause = AGAIN_MIN;
    while let Err(error) = set(engine, function, RUNTIME, true, why).await {
        tracing::error!(%error, function, "a function that wants no more events could not be paused");
        let is_over = !error.is_transient() || is_on("stop_is_tried_once");
        if is_over || engine.stage() >= Stage::Interrupting {
            return;
        }
        engine.clock.sleep(pause).await;
        pause = (pause * 2).min(AGAIN_MAX);
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
    let _in_turn = engine.pausing.lock().await;
    let was_paused = engine.table().paused().contains(function);
    let asked = engine.here();
    let edition =
        document::change(engine, DOCUMENT, &auditing, |before| changed(before, function, is_paused));
    apply(engine, asked, &edition.await?)?;
    Ok(was_paused != is_paused)
}

/// What is to be written, if anything. What cannot be read is not written over, which would resume whatever is paused: whoever
/// reads it next tells of it.
fn changed(before: Option<&[u8]>, function: &str, is_paused: bool) -> Option<Vec<u8>> {
    let mut names = names(before).ok()?;
    let is_changed = if is_paused { names.insert(function.to_owned()) } else { names.remove(function) };
    is_changed.then(|| serde_json::to_vec(&names).expect("names are JSON"))
}

/// What is written of a document that says this, as it is read; nothing if it says nothing.
pub(super) fn rewritten(content: &[u8]) -> Option<Vec<u8>> {
    names(Some(content)).ok().map(|names| serde_json::to_vec(&names).expect("names are JSON"))
}

fn names(content: Option<&[u8]>) -> Result<BTreeSet<String>, serde_json::Error> {
    content.map_or_else(|| Ok(BTreeSet::new()), serde_json::from_slice)
}

fn apply(engine: &Engine, asked: Here, edition: &Edition) -> Result<(), StoreError> {
    let names = names(edition.content.as_deref()).map_err(|error| {
        StoreError::new(StoreErrorKind::Corrupt, "control", "read which functions are paused").because(error)
    })?;
    let here = engine.here();
    engine.table().set_paused(here.monotonic, names.into_iter().map(Into::into).collect());
    // After that: nobody believes what is not set yet.
    let is_news = engine.informed().read(asked, here, edition.fence);
    if is_news {
        engine.wake.notify_one();
    }
    Ok(())
}

/// Reads which functions are paused, before anything is started.
pub(crate) async fn load(engine: &Engine) -> Result<(), StoreError> {
    let _in_turn = engine.pausing.lock().await;
    let asked = engine.here();
    let edition = document::read(engine, DOCUMENT).await?;
    apply(engine, asked, &edition)
}

/// Follows what other nodes pause, until the runtime stops.
pub(crate) async fn follow(engine: Arc<Engine>) {
    while engine.stage() < Stage::Interrupting {
        engine.clock.sleep(POLL).await;
        if let Err(error) = load(&engine).await {
            tracing::warn!(%error, "which functions are paused could not be read");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_paused_is_written_if_it_changes_and_never_over_what_cannot_be_read() {
        let check = |before: Option<&str>, is_paused, after: Option<&str>| {
            let written = changed(before.map(str::as_bytes), "orders", is_paused);
            assert_eq!(written.as_deref(), after.map(str::as_bytes), "{before:?}");
        };
        check(None, true, Some(r#"["orders"]"#));
        check(Some(r#"["billing"]"#), true, Some(r#"["billing","orders"]"#));
        check(Some(r#"["billing","orders"]"#), true, None);
        check(Some(r#"["billing","orders"]"#), false, Some(r#"["billing"]"#));
        check(None, false, None);
        check(Some(r#"{"billing": "until tomorrow"}"#), true, None);
        check(Some(r#"["billing""#), false, None);
    }
}
