//! Which keys a file surely does not hold.
//!
//! 1. An identity is a SHA-256, so its own bits serve as hash functions.
//! 2. Blocked: all bits of one key lie in one cache line, so a question costs one miss. Which bits these are does not depend
//!    on the file ([`Probe`]), and they are compared without a branch: so the misses of many files overlap, and asking forty
//!    takes little longer than asking one.
//! 3. Never a false "no". A false "maybe" for about one key in two thousand, at [`BITS_PER_KEY`]: each costs a search in
//!    SQLite, and there may be dozens of files to ask.

use semel_core::key::Identity;

/// How many bits the filter has for each key.
pub(crate) const BITS_PER_KEY: usize = 20;
const PROBES: usize = 7;
const WORDS_PER_BLOCK: usize = 8;

type Block = [u64; WORDS_PER_BLOCK];

pub(crate) struct Bloom {
    blocks: Vec<Block>,
}

/// What is asked of every filter about one key.
pub(crate) struct Probe {
    /// Chooses a filter's block.
    block: u64,
    /// The key's bits in there.
    bits: Block,
}

impl Probe {
    /// The block by the middle of the identity, and its bits by the end of it. The front orders the file, and would put
    /// neighbours into one block.
    pub(crate) fn new(identity: &Identity) -> Self {
        let bytes = identity.as_bytes();
        let word =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("an identity has 32 bytes"));
        let mut bits = [0; WORDS_PER_BLOCK];
        for probe in 0..PROBES {
            let bit = (word(24) >> (probe * 9)) as usize & 511;
            bits[bit / 64] |= 1 << (bit % 64);
        }
        Self { block: word(16), bits }
    }
}

impl Bloom {
    /// An empty filter with room for so many keys.
    pub(crate) fn for_keys(keys: usize) -> Self {
        let blocks = (keys * BITS_PER_KEY).div_ceil(WORDS_PER_BLOCK * 64).max(1);
        Self { blocks: vec![[0; WORDS_PER_BLOCK]; blocks] }
    }

    pub(crate) fn insert(&mut self, identity: &Identity) {
        let probe = Probe::new(identity);
        let place = self.place(&probe);
        for (word, bits) in self.blocks[place].iter_mut().zip(probe.bits) {
            *word |= bits;
        }
    }

    pub(crate) fn may_hold(&self, probe: &Probe) -> bool {
        let block = &self.blocks[self.place(probe)];
        block.iter().zip(probe.bits).fold(0, |missing, (word, bits)| missing | (bits & !word)) == 0
    }

    fn place(&self, probe: &Probe) -> usize {
        ((u128::from(probe.block) * self.blocks.len() as u128) >> 64) as usize
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.blocks.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Reads back what [`Bloom::to_bytes`] gave; `None` if it cannot be that.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|it| u64::from_le_bytes(*it)).collect();
        let (blocks, odd) = words.as_chunks::<WORDS_PER_BLOCK>();
        (rest.is_empty() && odd.is_empty() && !blocks.is_empty()).then(|| Self { blocks: blocks.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::key::Key;

    #[test]
    fn a_key_that_was_inserted_is_never_denied_and_strangers_mostly_are() {
        let identity = |n: u32| *Key::new("bloom", n).unwrap().identity();
        let mut bloom = Bloom::for_keys(20_000);
        (0..20_000).for_each(|n| bloom.insert(&identity(n)));
        let bloom = Bloom::from_bytes(&bloom.to_bytes()).unwrap();
        assert!((0..20_000).all(|n| bloom.may_hold(&Probe::new(&identity(n)))));
        let wrong = (20_000..60_000).filter(|n| bloom.may_hold(&Probe::new(&identity(*n)))).count();
        assert!(wrong < 60, "{wrong} of 40,000 strangers were not told apart");
    }
}
