//! Room that a thread uses again, for what is put together only to be hashed or copied.
//!
//! 1. Who needs room for a moment gets what the thread used before: no allocation, and memory that is warm.
//! 2. Who needs it while it is in use gets room of their own.
//! 3. A thread keeps no more than [`SCRATCH_BYTES_MAX`] of each kind: what grew beyond that is let go.

use std::{cell::Cell, thread::LocalKey};

/// Most room of one kind that a thread keeps, in bytes.
pub const SCRATCH_BYTES_MAX: usize = 16 * 1024;

thread_local! {
    static BYTES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends a buffer, empty, with whatever room it has.
///
/// ```
/// use semel_core::scratch::with_bytes;
/// let length = with_bytes(|buffer| {
///     buffer.extend_from_slice(b"order 7");
///     buffer.len()
/// });
/// assert_eq!(length, 7);
/// ```
pub fn with_bytes<R>(user: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    with_room(&BYTES, user)
}

/// Lends what a thread keeps under this name.
pub(crate) fn with_room<T, R>(
    kept: &'static LocalKey<Cell<Vec<T>>>,
    user: impl FnOnce(&mut Vec<T>) -> R,
) -> R {
    // A thread that is about to end has none any more.
    let mut room = kept.try_with(Cell::take).unwrap_or_default();
    let result = user(&mut room);
    room.clear();
    if room.capacity() * size_of::<T>() <= SCRATCH_BYTES_MAX {
        let _ = kept.try_with(|it| it.set(room));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread that has used none before.
    fn on_a_thread(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(test).join().expect("it does not panic"));
    }

    #[test]
    fn room_is_used_again_and_nothing_is_left_in_it() {
        on_a_thread(|| {
            let before = with_bytes(|it| {
                it.extend_from_slice(b"secret");
                it.as_ptr()
            });
            assert!(with_bytes(|it| it.is_empty() && it.capacity() >= 6 && it.as_ptr() == before));
        });
    }

    #[test]
    fn who_needs_room_while_it_is_used_gets_room_of_their_own() {
        on_a_thread(|| {
            with_bytes(|outer| {
                outer.push(1);
                with_bytes(|inner| {
                    assert!(inner.is_empty());
                    inner.extend_from_slice(&[2; 100]);
                });
                assert_eq!(outer[..], [1]);
            });
        });
    }

    #[test]
    fn a_thread_keeps_no_more_than_the_limit() {
        on_a_thread(|| {
            with_bytes(|it| it.reserve_exact(SCRATCH_BYTES_MAX + 1));
            assert_eq!(with_bytes(|it| it.capacity()), 0);
            with_bytes(|it| it.reserve_exact(SCRATCH_BYTES_MAX));
            assert_eq!(with_bytes(|it| it.capacity()), SCRATCH_BYTES_MAX);
        });
    }
}
