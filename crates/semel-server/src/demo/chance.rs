//! Numbers that come again from the same seed.

/// Numbers that come again from the same seed (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    /// For this seed, and this use of it.
    pub(super) fn new(seed: u64, uses: &[u64]) -> Self {
        let mut chance = Self(seed);
        for part in uses {
            chance.0 = chance.next() ^ part;
        }
        chance
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one, which is not zero.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
