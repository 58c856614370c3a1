//! How fast `semel serve` is, end to end and durable, beside a forwarder that stores nothing.
//!
//! 1. Everybody has a process of its own: the server, the forwarder, the function that does nothing, and this one, which
//!    sends. Machine and connections are the same for all.
//! 2. End to end means that everything that was sent is `COMPLETED` on disk; the clock runs until then.
//! 3. What is compared is measured in turns, and the figure is the median of the ratios of neighbouring turns, so that
//!    whatever else the machine does hits both.
//!
//! 4. What a backlog and millions of retained executions cost is measured if it is asked for: it takes gigabytes of disk.
//!
//! `cargo xtask bench runtime [start|memory|flat] [--seconds N] [--rounds N] [--connections N] [--directory PATH] [--log]`

mod backlog;
mod disk;
mod flat;
mod neighbour;
mod store;

use mimalloc::MiMalloc;
use neighbour::{Neighbour, own};
use semel_server::bench::{
    forward,
    load::{Load, Make, Sent, send},
    noop::Noop,
    percentile::{median, percentile},
    traffic::{Traffic, nanos},
};
use std::{
    error::Error,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Runtime};

/// As the program has it; the forwarder, the function and the sender have the same.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Events of a batch.
const BATCH: u64 = 100;
/// Connections that send batches.
const BATCHERS: usize = 8;

/// What the bench is told.
struct Options {
    seconds: f64,
    rounds: usize,
    connections: usize,
    directory: PathBuf,
    has_log: bool,
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().collect();
    let text = |name: &str| {
        let at = arguments.iter().position(|it| it == name);
        at.and_then(|at| arguments.get(at + 1).cloned())
    };
    let number = |name: &str, default: f64| text(name).and_then(|it| it.parse().ok()).unwrap_or(default);
    Options {
        seconds: number("--seconds", 2.0),
        rounds: number("--rounds", 5.0) as usize,
        connections: number("--connections", 64.0) as usize,
        directory: text("--directory").unwrap_or_else(|| "target/bench-runtime".to_owned()).into(),
        has_log: arguments.iter().any(|it| it == "--log"),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match arguments.first().map(String::as_str) {
        Some("serve") => {
            return semel_server::run(["semel".to_owned()].into_iter().chain(arguments).map(Into::into));
        }
        Some("function") => runtime().and_then(|it| it.block_on(own(async { Ok(Noop::start().await?.0) }))),
        Some("forward") => runtime().and_then(|it| {
            let to: SocketAddr = arguments[1].parse()?;
            it.block_on(own(async move { Ok(forward::start(to).await?) }))
        }),
        Some("hang") => runtime().and_then(|it| it.block_on(own(backlog::hang()))),
        Some("start") => alone(|directory| runtime()?.block_on(backlog::start(directory))),
        Some("memory") => alone(|directory| runtime()?.block_on(backlog::memory(directory))),
        Some("flat") => alone(|directory| runtime()?.block_on(flat::measure(directory, &options()))),
        _ => alone(|_| runtime()?.block_on(bench(&options()))),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

/// Everybody who is measured.
struct Bench<'a> {
    options: &'a Options,
    function: Neighbour,
    forwarder: Neighbour,
    server: Neighbour,
    traffic: Traffic,
    /// The next event's number.
    next: Arc<AtomicU64>,
    /// How many events were sent for the function.
    sent: AtomicU64,
}

/// Measures in a directory of which nothing is there before, and nothing after.
fn alone(measure: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let Options { directory, .. } = options();
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory)?;
    let measured = measure(&directory);
    let _ = std::fs::remove_dir_all(&directory);
    measured
}

async fn bench(options: &Options) -> Result<()> {
    let function = Neighbour::start(&["function"])?;
    let forwarder = Neighbour::start(&["forward", &function.address.to_string()])?;
    let server = Neighbour::serve(&options.directory, function.address, options.has_log).await?;
    let traffic = Traffic {
        host: server.address.to_string(),
        path: "/events".to_owned(),
        source: format!("/bench/{}", nanos()),
        kind: "bench.now".to_owned(),
    };
    let (next, sent) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let bench = Bench { options, function, forwarder, server, traffic, next, sent };
    println!("{} connections, {} rounds of {} s each", options.connections, options.rounds, options.seconds);
    let fresh = bench.end_to_end().await?;
    bench.duplicates(fresh).await?;
    bench.half_load(fresh.rate).await?;
    bench.batches().await
}

/// What a fresh event is like.
#[derive(Clone, Copy)]
struct Fresh {
    rate: f64,
    cpu: f64,
}

impl Bench<'_> {
    fn load(&self, address: SocketAddr, part: f64) -> Load {
        let turn = Duration::from_secs_f64(self.options.seconds * part);
        Load { address, connections: self.options.connections, turn, rate: None }
    }

    fn singles(&self) -> Make {
        let traffic = self.traffic.clone();
        Arc::new(move |number, _| traffic.one(number, None))
    }

    /// Sends to the server, and waits until everything is completed: events a second, and what each cost the server.
    async fn whole(&self, load: &Load, make: &Make) -> Result<(f64, f64, Sent)> {
        let (cpu, began) = (self.server.cpu_seconds(), Instant::now());
        let sent = send(load, &self.next, make).await?;
        let all = self.sent.fetch_add(sent.requests, std::sync::atomic::Ordering::Relaxed) + sent.requests;
        while self.server.completed().await? < all {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (count, took) = (sent.requests as f64, began.elapsed().as_secs_f64());
        Ok((count / took, (self.server.cpu_seconds() - cpu) / count * 1e6, sent))
    }

    async fn end_to_end(&self) -> Result<Fresh> {
        let make = self.singles();
        for address in [self.forwarder.address, self.server.address] {
            // The first turns make connections, and count for nothing.
            if address == self.server.address {
                self.whole(&self.load(address, 0.25), &make).await?;
            } else {
                send(&self.load(address, 0.25), &self.next, &make).await?;
            }
        }
        let (mut theirs, mut ours, mut ratios, mut their_cpu, mut our_cpu) =
            (vec![], vec![], vec![], vec![], vec![]);
        for _ in 0..self.options.rounds {
            let cpu = self.forwarder.cpu_seconds();
            let sent = send(&self.load(self.forwarder.address, 1.0), &self.next, &make).await?;
            their_cpu.push((self.forwarder.cpu_seconds() - cpu) / sent.requests as f64 * 1e6);
            let (rate, cpu, _) = self.whole(&self.load(self.server.address, 1.0), &make).await?;
            theirs.push(sent.rate());
            ours.push(rate);
            our_cpu.push(cpu);
            ratios.push(rate / sent.rate());
        }
        let fresh = Fresh { rate: median(ours), cpu: median(our_cpu) };
        let (theirs, their_cpu) = (median(theirs), median(their_cpu));
        println!("end to end, forwarder     {theirs:>9.0} /s   {their_cpu:>6.1} µs CPU each");
        println!("end to end, semel         {:>9.0} /s   {:>6.1} µs CPU each", fresh.rate, fresh.cpu);
        println!("  ratio                   {:>9.2}      (wanted ≥ 0.5)", median(ratios));
        Ok(fresh)
    }

    /// The first events again and again.
    async fn duplicates(&self, fresh: Fresh) -> Result<()> {
        let (traffic, known) = (self.traffic.clone(), Arc::new(AtomicU64::new(0)));
        let first = self.first_known().await?;
        let make: Make = Arc::new(move |number, _| traffic.one(first + number % 1_000, None));
        let cpu = self.server.cpu_seconds();
        let sent = send(&self.load(self.server.address, 1.0), &known, &make).await?;
        let cpu = (self.server.cpu_seconds() - cpu) / sent.requests as f64 * 1e6;
        let rate = sent.rate();
        println!("duplicates                {rate:>9.0} /s   {cpu:>6.1} µs CPU each");
        println!(
            "  beside fresh ones       {:>9.2} of the CPU (wanted < 1), {:.2} of the rate",
            cpu / fresh.cpu,
            rate / fresh.rate
        );
        Ok(())
    }

    /// A thousand events that are there.
    async fn first_known(&self) -> Result<u64> {
        let first = self.next.load(std::sync::atomic::Ordering::Relaxed);
        let make = self.singles();
        while self.next.load(std::sync::atomic::Ordering::Relaxed) < first + 1_000 {
            self.whole(&self.load(self.server.address, 0.1), &make).await?;
        }
        Ok(first)
    }

    /// How long an event takes to its function, with half of what the server can do.
    async fn half_load(&self, rate: f64) -> Result<()> {
        let traffic = self.traffic.clone();
        let make: Make = Arc::new(move |number, sent| traffic.one(number, Some(sent)));
        let load = Load { rate: Some(rate / 2.0), ..self.load(self.server.address, 2.0) };
        self.function.times().await?;
        let (_, _, sent) = self.whole(&load, &make).await?;
        let (p50, p99) = self.function.times().await?;
        println!("at half load              {:>9.0} /s", sent.rate());
        println!(
            "  sent to acknowledged    {:>9.1} ms   p99 {:.1} ms",
            millis(percentile(&sent.micros, 0.5)),
            millis(percentile(&sent.micros, 0.99))
        );
        println!(
            "  sent to function called {:>9.1} ms   p99 {:.1} ms (wanted < 10)",
            millis(p50),
            millis(p99)
        );
        let turn = Duration::from_secs_f64(self.options.seconds);
        let (p50, p99) = disk::syncs(&self.options.directory, turn)?;
        println!("  a sync of the disk      {:>9.1} ms   p99 {:.1} ms", millis(p50), millis(p99));
        Ok(())
    }

    /// Batches that nobody delivers, beside what the queue by itself accepts.
    async fn batches(&self) -> Result<()> {
        let traffic = Traffic { kind: "bench.later".to_owned(), ..self.traffic.clone() };
        let make: Make = Arc::new(move |number, _| traffic.batch(number * BATCH, BATCH));
        let (mut ours, mut theirs, mut ratios, mut cpus) = (vec![], vec![], vec![], vec![]);
        let store = store::Own::open(&self.options.directory.join("own"), "later")?;
        for _ in 0..self.options.rounds.min(3) {
            let turn = Duration::from_secs_f64(self.options.seconds);
            let limit = store.accepts(BATCHERS, BATCH, turn).await;
            let load = Load { connections: BATCHERS, ..self.load(self.server.address, 1.0) };
            let cpu = self.server.cpu_seconds();
            let sent = send(&load, &self.next, &make).await?;
            let rate = sent.rate() * BATCH as f64;
            cpus.push((self.server.cpu_seconds() - cpu) / (sent.requests * BATCH) as f64 * 1e6);
            theirs.push(limit);
            ours.push(rate);
            ratios.push(rate / limit);
        }
        println!(
            "ingest, batches of {BATCH}    {:>9.0} /s   {:>6.1} µs CPU each",
            median(ours),
            median(cpus)
        );
        println!("  the queue by itself     {:>9.0} /s", median(theirs));
        println!("  ratio                   {:>9.2}      (wanted ≥ 0.5, or 100,000 /s)", median(ratios));
        Ok(())
    }
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}
