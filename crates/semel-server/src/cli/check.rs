//! `semel check`.

use crate::{config, exit::Failure};
use clap::Args;
use std::path::PathBuf;

/// What was typed.
#[derive(Args, Debug)]
pub(super) struct Typed {
    /// The file to look at
    #[arg(long, value_name = "FILE", default_value = "semel.toml")]
    config: PathBuf,
}

/// Says whether a file is right; a file that is not is the answer no.
pub(super) fn run(typed: &Typed) -> Result<(), Failure> {
    let source = config::read(&typed.config)?;
    let settings = config::parse(&typed.config, &source).map_err(Failure::as_answer)?;
    let routes = match settings.routes.len() {
        0 => "no routes, so the defaults hold for every path".to_owned(),
        1 => "1 route".to_owned(),
        routes => format!("{routes} routes"),
    };
    println!("`{}` is right: {routes}", typed.config.display());
    Ok(())
}
