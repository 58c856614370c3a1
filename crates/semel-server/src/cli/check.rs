//! `semel check`.

use crate::{
    config::{self, Settings},
    exit::Failure,
};
use clap::Args;
use std::path::{Path, PathBuf};

/// What was typed.
#[derive(Args, Debug)]
pub(super) struct Typed {
    /// The file to look at [default: semel.toml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// The file to look at, as other commands name it
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,

    /// Lets functions be on this machine, as `semel serve --dev` does
    #[arg(long)]
    dev: bool,
}

/// Says whether a file is right; a file that is not is the answer no.
pub(super) fn run(typed: &Typed) -> Result<(), Failure> {
    let file = typed.file.as_deref().or(typed.config.as_deref()).unwrap_or(Path::new("semel.toml"));
    let source = config::read(file)?;
    let settings = config::parse(file, &source, typed.dev).map_err(Failure::as_answer)?;
    config::check_exposed(file, &source, &settings.server).map_err(Failure::as_answer)?;
    println!("`{}` is right: {}", file.display(), contents(&settings));
    // What is forgotten too early is told where the times are: by `semel plan`.
    if let Some(warning) = config::crowded(&settings.server) {
        eprintln!("warning: {warning}");
    }
    Ok(())
}

/// What is in a file, in short.
fn contents(settings: &Settings) -> String {
    let counted = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        count => Some(format!("{count} {what}s")),
    };
    let server = &settings.server;
    let parts: Vec<_> = [
        counted(server.functions.len(), "function"),
        counted(server.sources.len(), "source"),
        counted(settings.proxy.routes.len(), "route"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        return "no routes, so the defaults hold for every path".to_owned();
    }
    parts.join(", ")
}
