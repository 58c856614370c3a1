//! The configuration: what a file says, and what the command line changes.
//!
//! 1. The file is TOML. A key that nobody knows, a value out of its range and a route that is never reached are
//!    mistakes; all of them are told at once, each with its place and what is allowed.
//! 2. What the command line says goes before what the file says, and that before the defaults.
//! 3. A configuration is checked before anything is started: `semel check --config FILE`.
//!
//! It does not reach out: whether a store or an upstream is there is seen at the start.

mod mistake;
mod proxy;
mod read;
mod route;
mod value;

pub use proxy::{HostPolicy, Limits, ProxySettings, Timeouts};
pub use route::{KeyMode, OnLost, QuotaSettings, Route, RouteSettings};
pub use value::{Caller, Network, UpstreamUrl};
pub(crate) use {
    mistake::{nearest, quoted, shown},
    value::{Wanted, address, caller, network, redacted, upstream},
};

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

/// What a file means.
pub fn parse(path: &Path, source: &str) -> Result<ProxySettings, Failure> {
    let name = &path.display().to_string();
    let (table, errors) = DeTable::parse_recoverable(source);
    if !errors.is_empty() {
        let mistake = |error: &toml::de::Error| Mistake {
            at: error.span().map_or(0, |it| it.start),
            text: format!("no TOML: {}", error.message().replace('\n', ", ")),
        };
        return Err(mistake::failure(name, source, errors.iter().map(mistake).collect()));
    }
    let mistakes = Mistakes::default();
    let file = Section::file(&table, &mistakes);
    let settings = ProxySettings::read(&file);
    file.finish();
    let mistakes = mistakes.into_inner();
    if mistakes.is_empty() { Ok(settings) } else { Err(mistake::failure(name, source, mistakes)) }
}
