//! `semel bench`: how fast a server is, over this machine's loopback or wherever it is.
//!
//! 1. Without `--server`, it is a server of its own, durable, with its data in a directory that is removed in the end, and
//!    a function that does nothing, all in this process: ratios tell more than figures do, and `cargo xtask bench runtime`
//!    prints those.
//! 2. With `--server`, that server really takes the events: its functions are called with them.
//! 3. It is over in a time that is known before.

use super::text::count;
use crate::{
    bench::{
        load::{Load, Make, Sent, send},
        noop::Noop,
        percentile::percentile,
        traffic::{Traffic, nanos},
    },
    demo::{Here, Scratch},
    exit::Failure,
    progress::{Progress, REDRAWN_EVERY, bar},
};
use clap::Args;
use semel_core::retry::RetryPolicy;
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

/// Longest turn, in seconds.
const SECONDS_MAX: u32 = 60;
/// Most connections.
const CONNECTIONS_MAX: u32 = 1_000;
/// Events of a batch.
const BATCH: u64 = 100;
/// Connections that send batches.
const BATCHERS: usize = 8;
/// How many events are sent again and again.
const KNOWN: u64 = 1_000;

/// What was typed.
#[derive(Args, Debug)]
pub(super) struct Typed {
    /// The server to send to, which takes the events [default: one of its own]
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// How long each turn lasts
    #[arg(long, value_name = "N", default_value_t = 3)]
    seconds: u32,

    /// How many connections send at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    connections: u32,

    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Measures, and prints a table.
pub(super) fn run(typed: &Typed) -> Result<(), Failure> {
    for (flag, number, most) in
        [("--seconds", typed.seconds, SECONDS_MAX), ("--connections", typed.connections, CONNECTIONS_MAX)]
    {
        if !(1..=most).contains(&number) {
            return Err(Failure::usage(format!("`{flag}` is `{number}`: wanted 1 to {most}"))
                .hint("`semel bench --help` says more"));
        }
    }
    let world = Builder::new_multi_thread().enable_all().thread_name("world").build();
    let world = world.map_err(|error| Failure::unavailable("threads cannot be started").because(&error))?;
    match &typed.server {
        Some(url) => Bench::new(typed, &world, resolved(url)?, None).run(),
        None => on_own(typed, &world),
    }
}

fn on_own(typed: &Typed, world: &Runtime) -> Result<(), Failure> {
    let scratch = Scratch::new(None)?;
    let (address, noop) = world
        .block_on(Noop::start())
        .map_err(|error| Failure::unavailable("the function has nowhere to listen").because(&error))?;
    let server = Here::start(Here::settings(scratch.path(), ("noop", address), &RetryPolicy::gen2())?)?;
    let ended = Bench::new(typed, world, server.address, Some(noop)).run();
    server.stop();
    ended
}

/// Where a URL is: the part before its path is all that matters.
fn resolved(url: &str) -> Result<SocketAddr, Failure> {
    let wrong = || {
        Failure::usage(format!("`--server` is `{url}`: wanted a URL such as `http://127.0.0.1:8787`"))
            .hint("it does not speak TLS: measure beside the server, not through the network")
    };
    let rest = url.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
    let host = if rest.contains(':') { rest.to_owned() } else { format!("{rest}:80") };
    let found = host.to_socket_addrs().map_err(|error| wrong().because(&error))?.next();
    found.ok_or_else(wrong)
}

struct Bench<'a> {
    world: &'a Runtime,
    load: Load,
    traffic: Traffic,
    /// The next event's number.
    next: Arc<AtomicU64>,
    /// The function, if it is ours.
    noop: Option<Arc<Noop>>,
    table: Table,
}

/// What was measured: printed at once for people, and in the end for programs.
struct Table {
    is_json: bool,
    rows: RefCell<Vec<Value>>,
}

impl Table {
    fn head(&self, address: SocketAddr, connections: usize, seconds: u64) {
        if !self.is_json {
            let connections = count(connections as u64, "connection", "connections");
            println!("http://{address}, {connections}, {seconds} s each\n");
            println!("{:<26} {:>10} {:>9} {:>9}", "", "events/s", "p50 ms", "p99 ms");
        }
    }

    fn row(&self, name: &str, rate: Option<f64>, (p50, p99): (f64, f64)) {
        if self.is_json {
            let row = json!({ "name": name.trim(), "events_per_second": rate, "p50_ms": p50, "p99_ms": p99 });
            self.rows.borrow_mut().push(row);
        } else {
            let rate = rate.map(|it| format!("{it:.0}")).unwrap_or_default();
            println!("{name:<26} {rate:>10} {p50:>9.1} {p99:>9.1}");
        }
    }

    fn end(&self) {
        if self.is_json {
            println!("{:#}", Value::Array(self.rows.take()));
        }
    }
}

impl<'a> Bench<'a> {
    fn new(typed: &Typed, world: &'a Runtime, address: SocketAddr, noop: Option<Arc<Noop>>) -> Self {
        let turn = Duration::from_secs(typed.seconds.into());
        let traffic = Traffic {
            host: address.to_string(),
            path: "/events".to_owned(),
            source: format!("/semel/bench/{}", nanos()),
            kind: "semel.bench".to_owned(),
        };
        let load = Load { address, connections: typed.connections as usize, turn, rate: None };
        let table = Table { is_json: typed.json, rows: RefCell::default() };
        Self { world, load, traffic, next: Arc::default(), noop, table }
    }

    fn run(&self) -> Result<(), Failure> {
        let (seconds, connections) = (self.load.turn.as_secs(), self.load.connections);
        self.table.head(self.load.address, connections, seconds);
        let traffic = self.traffic.clone();
        let single: Make = Arc::new(move |number, _| traffic.one(number, None));
        let fresh = self.turn("single events", &self.load, &single, 1)?;
        let traffic = self.traffic.clone();
        let known = fresh.requests.clamp(1, KNOWN);
        let again: Make = Arc::new(move |number, _| traffic.one(number % known, None));
        self.turn("the same events again", &self.load, &again, 1)?;
        if let Some(noop) = &self.noop {
            noop.take_times();
            let traffic = self.traffic.clone();
            let timed: Make = Arc::new(move |number, sent| traffic.one(number, Some(sent)));
            let half = Load { rate: Some(fresh.rate() / 2.0), ..self.load };
            self.turn("half of that, acknowledged", &half, &timed, 1)?;
            let times = noop.take_times();
            self.table.row("  function called", None, (millis(times.p50), millis(times.p99)));
        }
        let traffic = self.traffic.clone();
        let batch: Make = Arc::new(move |number, _| traffic.batch(number * BATCH, BATCH));
        let load = Load { connections: BATCHERS, ..self.load };
        self.turn(&format!("batches of {BATCH}"), &load, &batch, BATCH)?;
        self.table.end();
        Ok(())
    }

    fn turn(&self, name: &str, load: &Load, make: &Make, events: u64) -> Result<Sent, Failure> {
        let sent = self.world.block_on(watched(name, load, send(load, &self.next, make)));
        let sent = sent.map_err(|error| not_sent(load, &error))?;
        let times = (millis(percentile(&sent.micros, 0.5)), millis(percentile(&sent.micros, 0.99)));
        self.table.row(name, Some(sent.rate() * events as f64), times);
        Ok(sent)
    }
}

/// A turn, with a bar while it lasts.
async fn watched<S>(name: &str, load: &Load, sending: impl Future<Output = S>) -> S {
    let mut sending = std::pin::pin!(sending);
    let (mut progress, turn) = (Progress::new(), load.turn.as_millis() as u64);
    loop {
        match tokio::time::timeout(REDRAWN_EVERY, sending.as_mut()).await {
            Ok(sent) => return sent,
            Err(_) => progress.show(|elapsed| format!("{} {name}", bar(elapsed.as_millis() as u64, turn))),
        }
    }
}

fn not_sent(load: &Load, error: &io::Error) -> Failure {
    Failure::unavailable(format!("`http://{}` does not take the events", load.address))
        .because(error)
        .hint("see that it runs, and that `/events` is open to everybody")
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}
