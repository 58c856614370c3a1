//! `semel completions`, `semel man`, `semel schema`: what is printed without a server.

use super::client::print;
use crate::exit::Failure;
use clap::{Args, Command};

/// What was typed after `semel completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel completions bash > ~/.local/share/bash-completion/completions/semel
  semel completions zsh > ~/.zfunc/_semel
  semel completions fish > ~/.config/fish/completions/semel.fish")]
pub(super) struct Completions {
    /// bash, elvish, fish, powershell or zsh
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

/// Prints what makes a shell complete.
pub(super) fn completions(typed: &Completions, mut command: Command) {
    let mut script = Vec::new();
    clap_complete::generate(typed.shell, &mut command, "semel", &mut script);
    print(&String::from_utf8_lossy(&script));
}

/// What was typed after `semel man`.
#[derive(Args, Debug)]
#[command(after_help = "Example: semel man redrive | man -l -")]
pub(super) struct Man {
    /// Of this command
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

/// Prints a manual page.
pub(super) fn man(typed: &Man, mut command: Command) -> Result<(), Failure> {
    command.build();
    let (command, title) = match &typed.command {
        None => (command, "semel".to_owned()),
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            let unknown =
                || Failure::usage(format!("`{name}` is no command")).hint("`semel --help` lists them");
            let found = found.ok_or_else(unknown)?;
            (found.bin_name(format!("semel {name}")), format!("semel-{name}"))
        }
    };
    let mut page = Vec::new();
    let written = clap_mangen::Man::new(command).title(title).render(&mut page);
    written.map_err(|error| Failure::bug("the page cannot be made").because(&error))?;
    print(&String::from_utf8_lossy(&page));
    Ok(())
}

/// What was typed after `semel schema`.
#[derive(Args, Debug)]
pub(super) struct Schema {
    /// In this schema of the database
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,

    /// With tables of this name
    #[arg(long, value_name = "NAME")]
    table: Option<String>,

    /// For `semel proxy`, which keeps records, instead of `semel serve`, which keeps executions
    #[arg(long)]
    proxy: bool,
}

/// Prints the SQL that makes the tables.
#[cfg(feature = "postgres")]
pub(super) fn schema(typed: &Schema) -> Result<(), Failure> {
    let sql = if typed.proxy {
        let mut builder = semel::store::postgres::PostgresStore::builder();
        if let Some(name) = &typed.schema {
            builder = builder.schema(name);
        }
        if let Some(name) = &typed.table {
            builder = builder.table(name);
        }
        builder.schema_sql()
    } else {
        let mut builder = semel_runtime::queue::postgres::PostgresQueue::builder();
        if let Some(name) = &typed.schema {
            builder = builder.schema(name);
        }
        if let Some(name) = &typed.table {
            builder = builder.table(name);
        }
        builder.schema_sql()
    };
    print(&sql.map_err(|error| Failure::usage("there are no such tables").because(&error))?);
    Ok(())
}

/// Prints the SQL that makes the tables.
#[cfg(not(feature = "postgres"))]
pub(super) fn schema(_: &Schema) -> Result<(), Failure> {
    Err(Failure::usage("PostgreSQL is not built into this program")
        .hint("`cargo install semel-server --features postgres` builds one that has it"))
}
