//! Hashes as hexadecimal digits. Every event's id is written in several places, and `{:02x}` for each byte would be an eighth
//! of all the work that is done for one.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The digits of a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hex([u8; 64]);

impl Hex {
    /// Of these bytes.
    pub fn of(hash: &[u8; 32]) -> Self {
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(hash) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(text)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_two_digits() {
        for first in (0..=255_u8).step_by(32) {
            let bytes: [u8; 32] = std::array::from_fn(|at| first + at as u8);
            let hex = Hex::of(&bytes);
            for (byte, digits) in bytes.iter().zip(hex.as_str().as_bytes().chunks(2)) {
                assert_eq!(digits, format!("{byte:02x}").as_bytes());
            }
        }
    }
}
