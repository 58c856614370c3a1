//! Secrets: what they are, or where they are.
//!
//! 1. `env:NAME` is what the environment has under this name, `file:PATH` what stands in a file, without the line's end.
//!    Everything else is the secret itself.
//! 2. A file is checked without its secrets: they are looked up at the start, and at every reload, so that one can be
//!    changed without a restart.
//! 3. A secret is never shown, and neither is anything that it was made from.

use super::value::Wanted;
use std::{env, fmt, fs, io};

/// Shortest and longest secret, in bytes. Shorter ones can be guessed.
pub const SECRET_BYTES: (usize, usize) = (8, 8 * 1024);

/// A secret, or where it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The secret itself.
    Literal(String),
    /// A variable of the environment.
    Env(String),
    /// A file.
    File(String),
}

/// Why a secret is not there.
#[derive(Debug, thiserror::Error)]
pub enum NoSecret {
    /// The environment does not have it.
    #[error("`{0}` is not in the environment, or is no text")]
    Env(String),
    /// The file cannot be read.
    #[error("`{path}` cannot be read")]
    File {
        /// Which file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// It is too short or too long.
    #[error("{place} has a secret of {bytes} bytes: wanted {least} to {}", SECRET_BYTES.1)]
    Length {
        /// Where it is.
        place: String,
        /// How long it must be.
        least: usize,
        /// How long it is.
        bytes: usize,
    },
}

impl Secret {
    /// What was written.
    pub(crate) fn parse(text: &str) -> Result<Self, Wanted> {
        let wanted = || {
            format!("a secret of {} to {} bytes, `env:NAME` or `file:PATH`", SECRET_BYTES.0, SECRET_BYTES.1)
        };
        match text.split_once(':') {
            Some(("env" | "file", "")) => Err(wanted()),
            Some(("env", name)) if name.contains(['=', '\0']) => Err(wanted()),
            Some(("env", name)) => Ok(Self::Env(name.to_owned())),
            Some(("file", path)) => Ok(Self::File(path.to_owned())),
            Some(_) | None if is_right(text) => Ok(Self::Literal(text.to_owned())),
            Some(_) | None => Err(wanted()),
        }
    }

    /// The secret itself.
    pub(crate) fn look_up(&self) -> Result<String, NoSecret> {
        self.look_up_of(SECRET_BYTES.0)
    }

    /// The secret itself, which has so many bytes at least.
    pub(crate) fn look_up_of(&self, least: usize) -> Result<String, NoSecret> {
        let found = match self {
            Self::Literal(text) => text.clone(),
            Self::Env(name) => env::var(name).map_err(|_| NoSecret::Env(name.clone()))?,
            Self::File(path) => {
                let text = fs::read_to_string(path)
                    .map_err(|source| NoSecret::File { path: path.clone(), source })?;
                text.trim_end_matches(['\r', '\n']).to_owned()
            }
        };
        if (least..=SECRET_BYTES.1).contains(&found.len()) {
            return Ok(found);
        }
        Err(NoSecret::Length { place: self.to_string(), least, bytes: found.len() })
    }
}

fn is_right(secret: &str) -> bool {
    (SECRET_BYTES.0..=SECRET_BYTES.1).contains(&secret.len())
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("the file"),
            Self::Env(name) => write!(f, "`env:{name}`"),
            Self::File(path) => write!(f, "`file:{path}`"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_itself_or_names_its_place() {
        assert_eq!(Secret::parse("env:KEY"), Ok(Secret::Env("KEY".to_owned())));
        assert_eq!(Secret::parse("file:/run/key"), Ok(Secret::File("/run/key".to_owned())));
        assert_eq!(Secret::parse("whsec_c2VjcmV0"), Ok(Secret::Literal("whsec_c2VjcmV0".to_owned())));
        for wrong in ["", "short", "env:", "file:", "env:A=B", &"x".repeat(SECRET_BYTES.1 + 1)] {
            assert!(Secret::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_may_end_its_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "whsec_c2VjcmV0\r\n").unwrap();
        let secret = Secret::File(file.path().display().to_string());
        assert_eq!(secret.look_up().unwrap(), "whsec_c2VjcmV0");
        fs::write(file.path(), "\n").unwrap();
        assert!(matches!(secret.look_up(), Err(NoSecret::Length { bytes: 0, .. })));
    }

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::parse("correct horse").unwrap();
        assert!(!format!("{secret} {secret:?}").contains("horse"));
    }
}
