//! Purging in the background.
