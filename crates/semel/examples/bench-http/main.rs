//! What `Idempotency-Key` costs an axum route: `cargo xtask bench http`.
//!
//! 1. One process serves, as users' programs do, and this one asks, over loopback, on connections that are kept. They share
//!    the machine. The asking is done with plain sockets, so that most of its work is the serving.
//! 2. With the layer and without it, turn by turn. A figure is the median of the ratios of neighbouring turns. What a request
//!    cost the serving process stands beside it.
//! 3. `memory` holds a thousand uploads of a megabyte at once, and compares the process's peak with that of the same route
//!    without the layer. Each is a process of its own.
//! 4. `timing` tries to tell another caller's key from a new one by the time of its answer.
//!
//! What is wanted stands beside each figure; the program fails if it is not met.

mod alone;
mod app;
mod load;
mod memory;
mod neighbour;
mod timing;

use app::Kind;
use load::{Keys, Load};
use neighbour::Neighbour;
use std::{error::Error, process::ExitCode, time::Duration};
use tokio::runtime::{Builder, Runtime};

pub(crate) type Trouble = Box<dyn Error + Send + Sync>;

const CONNECTIONS: usize = 64;
const TURNS: usize = 11;
const TURN: Duration = Duration::from_secs(1);

const HELP: &str = "\
Usage: bench-http [alone] [fresh] [replays] [embedded] [memory] [timing] [--connections N]     all of them if none is named
       bench-http profile [alone-]plain|[alone-]fresh|[alone-]replays|embedded     one of them, for a profiler
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let connections = match arguments.iter().position(|it| *it == "--connections") {
        Some(at) => arguments.drain(at..).nth(1).and_then(|it| it.parse().ok()),
        None => Some(CONNECTIONS),
    };
    let Some(connections) = connections else {
        eprint!("{HELP}");
        return ExitCode::FAILURE;
    };
    match run(&arguments, connections) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str], connections: usize) -> Result<bool, Trouble> {
    if let ["memory-of", kind] = arguments {
        return memory::measure(kind).map(|()| true);
    }
    if let ["serve", kind] = arguments {
        return neighbour::serve(kind).map(|()| true);
    }
    if let ["profile", what] = arguments {
        match *what {
            "alone-plain" => alone::profile(Kind::Plain, false)?,
            "alone-fresh" => alone::profile(Kind::Memory, false)?,
            "alone-replays" => alone::profile(Kind::Memory, true)?,
            what => Bench::new(connections)?.profile(what)?,
        }
        return Ok(true);
    }
    if arguments.iter().any(|it| !["alone", "fresh", "replays", "embedded", "memory", "timing"].contains(it))
    {
        eprint!("{HELP}");
        return Ok(false);
    }
    let is_asked = |name: &str| arguments.is_empty() || arguments.contains(&name);
    let bench = Bench::new(connections)?;
    let mut is_met = true;
    if is_asked("alone") {
        alone::measure()?;
    }
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
        is_met &= timing::compare(&bench, Kind::Memory)?;
        is_met &= timing::compare(&bench, Kind::Embedded)?;
    }
    if is_asked("memory") {
        is_met &= memory::compare()?;
    }
    Ok(is_met)
}

/// Who serves in this process, where that is what is measured, and who asks.
pub(crate) struct Bench {
    pub(crate) serving: Runtime,
    pub(crate) asking: Runtime,
    connections: usize,
}

impl Bench {
    fn new(connections: usize) -> Result<Self, Trouble> {
        let runtime = |name| Builder::new_multi_thread().enable_all().thread_name(name).build();
        Ok(Self { serving: runtime("serving")?, asking: runtime("asking")?, connections })
    }

    /// Turn by turn: without the layer, with it, and so on.
    fn compare(&self, name: &str, kind: Kind, keys: Keys, wanted: Option<f64>) -> Result<bool, Trouble> {
        let (mut ratios, mut with, mut without) = (Vec::new(), Vec::new(), Vec::new());
        let mut micros = (Vec::new(), Vec::new());
        let mut before = self.turn(Kind::Plain, keys)?;
        for _ in 0..TURNS {
            let layered = self.turn(kind, keys)?;
            let after = self.turn(Kind::Plain, keys)?;
            ratios.push(layered.rate / f64::midpoint(before.rate, after.rate));
            with.push(layered.rate);
            without.push(before.rate);
            micros.0.push(layered.micros);
            micros.1.push(before.micros);
            before = after;
        }
        let ratio = median(&mut ratios);
        let micros = (median(&mut micros.0), median(&mut micros.1));
        let verdict = match wanted {
            Some(wanted) if ratio < wanted => format!("wanted {wanted:.2}: NOT MET"),
            Some(wanted) => format!("wanted {wanted:.2}"),
            None => String::new(),
        };
        let (with, without) = (median(&mut with), median(&mut without));
        println!(
            "{name:<32} {ratio:.3} of the route without it ({with:>6.0} of {without:>6.0} requests/s)  {verdict}"
        );
        println!(
            "{:<32} {:.1} µs of the serving process per request, {:.1} µs without it",
            "", micros.0, micros.1
        );
        Ok(wanted.is_none_or(|it| ratio >= it))
    }

    /// Many turns of one kind.
    fn profile(&self, what: &str) -> Result<(), Trouble> {
        let (kind, keys) = match what {
            "plain" => (Kind::Plain, Keys::Fresh),
            "fresh" => (Kind::Memory, Keys::Fresh),
            "replays" => (Kind::Memory, Keys::Known),
            "embedded" => (Kind::Embedded, Keys::Fresh),
            _ => return Err(HELP.into()),
        };
        for _ in 0..TURNS {
            let turn = self.turn(kind, keys)?;
            println!("{:>6.0} requests/s, {:.1} µs each", turn.rate, turn.micros);
        }
        Ok(())
    }

    /// With a process and a store of its own.
    fn turn(&self, kind: Kind, keys: Keys) -> Result<Turn, Trouble> {
        let served = Neighbour::start(kind)?;
        let load = Load { address: served.address, connections: self.connections, keys };
        let before = served.busy()?;
        let asked = self.asking.block_on(load.run(TURN))?;
        let micros = (served.busy()? - before) * 1e6 / asked.answered as f64;
        Ok(Turn { rate: asked.rate, micros })
    }
}

/// What came of a turn.
struct Turn {
    /// Requests per second.
    rate: f64,
    /// Of the serving process, per request.
    micros: f64,
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
