//! Hashing for tables in memory: fast, and not to be foreseen.
//!
//! 1. Words of eight bytes are multiplied into the state, both halves of each product.
//! 2. It begins with a number that is random per table, so nobody can choose keys that share a place.
//!
//! It is for tables only: what is stored, compared or told is hashed by SHA-256.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Odd, and half of its bits are set.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Begins hashes, from a random number of its own.
#[derive(Clone, Debug)]
pub(crate) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// What was hashed so far.
pub(crate) struct Folded(u64);

impl Folded {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.fold(u64::from_le_bytes(last));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_that_differ_in_one_bit_do_not_share_a_place() {
        let seeded = Seeded::default();
        let hashes: HashSet<u64> = (0..256_usize)
            .map(|bit| {
                let mut key = [0_u8; 32];
                key[bit / 8] = 1 << (bit % 8);
                seeded.hash_one(key)
            })
            .collect();
        assert_eq!(hashes.len(), 256);
        // Tables look at the lowest bits, and at the highest.
        let low: HashSet<u64> = hashes.iter().map(|it| it & 0x3ff).collect();
        let high: HashSet<u64> = hashes.iter().map(|it| it >> 54).collect();
        assert!(low.len() > 150 && high.len() > 150, "{} {}, from {seeded:?}", low.len(), high.len());
    }

    #[test]
    fn no_two_tables_hash_alike() {
        assert_ne!(Seeded::default().hash_one("a"), Seeded::default().hash_one("a"));
    }

    #[test]
    fn the_length_counts() {
        let seeded = Seeded::default();
        let of = |bytes: &[u8]| seeded.hash_one(bytes);
        assert_ne!(of(b"a"), of(b"a\0"));
        assert_ne!(of(b""), of(b"\0"));
    }
}
