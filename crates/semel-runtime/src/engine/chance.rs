//! Random numbers: jitter, and holders that nobody else has.
//!
//! 1. Holders begin at a number drawn from the operating system, and are counted from there.
//! 2. A simulation gives a seed, and the same numbers come every time.

use semel_core::{record::Holder, retry::Jitter, sabotage::is_on};
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// The random numbers of a runtime.
#[derive(Debug)]
pub(crate) struct Chance {
    /// Holders are counted from here.
    holders_from: u128,
    holders: AtomicU64,
    numbers: Mutex<fastrand::Rng>,
}

impl Chance {
    /// From this seed, or the operating system's numbers.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let mut bytes = [0; 24];
        match seed.filter(|_| !is_on("chance_without_seed")) {
            Some(seed) => fastrand::Rng::with_seed(seed).fill(&mut bytes),
            None => getrandom::fill(&mut bytes).expect("the operating system has random numbers"),
        }
        let (holders, numbers) = bytes.split_at(16);
        let holders = holders.try_into().expect("sixteen bytes");
        let numbers = numbers.try_into().expect("eight bytes");
        Self {
            holders_from: u128::from_le_bytes(holders),
            holders: AtomicU64::new(0),
            numbers: Mutex::new(fastrand::Rng::with_seed(u64::from_le_bytes(numbers))),
        }
    }

    /// Somewhere in a band.
    pub(crate) fn jitter(&self) -> Jitter {
        Jitter(self.numbers.lock().expect("no code panics while it draws a number").u32(..))
    }

    /// A holder that nobody else has.
    pub(crate) fn holder(&self) -> Holder {
        Holder(self.holders_from.wrapping_add(self.holders.fetch_add(1, Ordering::Relaxed).into()))
    }
}
