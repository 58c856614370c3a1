//! Tables of identities.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// A table whose keys are identities, halves of such, or made of one.
pub type ByIdentity<K, V> = HashMap<K, V, BuildHasherDefault<IdentityHasher>>;

/// An identity is as good as random: its own first bytes are its hash. Whoever wants identities that share a place in a
/// table of a million has to try about a million keys for each.
#[derive(Default, Debug)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        // A length that is told before them is replaced by them.
        let first = bytes.first_chunk().expect("only identities are hashed here");
        self.0 = u64::from_le_bytes(*first);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Identity, Key};

    #[test]
    fn identities_are_found_by_their_own_bits() {
        let identities: Vec<Identity> =
            (0..1000).map(|it| *Key::new("orders", it).expect("a key").identity()).collect();
        let table: ByIdentity<_, _> = identities.iter().zip(0..).collect();
        assert!(identities.iter().zip(0..).all(|(it, number)| table.get(it) == Some(&number)));
        let hashes = identities.iter().map(|it| {
            let mut hasher = IdentityHasher::default();
            std::hash::Hash::hash(it, &mut hasher);
            hasher.finish()
        });
        assert_eq!(hashes.collect::<std::collections::BTreeSet<_>>().len(), identities.len());
    }
}
