//! Documents of repositories, in the words of rows.

use crate::repository::{Document, Version};
use semel_core::{
    key::Key,
    store::{StoreError, StoreErrorKind},
};

/// A version as databases hold it.
pub(crate) fn number(version: Version) -> i64 {
    version.get().cast_signed()
}

/// The document that a row of this key holds.
pub(crate) fn document(
    store: &'static str,
    key: &Key,
    version: i64,
    writer: &[u8],
    json: String,
) -> Result<Document, StoreError> {
    let version = u64::try_from(version).ok().and_then(Version::new);
    let writer = writer.try_into().map(u128::from_be_bytes).ok();
    let read = || Some(Document { version: version?, writer: writer?, json });
    read().ok_or_else(|| {
        let context = format!("reading the document `{key}`: Semel did not write this row");
        StoreError::new(StoreErrorKind::Corrupt, store, context)
    })
}
