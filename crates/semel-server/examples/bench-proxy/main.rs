//! What `semel proxy` costs a request that has no key, beside a minimal proxy of the same parts.
//!
//! Both stand in front of the same upstream, and are measured in turns, so that whatever else the machine does hits
//! both. The figure is the median of the ratios of neighbouring turns; beside it, what a request cost the threads of each.
//!
//! `cargo xtask bench proxy [--seconds N] [--rounds N] [--connections N] [--log]`

mod load;
mod upstream;

use load::{Load, measure};
use mimalloc::MiMalloc;
use semel::Once;
use semel_server::{
    bench::forward,
    config::{ProxySettings, UpstreamUrl},
    log::{self, Format},
    proxy::Proxy,
};
use std::{error::Error, net::SocketAddr, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// As the program has it; all others here have the same.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The name of the proxies' threads.
const BETWEEN: &str = "between";

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
    let runtime =
        |name| Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build();
    let (behind, between, before) = (runtime("behind")?, runtime(BETWEEN)?, runtime("before")?);
    let upstream = behind.block_on(upstream::start())?;
    let minimal = between.block_on(forward::start(upstream))?;
    let semel = semel(upstream, &between)?;
    println!("{} connections, {} rounds of {} s each", options.connections, options.rounds, options.seconds);
    println!(
        "{:<16} {:>12} {:>12} {:>7}   {:>9} {:>9}",
        "requests/s", "minimal", "semel", "ratio", "CPU µs", "CPU µs"
    );
    for load in [Load::get(), Load::post(10 * 1024)] {
        before.block_on(compare(&load, minimal, semel, &options))?;
    }
    drop(writing);
    Ok(())
}

fn semel(upstream: SocketAddr, runtime: &Runtime) -> Result<SocketAddr, Box<dyn Error>> {
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
    let _inside = runtime.enter();
    let proxy = Proxy::bind(settings, Once::memory()).map_err(|failure| failure.to_string())?;
    let address = proxy.address()?;
    runtime.spawn(proxy.serve());
    Ok(address)
}

/// What the proxies' threads have worked so far: that of a request is told from it, whatever else the machine does.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ticks = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.split_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let is_proxy = name == BETWEEN;
        is_proxy.then(|| Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?))?
    });
    // In hundredths of a second, on every machine that there is.
    ticks.sum::<f64>() / 100.0
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
    let mut spent = [0.0; 2];
    for _ in 0..options.rounds {
        let mut rates = [0.0; 2];
        for (n, address) in [minimal, semel].into_iter().enumerate() {
            let before = cpu_seconds();
            rates[n] = measure(load, address, options.connections, turn).await?;
            spent[n] += (cpu_seconds() - before) / (rates[n] * options.seconds) * 1e6 / options.rounds as f64;
        }
        rounds.push((rates[1] / rates[0], rates));
    }
    rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (ratio, [one, other]) = rounds[rounds.len() / 2];
    let [one_spent, other_spent] = spent;
    println!(
        "{:<16} {one:>12.0} {other:>12.0} {ratio:>7.3}   {one_spent:>9.1} {other_spent:>9.1}",
        load.name
    );
    Ok(())
}
