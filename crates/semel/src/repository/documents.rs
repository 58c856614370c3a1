//! The port that repositories write through.

use semel_core::{BoxFuture, key::Key, store::StoreError};
use std::{fmt, num::NonZeroU64};

/// Where documents live. Two methods: what every database can do in one atomic step.
///
/// 1. A document is written only if the stored version is the expected one; what is there is shown if not.
/// 2. Losing is a value. An error means that nobody could tell what happened.
/// 3. Documents do not expire, and are not deleted.
pub trait Documents: Send + Sync + 'static {
    /// What stands under the key.
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Document>, StoreError>>;

    /// Writes the document if the stored version is the expected one (`None`: if nothing is stored).
    fn put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        document: &'a Document,
    ) -> BoxFuture<'a, Result<Put, StoreError>>;
}

/// What became of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a write may be lost"]
pub enum Put {
    /// Written.
    Written,
    /// Not written, because this is there instead.
    Lost(Option<Document>),
}

/// A value as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Document {
    /// How many writes it has seen.
    pub version: Version,
    /// Random, one per write: a stored document with one's own writer is proof of authorship.
    pub writer: u128,
    /// The value.
    pub json: String,
}

/// How many writes a document has seen: 1 when it is created, and one more with every change.
///
/// ```
/// use semel::repository::Version;
/// let version = Version::new(3).unwrap();
/// assert_eq!(version.next(), Version::new(4).unwrap());
/// assert_eq!(Version::new(0), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(NonZeroU64);

impl Version {
    /// Of a document that was just created.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// A version of this number, such as one that came back in an `If-Match`; `None` for 0, and for more than
    /// fits the signed 64 bits that databases have.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(it) if number <= i64::MAX as u64 => Some(Self(it)),
            Some(_) | None => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        match Self::new(self.get().saturating_add(1)) {
            Some(next) => next,
            // Nobody writes a document 2^63 times.
            None => self,
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
