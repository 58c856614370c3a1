//! Bytes that are no record, told in the same way by every adapter.

use semel_core::{
    store::{StoreError, StoreErrorKind},
    wire::WireError,
};

/// What is wrong with a store's bytes that were read while doing this.
pub(super) fn unreadable(store: &'static str, doing: impl Into<String>, error: WireError) -> StoreError {
    let kind = match error {
        WireError::Newer { .. } => StoreErrorKind::Misconfigured,
        // Non-exhaustive: whatever else is wrong with the bytes, they are not what was written.
        _ => StoreErrorKind::Corrupt,
    };
    StoreError::new(kind, store, doing).because(error)
}
