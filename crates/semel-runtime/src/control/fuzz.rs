//! Documents that all nodes share: see [`crate::fuzz`].

use super::{jobs, pause};

/// Which jobs there are.
pub(crate) fn jobs(bytes: &[u8]) {
    is_written_as_it_was_read(bytes, jobs::rewritten);
}

/// Which functions are paused.
pub(crate) fn paused(bytes: &[u8]) {
    is_written_as_it_was_read(bytes, pause::rewritten);
}

/// What a node reads and writes, another one reads as the same.
fn is_written_as_it_was_read(bytes: &[u8], rewritten: fn(&[u8]) -> Option<Vec<u8>>) {
    if let Some(written) = rewritten(bytes) {
        assert_eq!(rewritten(&written).as_ref(), Some(&written), "{}", written.escape_ascii());
    }
}
