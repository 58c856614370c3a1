//! The keys that results are sealed with, in a file of their own.
//!
//! 1. Each line is the name of a key and the key: 64 hexadecimal digits, or base64, as `openssl rand -base64 32` gives it. Empty
//!    lines and those that begin with `#` are left out.
//! 2. The first key seals, the others open what was sealed before: a new one is put in front, and an old one taken out when
//!    the retention has passed since.
//! 3. What is wrong is told with its line, and never shown.

use crate::exit::Failure;
use semel::OnceBuilder;
use std::path::Path;

#[cfg(not(feature = "seal"))]
pub(super) fn sealed(_: OnceBuilder, _: &Path) -> Result<OnceBuilder, Failure> {
    Err(Failure::usage("`seal_keys` is said, and sealing is not built into this program")
        .hint("`cargo install semel-server --features seal` builds one that has it"))
}

/// Seals with the keys of this file.
#[cfg(feature = "seal")]
pub(super) fn sealed(builder: OnceBuilder, file: &Path) -> Result<OnceBuilder, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("`seal_keys`: `{name}` cannot be read"))
            .because(&error)
            .hint("a line for each key: its name, and `openssl rand -base64 32`")
    })?;
    let keyring = keyring(&text).map_err(|Wrong { line, why }| {
        Failure::usage(format!("`seal_keys`: `{name}` is wrong"))
            .cause(format!("{name}:{line}: {why}"))
            .hint("a line for each key: its name, and `openssl rand -base64 32`; the first one seals")
    })?;
    Ok(builder.sealed_with(keyring))
}

#[cfg(feature = "seal")]
#[derive(Debug)]
struct Wrong {
    line: usize,
    why: String,
}

#[cfg(feature = "seal")]
fn keyring(text: &str) -> Result<semel::seal::Keyring, Wrong> {
    use semel::seal::{KeyId, Keyring, KeyringError, SealKey};
    let mut keyring: Option<Keyring> = None;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |error: KeyringError| Wrong { line: n + 1, why: error.to_string() };
        let (id, key) = line
            .split_once(char::is_whitespace)
            .ok_or_else(|| Wrong { line: n + 1, why: "wanted the name of a key and the key".to_owned() })?;
        let (id, key) = (KeyId::new(id).map_err(wrong)?, SealKey::from_text(key).map_err(wrong)?);
        keyring = Some(match keyring {
            None => Keyring::new(id, key),
            Some(keyring) => keyring.and_open(id, key).map_err(wrong)?,
        });
    }
    keyring.ok_or_else(|| Wrong { line: 1, why: "there is no key".to_owned() })
}

#[cfg(all(test, feature = "seal"))]
mod tests {
    use super::*;

    const KEY: &str = "n0Dm4d7oRk3cJrHmJc3cUX9Pi0Pqf9C8kBEdqZ5rrbI=";

    #[test]
    fn the_first_key_seals_and_the_others_open() {
        let text = format!("# of this year\n\n2026 {KEY}\n 2025\t{}\r\n", "0a".repeat(32));
        let shown = format!("{:?}", keyring(&text).unwrap());
        assert_eq!(shown, "Keyring { seals: \"2026\", opens: [\"2025\"], refuses_plain: false }");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_not_shown() {
        let other = "0a".repeat(32);
        for (text, line) in [
            (String::new(), 1),
            ("# none\n".to_owned(), 1),
            (format!("\n{KEY}\n"), 2),
            (format!("a {KEY}\nb {}\n", &KEY[1..]), 2),
            (format!("a {KEY}\na {other}\n"), 2),
            (format!("a/b {KEY}"), 1),
        ] {
            let wrong = keyring(&text).unwrap_err();
            assert_eq!(wrong.line, line, "{text}");
            assert!(!wrong.why.contains(&KEY[1..]) && !wrong.why.contains(&other), "{}", wrong.why);
        }
    }
}
