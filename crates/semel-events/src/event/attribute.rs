//! What attributes may be.
//!
//! 1. A name is lower-case letters and digits: it is a header's name in one mode and a member's in the other.
//! 2. A value is text without control characters and without what Unicode gives no character.
//! 3. Each has a limit. `source` and `id` together fit into a key, because they are one.
//!
//! It does not check that a `source` is a URI: senders disagree on that, and nobody resolves it.

use super::{EventError, TIME_BYTES_MAX};
use semel_core::key;

/// Longest `id`, in bytes.
pub const ID_BYTES_MAX: usize = 512;
/// Longest `source`, in bytes.
pub const SOURCE_BYTES_MAX: usize = 512;
/// Longest `type`, in bytes.
pub const TYPE_BYTES_MAX: usize = 256;
/// Longest `subject`, in bytes: room for the longest name of an object in Cloud Storage and in S3.
pub const SUBJECT_BYTES_MAX: usize = 2_048;
/// Longest `datacontenttype`, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 256;
/// Longest `dataschema`, in bytes.
pub const SCHEMA_BYTES_MAX: usize = 2_048;
/// Most extensions of one event.
pub const EXTENSIONS_MAX: usize = 64;
/// Longest name of an extension, in bytes.
pub const EXTENSION_NAME_BYTES_MAX: usize = 64;
/// Longest value of an extension, in bytes.
pub const EXTENSION_BYTES_MAX: usize = 4_096;

const _: () = assert!(SOURCE_BYTES_MAX + ID_BYTES_MAX <= key::ID_BYTES_MAX, "source and id are a key");

/// An attribute of an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Attribute {
    /// Which version of CloudEvents this is.
    SpecVersion,
    /// Names the event within its source.
    Id,
    /// Where it happened.
    Source,
    /// What happened.
    Type,
    /// What it happened to.
    Subject,
    /// When it happened.
    Time,
    /// What the data is.
    DataContentType,
    /// What the data looks like.
    DataSchema,
    /// One that senders add.
    Extension,
}

impl Attribute {
    /// Its name in CloudEvents; of an extension, what it is.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SpecVersion => "specversion",
            Self::Id => "id",
            Self::Source => "source",
            Self::Type => "type",
            Self::Subject => "subject",
            Self::Time => "time",
            Self::DataContentType => "datacontenttype",
            Self::DataSchema => "dataschema",
            Self::Extension => "an extension",
        }
    }

    /// The attribute of this name; an extension if CloudEvents does not have it.
    pub fn named(name: &str) -> Self {
        match name {
            "specversion" => Self::SpecVersion,
            "id" => Self::Id,
            "source" => Self::Source,
            "type" => Self::Type,
            "subject" => Self::Subject,
            "time" => Self::Time,
            "datacontenttype" => Self::DataContentType,
            "dataschema" => Self::DataSchema,
            _ => Self::Extension,
        }
    }

    /// Longest value, in bytes.
    pub const fn bytes_max(self) -> usize {
        match self {
            Self::SpecVersion => 8,
            Self::Id => ID_BYTES_MAX,
            Self::Source => SOURCE_BYTES_MAX,
            Self::Type => TYPE_BYTES_MAX,
            Self::Subject => SUBJECT_BYTES_MAX,
            Self::Time => TIME_BYTES_MAX,
            Self::DataContentType => CONTENT_TYPE_BYTES_MAX,
            Self::DataSchema => SCHEMA_BYTES_MAX,
            Self::Extension => EXTENSION_BYTES_MAX,
        }
    }
}

impl std::fmt::Display for Attribute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Extension => f.write_str(self.name()),
            _ => write!(f, "`{}`", self.name()),
        }
    }
}

/// Checks the value of an attribute. Blank is missing, as in a key; only an extension may be blank.
pub(super) fn check(attribute: Attribute, value: &str) -> Result<(), EventError> {
    if attribute != Attribute::Extension && value.trim().is_empty() {
        return Err(EventError::Missing(attribute));
    }
    if value.len() > attribute.bytes_max() {
        return Err(EventError::TooLong(attribute));
    }
    if value.chars().any(is_forbidden) {
        return Err(EventError::Character(attribute));
    }
    Ok(())
}

/// Checks the name of an extension.
pub(super) fn check_name(name: &str) -> Result<(), EventError> {
    let is_letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    let is_name = !name.is_empty() && name.len() <= EXTENSION_NAME_BYTES_MAX && name.bytes().all(is_letter);
    // `data` and `data_base64` are members of the JSON format; the second is no name anyway.
    if !is_name || name == "data" || Attribute::named(name) != Attribute::Extension {
        return Err(EventError::ExtensionName);
    }
    Ok(())
}

/// Control characters, and code points that Unicode will never give a character.
fn is_forbidden(char: char) -> bool {
    let code = char as u32;
    char.is_control() || (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe
}
