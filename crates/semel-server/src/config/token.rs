//! Who may ask the admin API: `[[token]]`.

use super::{
    function::{name, read_names},
    read::Section,
    secret::Secret,
    value::Wanted,
};
use crate::api::views::Role;

/// Most tokens.
pub const TOKENS_MAX: usize = 100;
/// Shortest token, in bytes: shorter ones can be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;

/// Somebody who may ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenSettings {
    /// Who, as the audit log has it.
    pub name: String,
    /// What they may do.
    pub(crate) role: Role,
    /// What they show.
    pub secret: Secret,
}

pub(super) fn read_tokens(sections: Vec<Section<'_>>) -> Vec<TokenSettings> {
    // Names are checked together: two tokens of one name could not be told apart in the audit log.
    read_names(&sections);
    if let Some(first) = sections.get(TOKENS_MAX) {
        first.wrong("name", &first.found("name"), &format!("at most {TOKENS_MAX} tokens"));
    }
    let read = |section: Section<'_>| {
        let name = section.quietly("name", name);
        let role = section.needed("role", role, "`viewer`, `operator` or `admin`");
        let mut secrets = section.secrets("secret", Secret::parse);
        if !section.has("secret") {
            section.missing("secret", "a token, `env:NAME` or `file:PATH`");
        }
        if secrets.iter().any(|it| matches!(it, Secret::Literal(text) if text.len() < TOKEN_BYTES_MIN)) {
            section.wrong("secret", "…", &format!("a token of at least {TOKEN_BYTES_MIN} bytes"));
        }
        if secrets.len() > 1 {
            section.wrong("secret", "[…]", "one token: another one is another `[[token]]`");
        }
        section.finish();
        Some(TokenSettings { name: name?, role: role?, secret: secrets.pop()? })
    };
    sections.into_iter().filter_map(read).collect()
}

fn role(text: &str) -> Result<Role, Wanted> {
    Role::parse(text).ok_or_else(|| "`viewer`, `operator` or `admin`".to_owned())
}

/// A name that this server has.
pub(super) fn host(text: &str) -> Result<String, Wanted> {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-' | b':');
    let is_right = !text.is_empty() && text.len() <= 255 && text.bytes().all(is_plain);
    is_right
        .then(|| text.to_ascii_lowercase())
        .ok_or_else(|| "the name of a host, such as `semel.example.com`".to_owned())
}
