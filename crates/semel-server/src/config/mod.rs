//! The configuration: what a file says, and what the command line changes.
//!
//! 1. The file is TOML. A key that nobody knows, a value out of its range and a route that is never reached are
//!    mistakes; all of them are told at once, each with its place and what is allowed.
//! 2. What the command line says goes before what the file says, and that before the defaults.
//! 3. A configuration is checked before anything is started: `semel check --config FILE`.
//!
//! It does not reach out: whether a store or an upstream is there is seen at the start.

mod auth;
mod filter;
mod function;
mod guard;
mod mistake;
mod posted;
mod proxy;
mod read;
mod retry;
mod route;
mod secret;
mod server;
mod source;
mod token;
mod value;
mod warning;

pub use auth::AuthSettings;
pub use function::{
    CONCURRENCY_MAX, Content, DeadLetterSettings, FUNCTIONS_MAX, FunctionSettings, NAME_BYTES_MAX,
    RateSettings, SECRETS_MAX,
};
pub use proxy::{HostPolicy, Limits, ProxySettings, Timeouts};
pub use route::{KeyMode, OnLost, QUOTA_KEYS, QuotaSettings, Route, RouteSettings};
pub use secret::{NoSecret, SECRET_BYTES, Secret};
pub use server::{ServerLimits, ServerSettings};
pub use source::{Mode, RuleSettings, SOURCES_MAX, SourceSettings};
pub use token::{TOKEN_BYTES_MIN, TOKENS_MAX, TokenSettings};
pub use value::{Caller, Network, UpstreamUrl};
pub(crate) use {
    function::{is_loop, named_url, rate, wanted_instead},
    mistake::{nearest, quoted, shown},
    posted::{posted, posted_filter},
    retry::preset,
    value::{Wanted, address, caller, duration_text, network, redacted, upstream},
    warning::{checked, human, warnings},
};

#[cfg(test)]
pub(crate) use posted::posted_keys;

use crate::exit::Failure;
use mistake::Mistake;
use read::{Mistakes, Section};
use std::{fs, path::Path};
use toml::de::DeTable;

/// Largest configuration file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is written in a file.
pub fn read(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let unreadable = |error: &std::io::Error| {
        Failure::usage(format!("`{name}` cannot be read"))
            .because(error)
            .hint("name the file with `--config FILE`")
    };
    let length = fs::metadata(path).map_err(|error| unreadable(&error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("`{name}` is larger than {}", value::size_text(FILE_BYTES_MAX))));
    }
    fs::read_to_string(path).map_err(|error| unreadable(&error))
}

/// What a file means: for the proxy, and for the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `[proxy]`, `[defaults]` and `[[route]]`.
    pub proxy: ProxySettings,
    /// `[server]`, `[guard]`, `[events]`, `[[function]]` and `[[source]]`.
    pub server: ServerSettings,
}

/// Whether the server would start with what a file says, if nothing more is typed.
pub(crate) fn check_exposed(path: &Path, source: &str, settings: &ServerSettings) -> Result<(), Failure> {
    let (table, _) = DeTable::parse_recoverable(source);
    let mistakes = Mistakes::default();
    settings.check_exposed(&Section::file(&table, &mistakes));
    let mistakes = mistakes.into_inner();
    let name = &path.display().to_string();
    if mistakes.is_empty() { Ok(()) } else { Err(mistake::failure(name, source, mistakes)) }
}

/// What a file means. In development, functions may be on this machine.
pub fn parse(path: &Path, source: &str, is_dev: bool) -> Result<Settings, Failure> {
    let name = &path.display().to_string();
    let (table, errors) = DeTable::parse_recoverable(source);
    if !errors.is_empty() {
        let mistake = |error: &toml::de::Error| {
            Mistake::syntax(source, &error.span().unwrap_or_default(), error.message())
        };
        return Err(mistake::failure(name, source, errors.iter().map(mistake).collect()));
    }
    let mistakes = Mistakes::default();
    let file = Section::file(&table, &mistakes);
    let settings =
        Settings { proxy: ProxySettings::read(&file), server: ServerSettings::read(&file, is_dev) };
    file.finish();
    let mistakes = mistakes.into_inner();
    if mistakes.is_empty() { Ok(settings) } else { Err(mistake::failure(name, source, mistakes)) }
}
