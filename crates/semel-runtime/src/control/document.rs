//! Documents that all nodes share.
//!
//! 1. A document is an execution of the function `$control` that waits for ever: nobody claims that function. Its content is
//!    its event.
//! 2. A change ends the execution and redrives it with the new content, in one write that names the fence it has read. So a
//!    change is never lost under another one.
//! 3. The change and its audit entry are one write.

use super::Auditing;
use crate::engine::{Engine, Runtime};
use semel_core::{
    execution::{Arrival, Execution, ExecutionId, Input, Origin, step},
    fence::Fence,
    fingerprint::Fingerprint,
    key::Key,
    queue::{Accepted, Change, EVENT_BYTES_MAX, Fenced, Written},
    retry::{Jitter, RetryPolicy},
    store::{StoreError, StoreErrorKind},
    time::Timestamp,
};
use std::sync::Arc;

/// Longest name of a document that is not the runtime's own, in bytes.
pub const DOCUMENT_NAME_BYTES_MAX: usize = 64;
const FUNCTION: &str = "$control";
/// How often a change is tried while others change the same document.
const TRIES_MAX: u32 = 32;

impl Runtime {
    /// What a document of somebody else's says, such as the functions that an API has set.
    pub async fn document(&self, name: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(read(self.engine(), &theirs(name)?).await?.content)
    }

    /// Changes a document of somebody else's: `say` is given what it says, and says what it is to say, or nothing if it may stay.
    /// It may be asked several times, if others change the document too. Gives what the document says then. The entry is
    /// written with the change.
    pub async fn change_document(
        &self,
        name: &str,
        entry: Auditing<'_>,
        say: impl Fn(Option<&[u8]>) -> Option<Vec<u8>> + Send,
    ) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(change(self.engine(), &theirs(name)?, &entry, say).await?.content)
    }
}

/// Names of others are kept apart from the runtime's own.
fn theirs(name: &str) -> Result<String, StoreError> {
    let is_fine = |it: u8| it.is_ascii_graphic();
    if name.is_empty() || name.len() > DOCUMENT_NAME_BYTES_MAX || !name.bytes().all(is_fine) {
        let context = format!("a document's name is 1 … {DOCUMENT_NAME_BYTES_MAX} printable characters");
        return Err(StoreError::new(StoreErrorKind::Misconfigured, "control", context));
    }
    Ok(format!("their {name}"))
}

fn key(name: &str) -> Key {
    Key::new(FUNCTION, name).expect("names of documents are short words")
}

/// A document without content, as it is accepted.
fn empty(now: Timestamp, name: &str) -> Execution {
    let arrival = Arrival {
        key: key(name),
        function: FUNCTION.into(),
        origin: Origin { source: FUNCTION.into(), id: name.into(), kind: "document".into() },
        order: None,
        fingerprint: Fingerprint::of_bytes(name.as_bytes()),
        event: [].into(),
        event_time: None,
        event_expires_at: None,
    };
    Execution::accepted(now, arrival, now)
}

/// The document with other content.
fn with_content(now: Timestamp, before: &Execution, content: Vec<u8>) -> Execution {
    // No policy has a say in a document.
    let policy = RetryPolicy::default();
    let ended = step(now, before, Input::Cancel, &policy, Jitter::LEAST).expect("a document always waits");
    let redrive = Input::Redrive { event: Some(content.into()) };
    step(now, &ended, redrive, &policy, Jitter::LEAST).expect("what was cancelled can be redriven")
}

/// What a document says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Edition {
    /// Of the write that it says this since: another one may say the same again.
    pub(crate) fence: Option<Fence>,
    /// Nothing if nobody ever wrote it.
    pub(crate) content: Option<Arc<[u8]>>,
}

impl Edition {
    fn of(fence: Option<Fence>, content: Option<Arc<[u8]>>) -> Self {
        Self { fence, content: content.filter(|it| !it.is_empty()) }
    }
}

/// What a document is to say, and what is written with that: its audit entry.
pub(crate) struct Revision {
    pub(crate) content: Vec<u8>,
    pub(crate) causes: Vec<Execution>,
}

/// What a document says.
pub(crate) async fn read(engine: &Engine, name: &str) -> Result<Edition, StoreError> {
    let found = engine.queue.get(&[ExecutionId::of(&key(name))]).await?.pop().flatten();
    Ok(found.map_or(Edition { fence: None, content: None }, |it| Edition::of(Some(it.fence), it.value.event)))
}

/// Changes a document: `change` is given what it says, and says what it is to say, or nothing if it may stay.
pub(crate) async fn change(
    engine: &Engine,
    name: &str,
    auditing: &Auditing<'_>,
    change: impl Fn(Option<&[u8]>) -> Option<Vec<u8>> + Send,
) -> Result<Edition, StoreError> {
    let revision = |content| Revision { content, causes: vec![auditing.execution(engine)] };
    revise(engine, name, move |before| Ok(change(before).map(revision))).await
}

/// Changes a document: `revise` is given what it says, and says what it is to say, or nothing if it may stay. It is asked again
/// if somebody else changed the document meanwhile.
pub(crate) async fn revise(
    engine: &Engine,
    name: &str,
    mut revise: impl FnMut(Option<&[u8]>) -> Result<Option<Revision>, StoreError> + Send,
) -> Result<Edition, StoreError> {
    let error =
        |kind, context: &str| StoreError::new(kind, "control", format!("{context} document `{name}`"));
    let mut found = found_or_made(engine, name).await?;
    for _ in 0..TRIES_MAX {
        let before = found.value.event.as_deref().filter(|it| !it.is_empty());
        let Some(Revision { content, causes }) = revise(before)? else {
            return Ok(Edition::of(Some(found.fence), found.value.event));
        };
        if content.len() > EVENT_BYTES_MAX {
            return Err(error(StoreErrorKind::Refused, "there is more than fits into the"));
        }
        let now = engine.clock.now();
        let after = with_content(now, &found.value, content);
        let written = after.event.clone();
        match engine.queue.write(&[Change { expected: found.fence, after, causes }]).await?[..] {
            [Written::Won(fence)] => return Ok(Edition::of(Some(fence), written)),
            _ => found = found_or_made(engine, name).await?,
        }
    }
    Err(error(StoreErrorKind::Unavailable, "too many change the"))
}

async fn found_or_made(engine: &Engine, name: &str) -> Result<Fenced<Execution>, StoreError> {
    let new = empty(engine.clock.now(), name);
    let found = engine.queue.get(&[new.id()]).await?.pop().flatten();
    if let Some(found) = found {
        return Ok(found);
    }
    let accepted = engine.queue.accept(std::slice::from_ref(&new)).await?.pop();
    Ok(match accepted.expect("an answer for each") {
        Accepted::New(fence) => Fenced { fence, value: new },
        Accepted::Duplicate(found) => *found,
    })
}
