//! `semel check`.

use crate::{
    config::{self, Settings},
    exit::Failure,
};
use clap::Args;
use serde_json::{Value, json};
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

    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Says whether a file is right; a file that is not is the answer no.
pub(super) fn run(typed: &Typed) -> Result<(), Failure> {
    let file = typed.file.as_deref().or(typed.config.as_deref()).unwrap_or(Path::new("semel.toml"));
    let source = config::read(file)?;
    let checked = checked(file, &source, typed.dev);
    if typed.json {
        println!("{:#}", document(file, &checked));
        return checked.map(|_| ());
    }
    let settings = checked?;
    println!("`{}` is right: {}", file.display(), contents(&settings));
    // What is forgotten too early is told where the times are: by `semel plan`.
    for warning in config::checked(&settings.server) {
        eprintln!("warning: {warning}");
    }
    Ok(())
}

fn checked(file: &Path, source: &str, is_dev: bool) -> Result<Settings, Failure> {
    let settings = config::parse(file, source, is_dev).map_err(Failure::as_answer)?;
    config::check_exposed(file, source, &settings.server).map_err(Failure::as_answer)?;
    Ok(settings)
}

/// What was found, for programs.
fn document(file: &Path, checked: &Result<Settings, Failure>) -> Value {
    let file = file.display().to_string();
    match checked {
        Ok(Settings { server, proxy, .. }) => json!({
            "file": file,
            "is_right": true,
            "functions": server.functions.len(),
            "sources": server.sources.len(),
            "routes": proxy.routes.len(),
            "warnings": config::checked(server),
        }),
        Err(failure) => {
            json!({ "file": file, "is_right": false, "mistakes": failure.lines().collect::<Vec<_>>() })
        }
    }
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
