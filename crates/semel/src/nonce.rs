//! Holders that nobody else has.

use semel_core::record::Holder;
use std::cell::Cell;

thread_local! {
    /// A random start per thread, so that threads have nothing to share.
    static NEXT: Cell<u128> = Cell::new(random());
}

/// A holder that no other claim has, in this process or another: a random start, and a count, so that a call costs no
/// system call.
pub(crate) fn holder() -> Holder {
    Holder(NEXT.replace(NEXT.get().wrapping_add(1)))
}

/// As [`holder`], drawn for this claim alone: for processes that are started many times from one snapshot, whose
/// memory they then share.
#[cfg(feature = "lambda")]
pub(crate) fn unshared_holder() -> Holder {
    Holder(random())
}

fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    u128::from_ne_bytes(bytes)
}
