//! What does not open, and what to do about it.

use std::fmt;

/// Why something does not open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unopened {
    /// There is no keyring.
    NoKeyring { key_id: String },
    /// The keyring has no key of this name.
    #[cfg(feature = "seal")]
    UnknownKey { key_id: String },
    /// It was changed, moved here, or sealed with another key of this name.
    #[cfg(feature = "seal")]
    Damaged { key_id: String },
    /// It is not sealed, and the keyring refuses that.
    Plain,
    /// It says that it is sealed, and is not laid out like that.
    Malformed,
}

impl Unopened {
    /// As it is counted under.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::NoKeyring { .. } => "no_keyring",
            #[cfg(feature = "seal")]
            Self::UnknownKey { .. } => "unknown_key",
            #[cfg(feature = "seal")]
            Self::Damaged { .. } => "damaged",
            Self::Plain => "plain",
            Self::Malformed => "malformed",
        }
    }

    /// Whether nothing is wrong with what is stored: a key is missing.
    pub(crate) fn lacks_key(&self) -> bool {
        match self {
            Self::NoKeyring { .. } => true,
            #[cfg(feature = "seal")]
            Self::UnknownKey { .. } => true,
            #[cfg(feature = "seal")]
            Self::Damaged { .. } => false,
            Self::Plain | Self::Malformed => false,
        }
    }
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKeyring { key_id } => {
                write!(
                    f,
                    "it is sealed with the key `{key_id}`, and there is no keyring: say `sealed_with`, or `seal_keys` in the proxy's file"
                )
            }
            #[cfg(feature = "seal")]
            Self::UnknownKey { key_id } => write!(
                f,
                "it is sealed with the key `{key_id}`, which the keyring does not have: add it, with `and_open` or as a line of \
                 the file that `seal_keys` names"
            ),
            #[cfg(feature = "seal")]
            Self::Damaged { key_id } => write!(
                f,
                "the key `{key_id}` does not open it: it was changed, or moved from another record, or the keyring \
                 has another key of this name"
            ),
            Self::Plain => f.write_str("it is not sealed, and the keyring refuses what is plain"),
            Self::Malformed => {
                f.write_str("its seal is damaged, or of a newer version: restore it, or update this one")
            }
        }
    }
}
