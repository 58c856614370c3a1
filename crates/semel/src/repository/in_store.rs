//! Documents in any store of records: the embedded one above all.
//!
//! 1. A document is a COMPLETED record that never expires, with the document as its result. It stands below the
//!    key of its collection and id under a name of its own, so that it is never taken for a call's record.
//! 2. The store's fence guards every write; the version is counted inside the document, because fences have gaps.
//! 3. A write costs a look for the fence, and a swap.
//! 4. A document that an operator forgot is absent, and its versions begin again.
//! 5. It is sealed if the results of its [`Once`] are: see [`crate::seal`].
//!
//! It is for stores that keep what they have: where eviction or a lost failover may take a record, it may take a
//! document.

use super::{Document, Documents, Put, Version};
use crate::{driver::Driver, observe::Observed, once::Once, seal::Unopened};
use semel_core::{
    BoxFuture,
    fingerprint::Fingerprint,
    key::Key,
    record::{Body, Record, State, Stored},
    sabotage,
    store::{StoreError, StoreErrorKind, Swap},
    time::Timestamp,
};
use std::sync::Arc;

/// Below which the document of a key stands.
const PLACE: (&str, &str) = ("semel", "document");
/// The version of the encoding.
const FORMAT: u8 = 1;
/// The format, the document's version and its writer.
const HEAD_BYTES: usize = 1 + 8 + 16;

/// Documents in the store of a [`Once`]. Made by [`Once::documents`].
#[derive(Clone)]
pub struct StoreDocuments {
    driver: Arc<Driver>,
}

impl Once {
    /// The documents in this store, for a [`Repository`](super::Repository). Documents and records do not
    /// disturb each other.
    pub fn documents(&self) -> StoreDocuments {
        StoreDocuments { driver: Arc::clone(&self.driver) }
    }
}

impl Documents for StoreDocuments {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        Box::pin(async move {
            let found = self.driver.store.load(&place(key)?).await?;
            self.shown(key, found.as_ref())
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        document: &'a Document,
    ) -> BoxFuture<'a, Result<Put, StoreError>> {
        Box::pin(async move {
            let place = place(key)?;
            let mut found = match expected {
                Some(_) => self.driver.store.load(&place).await?,
                None => None,
            };
            // Twice where a forgotten document is found in the place of none.
            loop {
                let current = self.shown(key, found.as_ref())?;
                let is_stale = current.as_ref().map(|it| it.version) != expected;
                if is_stale && !sabotage::is_on("stale_version_writes") {
                    return Ok(Put::Lost(current));
                }
                let bytes = self.driver.seal.close(&place, encode(document));
                let record = self.record(found.as_ref(), bytes);
                let fence = found.map(|it| it.fence);
                match self.driver.store.swap(&place, fence, &record).await? {
                    Swap::Won(_) => return Ok(Put::Written),
                    Swap::Lost(current) => {
                        let shown = self.shown(key, current.as_ref())?;
                        let is_forgotten = fence.is_none() && shown.is_none() && current.is_some();
                        if !is_forgotten {
                            return Ok(Put::Lost(shown));
                        }
                        found = current;
                    }
                }
            }
        })
    }
}

impl StoreDocuments {
    fn record(&self, found: Option<&Stored>, bytes: Vec<u8>) -> Record {
        let now = self.driver.clock.now();
        Record {
            fingerprint: Fingerprint::EMPTY,
            state: State::Completed(Body::Kept { bytes, until: Timestamp::NEVER }),
            attempts: 1,
            created_at: found.map_or(now, |it| it.record.created_at),
            updated_at: now,
            expires_at: Timestamp::NEVER,
        }
    }

    /// The document in a record; none if it is expired, which is what forgetting makes of it.
    fn shown(&self, key: &Key, found: Option<&Stored>) -> Result<Option<Document>, StoreError> {
        let now = self.driver.clock.now();
        let Some(Stored { record, .. }) = found.filter(|it| !it.record.is_expired(now)) else {
            return Ok(None);
        };
        match &record.state {
            State::Completed(Body::Kept { bytes, .. }) => {
                let opened = self.driver.seal.open(&place(key)?, bytes).map_err(|why| unopened(key, &why))?;
                decode(&opened).map(Some)
            }
            State::Completed(Body::NotKept { .. })
            | State::Pending { .. }
            | State::InProgress { .. }
            | State::Failed { .. } => None,
        }
        .ok_or_else(|| {
            let context = format!("what stands in the place of the document `{key}` is none");
            StoreError::new(StoreErrorKind::Corrupt, "any", context)
        })
    }
}

fn unopened(key: &Key, why: &Unopened) -> StoreError {
    Observed::unopened(key, why);
    let kind = if why.lacks_key() { StoreErrorKind::Misconfigured } else { StoreErrorKind::Corrupt };
    StoreError::new(kind, "any", format!("the document `{key}` cannot be opened: {why}"))
}

fn place(key: &Key) -> Result<Key, StoreError> {
    key.effect(PLACE).map_err(|error| {
        let context = format!("the document `{key}` has no place: shorten its id");
        StoreError::new(StoreErrorKind::Misconfigured, "any", context).because(error)
    })
}

fn encode(document: &Document) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + document.json.len());
    bytes.push(FORMAT);
    bytes.extend(document.version.get().to_be_bytes());
    bytes.extend(document.writer.to_be_bytes());
    bytes.extend(document.json.as_bytes());
    bytes
}

/// What [`encode`] was given, if it was that.
fn decode(bytes: &[u8]) -> Option<Document> {
    let (&format, rest) = bytes.split_first()?;
    let (version, rest) = rest.split_first_chunk()?;
    let (writer, json) = rest.split_first_chunk()?;
    let version = Version::new(u64::from_be_bytes(*version)).filter(|_| format == FORMAT)?;
    Some(Document {
        version,
        writer: u128::from_be_bytes(*writer),
        json: String::from_utf8(json.to_vec()).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_reads_back_as_written_and_damage_is_none() {
        let document = Document { version: Version::FIRST.next(), writer: 7, json: "{\"ü\":1}".to_owned() };
        let bytes = encode(&document);
        assert_eq!(decode(&bytes), Some(document));
        assert_eq!(decode(&bytes[..HEAD_BYTES - 1]), None);
        assert_eq!(decode(&[&[9], &bytes[1..]].concat()), None);
    }
}
