//! What `Idempotency-Key` costs an axum route: `cargo xtask bench http`.
//!
//! 1. One thread serves, another asks, over loopback, on connections that are kept. The asking is done with plain sockets, so
//!    that the serving is what is measured.
//! 2. With the layer and without it, turn by turn. A figure is the median of the ratios of neighbouring turns.
//! 3. `memory` holds a thousand uploads of a megabyte at once, and compares the process's peak with that of the same route
//!    without the layer. Each is a process of its own.
//! 4. `timing` compares the times of another caller's key with those of a new one.
//!
//! What is wanted stands beside each figure; the program fails if it is not met.

mod app;
mod load;
mod memory;
mod timing;

use app::{Kind, serve};
use load::{Keys, Load};
use std::{error::Error, process::ExitCode, time::Duration};
use tokio::runtime::{Builder, Runtime};

pub(crate) type Trouble = Box<dyn Error + Send + Sync>;

const CONNECTIONS: usize = 64;
const TURNS: usize = 11;
const TURN: Duration = Duration::from_millis(400);

const HELP: &str = "\
Usage: bench-http [fresh] [replays] [embedded] [memory] [timing]     all of them if none is named
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<bool, Trouble> {
    if let ["memory-of", kind] = arguments {
        return memory::measure(kind).map(|()| true);
    }
    if arguments.iter().any(|it| !["fresh", "replays", "embedded", "memory", "timing"].contains(it)) {
        eprint!("{HELP}");
        return Ok(false);
    }
    let is_asked = |name: &str| arguments.is_empty() || arguments.contains(&name);
    let bench = Bench::new()?;
    let mut is_met = true;
    if is_asked("fresh") {
        is_met &= bench.compare("fresh keys, memory", Kind::Memory, Keys::Fresh, Some(0.75))?;
    }
    if is_asked("replays") {
        is_met &= bench.compare("replays, memory", Kind::Memory, Keys::Known, Some(0.85))?;
    }
    if is_asked("embedded") {
        is_met &= bench.compare("fresh keys, embedded, durable", Kind::Embedded, Keys::Fresh, None)?;
        is_met &= bench.compare("replays, embedded", Kind::Embedded, Keys::Known, None)?;
    }
    if is_asked("timing") {
        timing::compare(&bench)?;
    }
    if is_asked("memory") {
        is_met &= memory::compare()?;
    }
    Ok(is_met)
}

/// Who serves, and who asks.
pub(crate) struct Bench {
    pub(crate) serving: Runtime,
    pub(crate) asking: Runtime,
}

impl Bench {
    fn new() -> Result<Self, Trouble> {
        let one = |name| Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build();
        Ok(Self { serving: one("serving")?, asking: one("asking")? })
    }

    /// Turn by turn: without the layer, with it, and so on.
    fn compare(&self, name: &str, kind: Kind, keys: Keys, wanted: Option<f64>) -> Result<bool, Trouble> {
        let (mut ratios, mut with, mut without) = (Vec::new(), Vec::new(), Vec::new());
        let mut before = self.turn(Kind::Plain, keys)?;
        for _ in 0..TURNS {
            let layered = self.turn(kind, keys)?;
            let after = self.turn(Kind::Plain, keys)?;
            ratios.push(layered / f64::midpoint(before, after));
            with.push(layered);
            without.push(before);
            before = after;
        }
        let ratio = median(&mut ratios);
        let verdict = match wanted {
            Some(wanted) if ratio < wanted => format!("wanted {wanted:.2}: NOT MET"),
            Some(wanted) => format!("wanted {wanted:.2}"),
            None => String::new(),
        };
        let (with, without) = (median(&mut with), median(&mut without));
        println!(
            "{name:<32} {ratio:.3} of the route without it ({with:>6.0} of {without:>6.0} requests/s)  {verdict}"
        );
        Ok(wanted.is_none_or(|it| ratio >= it))
    }

    /// Requests per second, with a store of its own.
    fn turn(&self, kind: Kind, keys: Keys) -> Result<f64, Trouble> {
        let served = self.serving.block_on(serve(kind))?;
        let load = Load { address: served.address, connections: CONNECTIONS, keys };
        let rate = self.asking.block_on(load.run(TURN))?;
        self.serving.block_on(served.stop());
        Ok(rate)
    }
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
