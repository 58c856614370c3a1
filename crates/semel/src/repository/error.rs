//! Why a repository did not do what it was asked.

use super::{DOCUMENT_BYTES_MAX, Version};
use semel_core::{
    key::{Key, KeyError},
    store::{StoreError, StoreErrorKind},
};
use std::{error::Error as StdError, fmt};

/// Why a repository did not do what it was asked.
///
/// ```
/// use semel::{Once, repository::{Repository, RepositoryErrorKind, Version}};
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let assets = Repository::<u32>::new(Once::memory().documents(), "assets");
/// let first = assets.upsert("a-1", &10).await?;
/// assets.update_if("a-1", first, &11).await?;
/// let stale = assets.update_if("a-1", first, &12).await.unwrap_err();
/// assert_eq!(stale.kind(), RepositoryErrorKind::ConcurrentModification { current: Version::new(2) });
/// # Ok::<(), semel::repository::RepositoryError>(()) }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct RepositoryError {
    kind: RepositoryErrorKind,
    /// Of the document, if the id made one.
    key: Option<Key>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    is_transient: bool,
}

/// What happened, to branch on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RepositoryErrorKind {
    /// Somebody else has written it since: nothing was written now. Look again, and decide again.
    ConcurrentModification {
        /// What it is at now; none if it is not there.
        current: Option<Version>,
    },
    /// There is no such document.
    NotFound,
    /// The collection or the id is missing, too long, or contains control characters.
    InvalidId,
    /// The value cannot be written: its type refused to be serialised, or it is too large.
    Unwritable,
    /// What is stored is not a value of this type.
    Unreadable,
    /// The database could not tell what happened; what was to be written may be there.
    Store,
}

impl RepositoryError {
    /// What happened.
    pub const fn kind(&self) -> RepositoryErrorKind {
        self.kind
    }

    /// Whether the same may succeed when it is tried again: after a concurrent modification, with what is there
    /// now.
    pub const fn is_transient(&self) -> bool {
        self.is_transient
    }

    /// Of the document, if the id made one.
    pub const fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    pub(super) fn conflict(key: &Key, current: Option<Version>) -> Self {
        let kind = RepositoryErrorKind::ConcurrentModification { current };
        Self { kind, key: Some(key.clone()), source: None, is_transient: true }
    }

    pub(super) fn not_found(key: &Key) -> Self {
        let kind = RepositoryErrorKind::NotFound;
        Self { kind, key: Some(key.clone()), source: None, is_transient: false }
    }

    pub(super) fn bad_id(error: KeyError) -> Self {
        let kind = RepositoryErrorKind::InvalidId;
        Self { kind, key: None, source: Some(error.into()), is_transient: false }
    }

    pub(super) fn unwritable(key: &Key, source: Option<serde_json::Error>) -> Self {
        let (kind, source) = (RepositoryErrorKind::Unwritable, source.map(Into::into));
        Self { kind, key: Some(key.clone()), source, is_transient: false }
    }

    pub(super) fn unreadable(key: &Key, source: serde_json::Error) -> Self {
        let kind = RepositoryErrorKind::Unreadable;
        Self { kind, key: Some(key.clone()), source: Some(source.into()), is_transient: false }
    }

    pub(super) fn store(key: &Key, error: StoreError) -> Self {
        let (kind, is_transient) = (RepositoryErrorKind::Store, error.is_transient());
        Self { kind, key: Some(key.clone()), source: Some(error.into()), is_transient }
    }

    /// The reply to a write was lost, and somebody has written since: to try again might apply a change twice.
    pub(super) fn overtaken(key: &Key, current: Version, lost: StoreError) -> Self {
        let context = format!(
            "the reply to the write was lost, and it is at version {current} by now, perhaps on top of it: read it, \
             and see whether the change is in it"
        );
        let error = StoreError::new(StoreErrorKind::Unavailable, "any", context).because(lost);
        Self { is_transient: false, ..Self::store(key, error) }
    }
}

impl fmt::Display for RepositoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        match self.kind {
            RepositoryErrorKind::ConcurrentModification { current: Some(current) } => {
                write!(f, "was written by somebody else and is at version {current} now: read it again")
            }
            RepositoryErrorKind::ConcurrentModification { current: None } => {
                f.write_str("is not there, so it is not at the expected version: create it first")
            }
            RepositoryErrorKind::NotFound => f.write_str("is not there: create it first"),
            RepositoryErrorKind::InvalidId => f.write_str("the collection and the id do not make a key"),
            RepositoryErrorKind::Unwritable if self.source.is_none() => {
                write!(f, "is larger than {DOCUMENT_BYTES_MAX} bytes: keep the large part elsewhere")
            }
            RepositoryErrorKind::Unwritable => f.write_str("its type refused to be serialised"),
            RepositoryErrorKind::Unreadable => {
                f.write_str("what is stored is not of this type: was it written by another version?")
            }
            RepositoryErrorKind::Store => f.write_str("the database could not tell what happened"),
        }
    }
}

impl fmt::Debug for RepositoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepositoryError")
            .field("kind", &self.kind)
            .field("key", &self.key)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl StdError for RepositoryError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|it| it as &(dyn StdError + 'static))
    }
}
