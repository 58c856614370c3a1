//! `semel proxy`: what was typed, and what it means.

use crate::{
    config::{self, KeyMode, ProxySettings, Wanted, shown},
    exit::Failure,
    log::{self, Format},
    proxy,
    store_url::StoreUrl,
};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  semel proxy --upstream http://127.0.0.1:9000
      Clients come to http://127.0.0.1:8080 instead; whatever they send with an `Idempotency-Key` takes effect once.
      Records are kept in ./semel-data.

  semel proxy --upstream http://127.0.0.1:9000 --listen 0.0.0.0:80 --store postgres://app@db/shop --required
      Records are kept in PostgreSQL, and a POST or PATCH without a key is refused.

  semel proxy --config semel.toml
      Everything is said in a file, route by route; `semel check --config semel.toml` looks whether it is right.

Stores:
  ./DIRECTORY                       on this machine's disk, for one proxy at a time
  memory:                           in memory: forgotten at the end
  postgres://USER@HOST/DATABASE     ?table= &schema= &create=false &connections_max=
  sqlite://FILE                     ?table=
  redis://HOST, rediss://HOST       ?prefix=
  nats://HOST                       ?bucket= &replicas= &syncs_always=true
  dynamodb://TABLE                  ?region= &endpoint=
  firestore://PROJECT/DATABASE      ?collection=

Health: GET /.semel/health (the process lives), GET /.semel/ready (the store answers, and the proxy is not stopping).

Exit codes: 0 stopped by a signal, 2 called or configured wrongly, 69 something is not there, 70 a bug.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Typed {
    /// Where requests go: http://HOST:PORT or https://HOST
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,

    /// Where clients come in [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// Where health and readiness are asked for [default: where clients come in]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<String>,

    /// Where records are kept, see below [default: ./semel-data]
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Reads everything else, routes included, from this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Whom a key belongs to: authorization, header:NAME or anyone [default: authorization]
    #[arg(long, value_name = "WHO")]
    caller: Option<String>,

    /// Refuses a POST or PATCH that has no key
    #[arg(long)]
    required: bool,

    /// Believes what this proxy says of its clients (X-Forwarded-For …); an address or a network, may be repeated
    #[arg(long, value_name = "NETWORK")]
    trusted_proxy: Vec<String>,

    /// Speaks HTTP/2 with the upstream
    #[arg(long)]
    upstream_http2: bool,

    /// How events are written to standard error: text, json or off [default: text]
    #[arg(long, value_name = "FORMAT")]
    log: Option<String>,
}

/// Runs the proxy until a signal ends it.
pub(super) fn run(typed: &Typed) -> Result<(), Failure> {
    let settings = meant(typed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("semel")
        .build()
        .map_err(|error| Failure::unavailable("threads cannot be started").because(&error))?;
    let writing = log::start(settings.log);
    let ended = runtime.block_on(proxy::run(settings));
    // What has not finished by now was told so.
    runtime.shutdown_background();
    drop(writing);
    ended
}

/// What was typed goes before what the file says, and that before the defaults.
fn meant(typed: &Typed) -> Result<ProxySettings, Failure> {
    let mut settings = match &typed.config {
        Some(path) => {
            let again =
                format!("`semel check --config {}` looks at it again, and starts nothing", path.display());
            config::parse(path, &config::read(path)?, false).map_err(|failure| failure.hint(again))?.proxy
        }
        None => ProxySettings::default(),
    };
    if let Some(text) = &typed.upstream {
        settings.upstream = Some(value("--upstream", text, config::upstream)?);
    }
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
    for text in &typed.trusted_proxy {
        settings.trusted_proxies.push(value("--trusted-proxy", text, config::network)?);
    }
    settings.upstream_http2 |= typed.upstream_http2;
    if let Some(text) = &typed.caller {
        let caller = value("--caller", text, config::caller)?;
        settings.defaults.caller = caller;
    }
    if typed.required {
        settings.defaults.key = KeyMode::Required;
    }
    let says_routes = typed.caller.is_some() || typed.required;
    if says_routes && !settings.routes.is_empty() {
        return Err(Failure::usage("`--caller` and `--required` do not go with a file that has routes")
            .hint("say `caller` and `key` in the file: below `[defaults]` for all routes, below `[[route]]` for one"));
    }
    if settings.upstream.is_none() {
        return Err(Failure::usage("where requests go is not said")
            .hint("`--upstream http://127.0.0.1:9000`, or `upstream` below `[proxy]` in the file"));
    }
    Ok(settings)
}

fn value<T>(flag: &str, text: &str, parse: fn(&str) -> Result<T, Wanted>) -> Result<T, Failure> {
    parse(text).map_err(|wanted| {
        Failure::usage(format!("`{flag}` is `{}`: wanted {wanted}", shown(text)))
            .hint("`semel proxy --help` has examples")
    })
}
