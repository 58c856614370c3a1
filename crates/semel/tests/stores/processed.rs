//! Processed events.
