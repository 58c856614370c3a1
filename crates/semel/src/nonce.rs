//! Holders that nobody else has.

use semel_core::record::Holder;
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// A holder that no other claim has, in this process or another: a random start per process, and a count, so
/// that a call costs no system call.
pub(crate) fn holder() -> Holder {
    static START: OnceLock<u128> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let start = *START.get_or_init(random);
    Holder(start.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed).into()))
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
