//! A key, and the name that it goes by.

use super::{
    envelope::{KEY_ID_BYTES_MAX, is_in_key_id},
    error::KeyringError,
};
use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use std::fmt;
use zeroize::Zeroizing;

/// How long a key is.
pub(super) const KEY_BYTES: usize = 32;
/// How many digits of base64 that is, without padding.
const BASE64_DIGITS: usize = (KEY_BYTES * 8).div_ceil(6);

/// The name of a key: letters, digits, `.`, `_` and `-`, at most [`KEY_ID_BYTES_MAX`] of them. It stands readable in
/// front of what the key seals.
///
/// ```
/// use semel::seal::KeyId;
/// assert_eq!(KeyId::new("2026-01")?.as_str(), "2026-01");
/// assert!(KeyId::new("January 2026").is_err());
/// # Ok::<(), semel::seal::KeyringError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KeyId(String);

impl KeyId {
    /// A key of this name.
    pub fn new(id: impl Into<String>) -> Result<Self, KeyringError> {
        let id = id.into();
        let odd = id.char_indices().find(|(_, character)| !is_in_key_id(*character));
        match odd {
            Some((at, character)) => Err(KeyringError::IdCharacter { character, at }),
            None if id.is_empty() => Err(KeyringError::IdEmpty),
            None if id.len() > KEY_ID_BYTES_MAX => Err(KeyringError::IdTooLong { bytes: id.len() }),
            None => Ok(Self(id)),
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key of 32 random bytes, wiped from memory when it is dropped. Its `Debug` does not show it.
///
/// ```
/// use semel::seal::SealKey;
/// let key = SealKey::from_text("n0Dm4d7oRk3cJrHmJc3cUX9Pi0Pqf9C8kBEdqZ5rrbI=")?; // as `openssl rand -base64 32` gives
/// assert_eq!(format!("{key:?}"), "SealKey(..)");
/// # Ok::<(), semel::seal::KeyringError>(())
/// ```
#[derive(Clone)]
pub struct SealKey(Zeroizing<[u8; KEY_BYTES]>);

impl SealKey {
    /// A key as people keep it: 64 hexadecimal digits, or base64 of either alphabet, padded or not. Space around it is
    /// left out.
    pub fn from_text(text: &str) -> Result<Self, KeyringError> {
        let text = text.trim();
        let is_hex = text.len() == 2 * KEY_BYTES && text.bytes().all(|it| it.is_ascii_hexdigit());
        let key = if is_hex { of_hex(text) } else { of_base64(text)? };
        Ok(Self(key))
    }

    pub(super) fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl From<[u8; KEY_BYTES]> for SealKey {
    fn from(key: [u8; KEY_BYTES]) -> Self {
        Self(Zeroizing::new(key))
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(..)")
    }
}

fn of_hex(digits: &str) -> Zeroizing<[u8; KEY_BYTES]> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16).expect("every digit was looked at") as u8;
        *byte = digit(0) << 4 | digit(1);
    }
    key
}

fn of_base64(text: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyringError> {
    let digits = text.trim_end_matches('=');
    let is_url_safe = digits.contains(['-', '_']);
    let is_digit =
        |it: char| it.is_ascii_alphanumeric() || (if is_url_safe { "-_" } else { "+/" }).contains(it);
    if let Some((at, _)) = digits.char_indices().find(|(_, it)| !is_digit(*it)) {
        return Err(KeyringError::KeyCharacter { at });
    }
    let decoder = GeneralPurpose::new(if is_url_safe { &URL_SAFE } else { &STANDARD }, INDIFFERENT);
    // One byte more than a key has, to see a key that is too long.
    let mut decoded = Zeroizing::new([0; KEY_BYTES + 1]);
    match decoder.decode_slice(digits, &mut *decoded) {
        Ok(KEY_BYTES) => {
            let (key, _) = decoded.split_first_chunk().expect("it is one byte longer");
            Ok(Zeroizing::new(*key))
        }
        // As long as a key, so it is the last digit, which has two bits too many.
        Err(_) if digits.len() == BASE64_DIGITS => Err(KeyringError::KeyCharacter { at: BASE64_DIGITS - 1 }),
        Ok(_) | Err(_) => Err(KeyringError::KeyLength { characters: text.len() }),
    }
}

const INDIFFERENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
