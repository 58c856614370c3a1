//! What `semel proxy` costs a request that has no key, beside a minimal proxy of the same parts.
//!
//! Both stand in front of the same upstream, and are measured in turns, so that whatever else the machine does hits
//! both. The figure is the median of the ratios of neighbouring turns.
//!
//! `cargo xtask bench proxy [--seconds N] [--rounds N] [--connections N] [--log]`

mod load;
mod minimal;
mod upstream;

use load::{Load, measure};
use semel::Once;
use semel_server::{
    config::{ProxySettings, UpstreamUrl},
    log::{self, Format},
    proxy::Proxy,
};
use std::{error::Error, net::SocketAddr, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// What the bench is told.
struct Options {
    seconds: f64,
    rounds: usize,
    connections: usize,
    has_log: bool,
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: f64| {
        let at = arguments.iter().position(|it| it == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(default)
    };
    Options {
        seconds: number("--seconds", 2.0),
        rounds: number("--rounds", 7.0) as usize,
        connections: number("--connections", 64.0) as usize,
        has_log: arguments.iter().any(|it| it == "--log"),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options();
    let writing = options.has_log.then(|| log::start(Format::Text));
    // Each has threads of its own, as if it were a process of its own.
    let threads = std::thread::available_parallelism()?.get();
    let runtime = || Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let (behind, between, before) = (runtime()?, runtime()?, runtime()?);
    let upstream = behind.block_on(upstream::start())?;
    let minimal = between.block_on(minimal::start(upstream))?;
    let semel = between.block_on(semel(upstream, &between))?;
    println!("{} connections, {} rounds of {} s each", options.connections, options.rounds, options.seconds);
    println!("{:<28} {:>12} {:>12} {:>7}", "requests/s", "minimal", "semel", "ratio");
    for load in [Load::get(), Load::post(10 * 1024)] {
        before.block_on(compare(&load, minimal, semel, &options))?;
    }
    drop(writing);
    Ok(())
}

async fn semel(upstream: SocketAddr, runtime: &Runtime) -> Result<SocketAddr, Box<dyn Error>> {
    let mut settings = ProxySettings {
        upstream: Some(UpstreamUrl {
            is_https: false,
            authority: upstream.to_string().parse()?,
            base: String::new(),
        }),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        ..ProxySettings::default()
    };
    settings.limits.listen.connections_per_ip_max = 100_000;
    let proxy = Proxy::bind(settings, Once::memory()).await.map_err(|failure| failure.to_string())?;
    let address = proxy.address()?;
    runtime.spawn(proxy.serve());
    Ok(address)
}

/// Measures both in turns.
async fn compare(
    load: &Load,
    minimal: SocketAddr,
    semel: SocketAddr,
    options: &Options,
) -> Result<(), Box<dyn Error>> {
    let turn = Duration::from_secs_f64(options.seconds);
    let mut rounds = Vec::new();
    // The first turns make connections, and count for nothing.
    for address in [minimal, semel] {
        measure(load, address, options.connections, turn / 4).await?;
    }
    for _ in 0..options.rounds {
        let one = measure(load, minimal, options.connections, turn).await?;
        let other = measure(load, semel, options.connections, turn).await?;
        rounds.push((other / one, one, other));
    }
    rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (ratio, one, other) = rounds[rounds.len() / 2];
    println!("{:<28} {one:>12.0} {other:>12.0} {ratio:>7.3}", load.name);
    Ok(())
}
