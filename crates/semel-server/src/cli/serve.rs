//! `semel serve`: what was typed, and what it means.

use crate::{
    config::{self, FunctionSettings, ServerSettings, Wanted, shown},
    exit::Failure,
    log::{self, Format},
    serve,
    store_url::StoreUrl,
};
use clap::Args;
use semel_core::retry::RetryPolicy;
use semel_runtime::deliver::guard::{Host, Policy, check_url};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  semel serve --function orders=http://127.0.0.1:3000/orders
      Events that are sent to http://127.0.0.1:8787/events are kept in ./semel-data, and each is given to the function
      until it has taken effect once:

      curl http://127.0.0.1:8787/events -H 'ce-specversion: 1.0' -H 'ce-id: 1' -H 'ce-source: /shop' \\
        -H 'ce-type: order.created' -H 'content-type: application/json' -d '{\"order\": 42}'

  semel serve --config semel.toml --store postgres://app@db/shop
      Everything is said in a file; `semel check semel.toml` looks whether it is right, `semel plan semel.toml` prints when
      attempts would be. Several nodes share a database.

Addresses:
  POST /events           CloudEvents and whatever else can be told
  POST /sources/NAME     a source that the file describes
  GET  /health, /ready, /version, /metrics

Signals: SIGTERM and SIGINT finish what is under way and stop; SIGHUP reads the file again.

Exit codes: 0 stopped by a signal, 2 called or configured wrongly, 69 something is not there, 70 a bug, or a
disk that no longer keeps what it is given.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Typed {
    /// Reads functions, sources and everything else from this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// A function that takes every event: its name, and where it is; may be repeated
    #[arg(long, value_name = "NAME=URL")]
    function: Vec<String>,

    /// When events that those functions failed to take are given to them again: off, gen1, gen2, pubsub, standard-webhooks or immediate [default: gen2]
    #[arg(long, value_name = "PRESET", requires = "function")]
    retry: Option<String>,

    /// Where events come in [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// Where health, metrics and the admin API are [default: where events come in]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<String>,

    /// Where events are kept: a directory, postgres://… or memory: [default: ./semel-data]
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Lets functions be on this machine, and everybody send events
    #[arg(long)]
    dev: bool,

    /// How events are written to standard error: text, json or off [default: text]
    #[arg(long, value_name = "FORMAT")]
    log: Option<String>,
}

/// Runs the server until a signal ends it.
pub(super) fn run(typed: Typed) -> Result<(), Failure> {
    let settings = meant(&typed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("semel")
        .build()
        .map_err(|error| Failure::unavailable("threads cannot be started").because(&error))?;
    let writing = log::start(settings.log);
    let ended = runtime.block_on(serve::run(settings, Box::new(move || meant(&typed))));
    // What has not finished by now was told so.
    runtime.shutdown_background();
    drop(writing);
    ended
}

/// What was typed goes before what the file says, and that before the defaults.
fn meant(typed: &Typed) -> Result<ServerSettings, Failure> {
    let mut settings = match &typed.config {
        Some(path) => {
            let again = format!("`semel check {}` looks at it again, and starts nothing", path.display());
            config::parse(path, &config::read(path)?, typed.dev)
                .map_err(|failure| failure.hint(again))?
                .server
        }
        None => ServerSettings::for_use(typed.dev),
    };
    if let Some(text) = &typed.listen {
        settings.listen = value("--listen", text, config::address)?;
    }
    if let Some(text) = &typed.admin_listen {
        settings.admin_listen = Some(value("--admin-listen", text, config::address)?);
    }
    if let Some(text) = &typed.store {
        settings.store = value("--store", text, StoreUrl::parse)?;
    }
    if let Some(text) = &typed.log {
        settings.log = value("--log", text, Format::parse)?;
    }
    let retry = typed.retry.as_deref();
    let policy = retry.map_or_else(|| Ok(RetryPolicy::gen2()), |it| value("--retry", it, config::preset))?;
    for text in &typed.function {
        add_function(&mut settings, text, &policy)?;
    }
    Ok(settings)
}

/// Adds a function. Whoever types one on this machine sits at it, and allows it by that.
fn add_function(settings: &mut ServerSettings, text: &str, policy: &RetryPolicy) -> Result<(), Failure> {
    let (name, url) = value("--function", text, config::named_url)?;
    if settings.functions.iter().any(|it| it.name == name) {
        return Err(
            Failure::usage(format!("there are two functions `{name}`")).hint("give each a name of its own")
        );
    }
    let near = Policy { allow: settings.guard.allow.clone(), loopback: true };
    let target = check_url(&url, &near).map_err(|refusal| {
        Failure::usage(format!(
            "`--function {name}` is `{}`: wanted {}",
            shown(&url),
            config::wanted_instead(&refusal.to_string())
        ))
        .hint("`semel serve --help` has examples; a file can allow more, below `[guard]`")
    })?;
    let is_here = match target.host() {
        Host::Address(address) => address.is_loopback(),
        Host::Name(name) => name == "localhost",
    };
    settings.guard.loopback |= is_here;
    settings.functions.push(FunctionSettings::new(name, target, policy.clone()));
    Ok(())
}

fn value<T>(flag: &str, text: &str, parse: fn(&str) -> Result<T, Wanted>) -> Result<T, Failure> {
    parse(text).map_err(|wanted| {
        Failure::usage(format!("`{flag}` is `{}`: wanted {wanted}", shown(text)))
            .hint("`semel serve --help` has examples")
    })
}
