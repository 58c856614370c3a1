//! Values under an id, in the database that the records are in: written so that a repeated write changes nothing.
//!
//! 1. [`Repository::upsert`] creates or updates. The same call twice leaves the same state and the same version:
//!    a value that is there already is not written.
//! 2. [`Repository::update_if`] writes only if the version is still the one that the caller has seen. Whoever comes
//!    late is told the current version, and nothing is overwritten that nobody has looked at.
//! 3. [`Repository::modify`] reads, applies a change and writes if the version is still that; else it does it again
//!    on what is really there, [`MODIFY_MAX`] times at most.
//! 4. A write whose reply was lost is sent again. A stored document with one's own random writer had landed; an
//!    equal value of somebody else's is not taken for it, since two increments from 5 to 6 are not one. If somebody has
//!    written a newer one meanwhile, nobody can tell any more: a change is not applied again, but reported.
//! 5. The versions of a document are 1, 2, 3 and so on. Documents do not expire, and are not deleted: that a thing
//!    is gone is a state of it.
//!
//! It does not order events: an event that arrives late is told from a new one by what the value holds (a sequence
//! number, a time of change). It has no queries but by id; the tables are yours to query.
//!
//! ```
//! use semel::{Once, repository::Repository};
//! # use serde::{Deserialize, Serialize};
//! #[derive(Serialize, Deserialize)]
//! struct Asset { facility: String, load: u32 }
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let assets = Repository::<Asset>::new(Once::memory().documents(), "assets");
//! let asset = Asset { facility: "north".to_owned(), load: 0 };
//! let first = assets.upsert("a-1", &asset).await?;
//! assert_eq!(assets.upsert("a-1", &asset).await?, first, "nothing changed");
//! let loaded = assets.modify("a-1", |asset| asset.load += 5).await?;
//! assert!(loaded.version > first);
//! assert!(assets.update_if("a-1", first, &asset).await.is_err(), "somebody was faster");
//! # Ok::<(), semel::repository::RepositoryError>(()) }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```

mod documents;
mod error;
mod in_store;

pub use documents::{Document, Documents, Put, Version};
pub use error::{RepositoryError, RepositoryErrorKind};
pub use in_store::StoreDocuments;

use crate::nonce;
use semel_core::{
    fingerprint::Fingerprint,
    key::{IntoParts, Key},
    sabotage,
    store::StoreError,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, marker::PhantomData, sync::Arc};

/// Largest value, as JSON, in bytes: every database takes it.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Most times that one change is applied before [`Repository::modify`] gives up, unless set.
pub const MODIFY_MAX: u32 = 64;
/// Most times that one write is sent whose reply is lost.
const SENDS_MAX: u32 = 4;

/// Values of one type under their ids. Cheap to clone.
pub struct Repository<T> {
    documents: Arc<dyn Documents>,
    collection: String,
    modify_max: u32,
    values: PhantomData<fn() -> T>,
}

/// A value, and the version that it was read at or written as.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// For [`Repository::update_if`].
    pub version: Version,
}

impl<T: Serialize + DeserializeOwned> Repository<T> {
    /// The values of this collection.
    pub fn new(documents: impl Documents, collection: impl Into<String>) -> Self {
        Self::from_documents(Arc::new(documents), collection)
    }

    /// The values of this collection, in documents that others may hold too.
    pub fn from_documents(documents: Arc<dyn Documents>, collection: impl Into<String>) -> Self {
        Self { documents, collection: collection.into(), modify_max: MODIFY_MAX, values: PhantomData }
    }

    /// Most times that [`Repository::modify`] applies a change; 64 unless set, once at least.
    #[must_use]
    pub fn modify_max(self, times: u32) -> Self {
        Self { modify_max: times.max(1), ..self }
    }

    /// The value under this id.
    pub async fn get(&self, id: impl IntoParts) -> Result<Option<Versioned<T>>, RepositoryError> {
        let key = self.key(id)?;
        self.load(&key).await?.map(|found| read(&key, &found)).transpose()
    }

    /// Creates or updates. The same call twice leaves the same state; a value that is there already is not
    /// written, and keeps its version.
    ///
    /// The last writer wins, whatever it had seen. Where that is wrong, use [`Repository::update_if`] or
    /// [`Repository::modify`].
    pub async fn upsert(&self, id: impl IntoParts, value: &T) -> Result<Version, RepositoryError> {
        let key = self.key(id)?;
        let json = written(&key, value)?;
        let mut found: Option<Document> = None;
        for _ in 0..self.modify_max {
            if let Some(same) = found.as_ref().filter(|it| is_same(&it.json, &json)) {
                return Ok(same.version);
            }
            match self.put(&key, found.map(|it| it.version), json.clone()).await? {
                Sent::Written(version) => return Ok(version),
                Sent::Lost(current) => found = current,
                // Ours is to be the last, whether it was there before or not.
                Sent::Overtaken(current, _) => found = Some(current),
            }
        }
        Err(RepositoryError::conflict(&key, found.map(|it| it.version)))
    }

    /// Creates; a concurrent modification if it is there already.
    pub async fn create(&self, id: impl IntoParts, value: &T) -> Result<Version, RepositoryError> {
        self.write(&self.key(id)?, None, value).await
    }

    /// Writes if the version is still this one, and gives the new one.
    pub async fn update_if(
        &self,
        id: impl IntoParts,
        version: Version,
        value: &T,
    ) -> Result<Version, RepositoryError> {
        self.write(&self.key(id)?, Some(version), value).await
    }

    /// Changes the value that is there: reads it, applies the change, and writes it if nobody else has written
    /// meanwhile; else again on what is there now. A change that changes nothing is not written.
    ///
    /// The change may be applied several times, each time to a fresh value: it must have no other effect.
    pub async fn modify(
        &self,
        id: impl IntoParts,
        change: impl FnMut(&mut T),
    ) -> Result<Versioned<T>, RepositoryError> {
        self.change(self.key(id)?, None::<fn() -> T>, change).await
    }

    /// As [`Repository::modify`]; what is not there is made first, and written even if the change does nothing.
    ///
    /// ```
    /// use semel::{Once, repository::Repository};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let counts = Repository::<u32>::new(Once::memory().documents(), "counts");
    /// for _ in 0..3 {
    ///     counts.modify_or("views", || 0, |count| *count += 1).await?;
    /// }
    /// assert_eq!(counts.get("views").await?.unwrap().value, 3);
    /// # Ok::<(), semel::repository::RepositoryError>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn modify_or(
        &self,
        id: impl IntoParts,
        make: impl FnMut() -> T,
        change: impl FnMut(&mut T),
    ) -> Result<Versioned<T>, RepositoryError> {
        self.change(self.key(id)?, Some(make), change).await
    }

    async fn change(
        &self,
        key: Key,
        mut make: Option<impl FnMut() -> T>,
        mut change: impl FnMut(&mut T),
    ) -> Result<Versioned<T>, RepositoryError> {
        let mut found = self.load(&key).await?;
        for _ in 0..self.modify_max {
            let (mut value, expected) = match (&found, &mut make) {
                (Some(document), _) => (read(&key, document)?.value, Some(document.version)),
                (None, Some(make)) => (make(), None),
                (None, None) => return Err(RepositoryError::not_found(&key)),
            };
            change(&mut value);
            let json = written(&key, &value)?;
            if let Some(document) = found.as_ref().filter(|it| is_same(&it.json, &json)) {
                return Ok(Versioned { value, version: document.version });
            }
            match self.put(&key, expected, json).await? {
                Sent::Written(version) => return Ok(Versioned { value, version }),
                Sent::Lost(current) => found = current,
                Sent::Overtaken(current, lost) => {
                    return Err(RepositoryError::overtaken(&key, current.version, lost));
                }
            }
        }
        Err(RepositoryError::conflict(&key, found.map(|it| it.version)))
    }

    async fn write(
        &self,
        key: &Key,
        expected: Option<Version>,
        value: &T,
    ) -> Result<Version, RepositoryError> {
        match self.put(key, expected, written(key, value)?).await? {
            Sent::Written(version) => Ok(version),
            Sent::Lost(current) => Err(RepositoryError::conflict(key, current.map(|it| it.version))),
            Sent::Overtaken(current, lost) => Err(RepositoryError::overtaken(key, current.version, lost)),
        }
    }
}

/// What became of a write that was sent as often as it took.
enum Sent {
    Written(Version),
    /// It is not there, and never was.
    Lost(Option<Document>),
    /// A reply was lost, and this is newer than what was sent: it may be written upon ours.
    Overtaken(Document, StoreError),
}

impl<T> Repository<T> {
    fn key(&self, id: impl IntoParts) -> Result<Key, RepositoryError> {
        Key::new(self.collection.as_str(), id).map_err(RepositoryError::bad_id)
    }

    async fn load(&self, key: &Key) -> Result<Option<Document>, RepositoryError> {
        let mut sends = 1;
        loop {
            match self.documents.load(key).await {
                Err(error) if is_to_be_sent_again(&error, sends) => sends += 1,
                answer => return answer.map_err(|error| RepositoryError::store(key, error)),
            }
        }
    }

    /// Writes, again where the reply was lost: a stored document of our own writer is ours.
    async fn put(&self, key: &Key, expected: Option<Version>, json: String) -> Result<Sent, RepositoryError> {
        let version = expected.map_or(Version::FIRST, Version::next);
        let document = Document { version, writer: nonce::holder().0, json };
        let mut sends = 1;
        let mut lost = None;
        loop {
            match (self.documents.put(key, expected, &document).await, lost.take()) {
                (Ok(Put::Written), _) => return Ok(Sent::Written(version)),
                (Ok(Put::Lost(Some(found))), _) if is_own(&found, &document) => {
                    return Ok(Sent::Written(version));
                }
                (Ok(Put::Lost(Some(found))), Some(lost)) if is_upon(&found, &document) => {
                    return Ok(Sent::Overtaken(found, lost));
                }
                (Ok(Put::Lost(found)), _) => return Ok(Sent::Lost(found)),
                (Err(error), _) if is_to_be_sent_again(&error, sends) => {
                    (sends, lost) = (sends + 1, Some(error));
                }
                (Err(error), _) => return Err(RepositoryError::store(key, error)),
            }
        }
    }
}

/// Whether what is stored is what we sent.
fn is_own(stored: &Document, sent: &Document) -> bool {
    stored == sent || (sabotage::is_on("equal_document_is_own") && stored.json == sent.json)
}

/// Whether what we sent may be what this was written upon.
fn is_upon(stored: &Document, sent: &Document) -> bool {
    stored.version > sent.version && !sabotage::is_on("overtaken_change_is_applied_again")
}

fn is_to_be_sent_again(error: &StoreError, sends: u32) -> bool {
    error.is_transient() && sends < SENDS_MAX
}

fn read<T: DeserializeOwned>(key: &Key, found: &Document) -> Result<Versioned<T>, RepositoryError> {
    let value = serde_json::from_str(&found.json).map_err(|error| RepositoryError::unreadable(key, error))?;
    Ok(Versioned { value, version: found.version })
}

fn written<T: Serialize>(key: &Key, value: &T) -> Result<String, RepositoryError> {
    let json = serde_json::to_string(value).map_err(|error| RepositoryError::unwritable(key, Some(error)))?;
    if json.len() > DOCUMENT_BYTES_MAX { Err(RepositoryError::unwritable(key, None)) } else { Ok(json) }
}

/// Whether two texts are one value: the order of members, which a hash map does not keep, does not matter.
fn is_same(one: &str, other: &str) -> bool {
    let canonical = |json: &str| Fingerprint::of_json(json.as_bytes()).ok();
    one == other || canonical(one).is_some_and(|it| Some(it) == canonical(other))
}

impl<T> Clone for Repository<T> {
    fn clone(&self) -> Self {
        let (documents, collection) = (Arc::clone(&self.documents), self.collection.clone());
        Self { documents, collection, modify_max: self.modify_max, values: PhantomData }
    }
}

impl<T> fmt::Debug for Repository<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository").field("collection", &self.collection).finish_non_exhaustive()
    }
}
