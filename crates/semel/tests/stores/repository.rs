//! Upserts and versioned writes.
