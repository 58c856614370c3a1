//! Names of functions.

use std::{fmt, str::FromStr, sync::Arc};

/// Longest name of a function, in bytes.
pub const FUNCTION_NAME_BYTES_MAX: usize = 128;

/// The name of a function: letters, digits, `-`, `_` and `.`.
///
/// Names with a `$` are the runtime's own; nobody else can make one.
///
/// ```
/// use semel_runtime::FunctionName;
/// let name: FunctionName = "process-order".parse()?;
/// assert_eq!(name.as_str(), "process-order");
/// assert!("$control".parse::<FunctionName>().is_err());
/// # Ok::<(), semel_runtime::InvalidName>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionName(Arc<str>);

/// Text that is no name of a function.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a function's name is 1 … {FUNCTION_NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`")]
pub struct InvalidName;

impl FunctionName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, shared.
    pub fn shared(&self) -> &Arc<str> {
        &self.0
    }

    /// One of the runtime's own.
    pub(crate) fn reserved(name: &str) -> Self {
        debug_assert!(name.starts_with('$'), "{name} could be somebody else's");
        Self(name.into())
    }
}

impl FromStr for FunctionName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if text.is_empty() || text.len() > FUNCTION_NAME_BYTES_MAX || !text.bytes().all(is_fine) {
            return Err(InvalidName);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FunctionName({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_runtime_and_of_nobody_are_refused() {
        let longest = "a".repeat(FUNCTION_NAME_BYTES_MAX);
        for fine in ["a", "process-order", "v2.orders_eu", &longest] {
            assert!(fine.parse::<FunctionName>().is_ok(), "{fine}");
        }
        let too_long = "a".repeat(FUNCTION_NAME_BYTES_MAX + 1);
        for wrong in ["", "$audit", "a b", "a/b", "é", "a\n", &too_long] {
            assert_eq!(wrong.parse::<FunctionName>(), Err(InvalidName), "{wrong}");
        }
    }
}
