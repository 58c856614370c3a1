//! `semel past`: what becomes of what a store has that forgot something.

use super::{
    act::{Following, follow},
    client::{Client, Server},
    text::clean,
};
use crate::{
    api::views::{JobView, PastView, Verb},
    exit::Failure,
};
use clap::{Args, ValueEnum};

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = "\
A store that was restored from a backup, or that a failover cut short, has forgotten what it had acknowledged. Nothing
is taken or delivered until somebody decides:
  semel past replay   delivers what is there; what took effect before does so again, unless functions notice
  semel past skip     cancels what is there and unfinished; `semel executions --reason cancelled` lists it,
                      `semel redrive --reason cancelled` runs it after all")]
pub(super) struct Typed {
    /// What to do with it
    #[arg(value_name = "CHOICE")]
    choice: Choice,

    #[command(flatten)]
    server: Server,
}

#[derive(Clone, Copy, ValueEnum, Debug)]
enum Choice {
    /// Delivers what is there
    Replay,
    /// Cancels what is there and unfinished, and goes on
    Skip,
}

/// Decides.
pub(super) fn run(typed: &Typed) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    match typed.choice {
        Choice::Replay => client.show(client.post("/v1/past/replay", None)?, |it: &PastView| {
            format!("Goes on with what is there. It had been found: {}\n", clean(&it.found))
        }),
        Choice::Skip => {
            let begun: JobView = client.read(client.post("/v1/past/skip", None)?)?;
            follow(&client, begun, &Following { verb: Verb::Cancel.as_str(), is_dry: false, total: None })
        }
    }
}
