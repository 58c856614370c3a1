//! Whether an event costs the same whatever is kept: an empty server beside one with millions of executions.
//!
//! 1. Both are asked in turn, so that whatever else the machine does hits both. Each has a process and a store of
//!    its own; they share the function that is called.
//! 2. An event's cost is the server's processor time with the housekeeping that it causes. Files are moved and merged in
//!    lumps, and later than their events, so what is compared is all that each server did from the first turn to the last
//!    rest, also in the turns of the other.
//! 3. An empty store has as long a journal as it will ever have: some executions went through it before.

use crate::{
    Options, Result,
    neighbour::Neighbour,
    store::{Found, Own},
};
use semel_server::bench::{
    load::{Load, Make, send},
    traffic::{Traffic, nanos},
};
use std::{
    fs,
    path::Path,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

/// How many executions are retained, and how many wait beside them.
const RETAINED: u64 = 10_000_000;
const WAITING: u64 = 1_000_000;
/// How many go through a store before it counts as empty.
const WARM_UP: u64 = 200_000;
/// How much more or less an event may cost than on an empty server.
const APART_MAX: f64 = 0.2;
/// A server rests that did nothing for so long; and how long that may take.
const REST: Duration = Duration::from_millis(300);
const REST_MAX: Duration = Duration::from_mins(2);
/// Less than this is no work, in seconds: the system counts in hundredths.
const WORK_MIN: f64 = 0.015;

/// Compares an empty server with one that has much, and then with one where much waits, too.
pub(crate) async fn measure(directory: &Path, options: &Options) -> Result<()> {
    let function = Neighbour::start(&["function"])?;
    let (empty, full) = (directory.join("empty"), directory.join("full"));
    for (at, retained) in [(&empty, WARM_UP), (&full, RETAINED)] {
        fs::create_dir_all(at)?;
        fill(at, retained, Found::Completed).await?;
    }
    let empty = Served::start(&empty, &function).await?;
    println!("{RETAINED} executions are retained");
    compare(&empty, Served::start(&full, &function).await?, options).await?;
    fill(&full, WAITING, Found::Waiting).await?;
    println!("{WAITING} more wait");
    compare(&empty, Served::start(&full, &function).await?, options).await
}

/// Puts executions into the store that a server will have.
async fn fill(directory: &Path, count: u64, found: Found) -> Result<()> {
    let began = Instant::now();
    Own::open(&directory.join("data"), found.function())?.fill(count, found).await;
    println!("{count} executions put there in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// A server, and what was sent to it.
struct Served {
    server: Neighbour,
    traffic: Traffic,
    next: Arc<AtomicU64>,
}

impl Served {
    async fn start(directory: &Path, function: &Neighbour) -> Result<Self> {
        let server = Neighbour::serve(directory, function.address, false).await?;
        let (host, source) = (server.address.to_string(), format!("/bench/{}", nanos()));
        let traffic = Traffic { host, path: "/events".to_owned(), source, kind: "bench.now".to_owned() };
        Ok(Self { server, traffic, next: Arc::new(AtomicU64::new(0)) })
    }

    /// One turn, until everything is completed and tidied up; gives how many events went through.
    async fn turn(&self, options: &Options) -> Result<u64> {
        let traffic = self.traffic.clone();
        let make: Make = Arc::new(move |number, _| traffic.one(number, None));
        let turn = Duration::from_secs_f64(options.seconds);
        let load = Load { address: self.server.address, connections: options.connections, turn, rate: None };
        let before = self.server.completed().await?;
        let sent = send(&load, &self.next, &make).await?;
        while self.server.completed().await? < before + sent.requests {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.rests().await?;
        Ok(sent.requests)
    }

    /// Waits until the server has nothing to do.
    async fn rests(&self) -> Result<()> {
        let since = Instant::now();
        let mut before = self.server.cpu_seconds();
        while since.elapsed() < REST_MAX {
            tokio::time::sleep(REST).await;
            let cpu = self.server.cpu_seconds();
            if cpu - before < WORK_MIN {
                return Ok(());
            }
            before = cpu;
        }
        Err("the server does not rest".into())
    }
}

/// Asks both in turn, and ends the one that is full.
async fn compare(empty: &Served, full: Served, options: &Options) -> Result<()> {
    let both = [empty, &full];
    for served in both {
        // The first turn makes connections, and counts for nothing.
        served.rests().await?;
        served.turn(options).await?;
    }
    let before = both.map(|it| it.server.cpu_seconds());
    let mut events = [0; 2];
    for _ in 0..options.rounds {
        for (served, events) in both.into_iter().zip(&mut events) {
            *events += served.turn(options).await?;
        }
    }
    // What was put off has until now.
    for served in both {
        served.rests().await?;
    }
    let [small, large] =
        [0, 1].map(|it| (both[it].server.cpu_seconds() - before[it]) * 1e6 / events[it] as f64);
    let ratio = large / small;
    let verdict = if (ratio - 1.0).abs() <= APART_MAX { "" } else { ": NOT MET" };
    println!("  an event costs {large:>6.1} µs CPU, {small:>6.1} µs on an empty server");
    println!("  ratio {ratio:>5.2} (wanted 1 ± {APART_MAX}){verdict}");
    Ok(())
}
