//! What a person can get wrong about keys.

use super::{envelope::KEY_ID_BYTES_MAX, key::KeyId, keyring::KEYS_MAX};
use std::{error::Error as StdError, fmt};

/// What is wrong with a key or its name. It never shows a key, nor a part of one.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeyringError {
    /// The name is empty.
    IdEmpty,
    /// The name is too long.
    IdTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The name has a character that it cannot have.
    IdCharacter {
        /// Which.
        character: char,
        /// After so many bytes.
        at: usize,
    },
    /// The name is there already.
    IdTaken {
        /// Which.
        id: KeyId,
    },
    /// The keyring is full.
    TooMany,
    /// The key has not 32 bytes.
    KeyLength {
        /// How long its text is.
        characters: usize,
    },
    /// The key has a character that is neither hexadecimal nor base64.
    KeyCharacter {
        /// After so many bytes.
        at: usize,
    },
    /// In the text of a keyring, an entry has no `:` between name and key.
    NoColon {
        /// The first one is 1.
        entry: usize,
    },
    /// In the text of a keyring, the key of this name cannot be read.
    Key {
        /// Which.
        id: KeyId,
        /// Why not.
        why: Box<KeyringError>,
    },
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdEmpty => f.write_str("the key has no name: give it one, such as `2026-01`"),
            Self::IdTooLong { bytes } => {
                write!(f, "the name of the key has {bytes} bytes: at most {KEY_ID_BYTES_MAX} are allowed")
            }
            Self::IdCharacter { character, at } => write!(
                f,
                "the name of the key has {character:?} at {at}: letters, digits, `.`, `_` and `-` are allowed"
            ),
            Self::IdTaken { id } => write!(f, "there is a key `{id}` already: give each a name of its own"),
            Self::TooMany => {
                write!(f, "a keyring has at most {KEYS_MAX} keys: take out those that seal nothing any more")
            }
            Self::KeyLength { characters } => write!(
                f,
                "the text of the key has {characters} characters: 32 bytes are 64 hexadecimal digits, or 43 \
                 characters of base64 (44 with padding)"
            ),
            Self::KeyCharacter { at } => {
                write!(
                    f,
                    "the text of the key is neither hexadecimal nor base64: look at the character at {at}"
                )
            }
            Self::NoColon { entry } => {
                write!(f, "entry {entry} of the keyring has no `:`: write `name:key,name:key`")
            }
            Self::Key { id, .. } => write!(f, "the key `{id}` cannot be read"),
        }
    }
}

impl StdError for KeyringError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Key { why, .. } => Some(why),
            Self::IdEmpty
            | Self::IdTooLong { .. }
            | Self::IdCharacter { .. }
            | Self::IdTaken { .. }
            | Self::TooMany
            | Self::KeyLength { .. }
            | Self::KeyCharacter { .. }
            | Self::NoColon { .. } => None,
        }
    }
}
