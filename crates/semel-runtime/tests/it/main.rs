//! The runtime against real targets.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
