//! How fast the embedded store is, as a ratio to a plain log that is as durable.
//!
//! The limit is a store of the same interface that keeps every record in memory and appends every write to a
//! log, with the same group commit: one `fdatasync` for everybody who waits ([`limit`]). It is measured in
//! the same run, turn by turn, because absolute times on a shared machine are noise.

mod limit;
mod load;
mod machine;
mod queue;

use limit::Log;
use load::{Clocked, Load};
use semel_embedded::EmbeddedStore;
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

const HELP: &str = "\
usage: bench-embedded queue …, which measures the queue (`bench-embedded queue --help`), or
       bench-embedded [--keys N,N,…] [--callers N,N,…] [--seconds S] [--rounds R] [--directory PATH]

  --keys       how many live keys the store holds   (default 100000,1000000,10000000)
  --callers    how many callers at the same time    (default 1,64,512)
  --seconds    how long each turn lasts             (default 2)
  --rounds     how many turns each, the median counts (default 5)
  --directory  where to work, on the disk to measure (default target/bench-embedded)";

struct Arguments {
    keys: Vec<u64>,
    callers: Vec<usize>,
    turn: Duration,
    rounds: usize,
    directory: PathBuf,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [command, directory, from, to] = &words[..]
        && command == "fill-and-abort"
    {
        fill_and_abort(Path::new(directory), number(from), number(to));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    if let Some(("queue", rest)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return runtime.block_on(queue::bench(rest));
    }
    let arguments = parse(&words).unwrap_or_else(|message| {
        eprintln!("error: {message}\n\n{HELP}");
        std::process::exit(2);
    });
    runtime.block_on(bench(&arguments));
}

fn number(word: &str) -> u64 {
    word.parse().expect("a whole number")
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        keys: vec![100_000, 1_000_000, 10_000_000],
        callers: vec![1, 64, 512],
        turn: Duration::from_secs(2),
        rounds: 5,
        directory: PathBuf::from("target/bench-embedded"),
    };
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(format!("`{}` needs a value", pair[0])) };
        let list = || value.split(',').map(|it| it.parse().map_err(|_| format!("`{it}` is no number")));
        match name.as_str() {
            "--keys" => arguments.keys = list().collect::<Result<_, _>>()?,
            "--callers" => {
                arguments.callers =
                    list().map(|it| it.map(|it: u64| it as usize)).collect::<Result<_, _>>()?;
            }
            "--seconds" => {
                let seconds = value.parse().map_err(|_| format!("`{value}` is no number of seconds"))?;
                arguments.turn = Duration::from_secs_f64(seconds);
            }
            "--rounds" => arguments.rounds = value.parse().map_err(|_| format!("`{value}` is no number"))?,
            "--directory" => arguments.directory = PathBuf::from(value),
            _ => return Err(format!("there is no option `{name}`")),
        }
    }
    Ok(arguments)
}

/// Fills a store with completed records, and dies without closing it: what the reopening is measured on.
fn fill_and_abort(directory: &Path, from: u64, to: u64) -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        let store = EmbeddedStore::open(directory, Clocked::new().arc()).expect("the store opens");
        load::fill(Arc::new(store), from..to).await;
        println!("  anonymous memory, {to} keys {:>9.0} MB", machine::anonymous_bytes() as f64 / 1e6);
        std::process::abort();
    })
}

async fn bench(arguments: &Arguments) {
    let directory = arguments.directory.join("store");
    // What an earlier run left would count as keys of this one.
    let _ = std::fs::remove_dir_all(&arguments.directory);
    std::fs::create_dir_all(&arguments.directory).expect("the directory can be made");
    let mut held = 0;
    for &keys in &arguments.keys {
        println!("\n{keys} live keys");
        let child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["fill-and-abort".as_ref(), directory.as_os_str()])
            .args([held.to_string(), keys.to_string()])
            .status();
        assert_eq!(child.expect("the child runs").code(), None, "the child is to die by its own hand");
        held = keys;
        let clock = Clocked::new();
        let began = Instant::now();
        let store = EmbeddedStore::open(&directory, clock.arc()).expect("the store opens");
        println!("  reopen after a kill            {:>9.0} ms", began.elapsed().as_secs_f64() * 1e3);
        let store = Arc::new(store);
        store.settled().await;
        for &callers in &arguments.callers {
            pairs(arguments, &store, callers).await;
        }
        reads(&store, keys).await;
        let (hot, rows) = store.sizes();
        let bytes = machine::bytes_of_files(&directory, ".sqlite");
        println!(
            "  bytes of SQLite per key        {:>9.0}   ({rows} rows, {hot} keys in the journal)",
            bytes as f64 / rows.max(1) as f64
        );
    }
    expiry(arguments).await;
}

/// Claims and completions, the store and the limit turn by turn; the ratio is that of neighbouring turns, for
/// the machine's own speed drifts.
async fn pairs(arguments: &Arguments, store: &Arc<EmbeddedStore>, callers: usize) {
    let path = arguments.directory.join("limit");
    let limit: Arc<Log> = Arc::new(Log::create(&path));
    let mut turns = Vec::new();
    for _ in 0..arguments.rounds {
        let limit = load::pairs(limit.clone(), callers, arguments.turn).await;
        turns.push((load::pairs(store.clone(), callers, arguments.turn).await, limit));
    }
    drop(limit);
    // Not between turns: the disk would be busy discarding it in ours.
    let _ = std::fs::remove_file(&path);
    let middle = |of: fn(&(Load, Load)) -> f64| median(turns.iter().map(of).collect());
    println!(
        "  {callers:>4} callers: {:>9.0} pairs/s, limit {:>9.0}, ratio {:.2}, {:.1} µs CPU per pair, limit {:.1}",
        middle(|it| it.0.per_second),
        middle(|it| it.1.per_second),
        middle(|it| it.0.per_second / it.1.per_second),
        middle(|it| it.0.cpu_micros),
        middle(|it| it.1.cpu_micros),
    );
}

async fn reads(store: &Arc<EmbeddedStore>, keys: u64) {
    let replays = load::reads(store.clone(), 0..keys, true).await;
    println!("  replays of completed keys      {replays:>9.0} /s on two threads");
    let unknown = load::reads(store.clone(), keys * 1000..keys * 1001, false).await;
    println!("  unknown keys                   {unknown:>9.0} /s on two threads");
}

/// A million records expire under live traffic; each time a turn before, and the turn in which they go.
async fn expiry(arguments: &Arguments) {
    const ROUNDS: u64 = 3;
    let directory = arguments.directory.join("expiry");
    let clock = Clocked::new();
    let store = Arc::new(EmbeddedStore::open(&directory, clock.arc()).expect("the store opens"));
    let mut ratios = Vec::new();
    let mut removed = 0;
    for round in 0..ROUNDS {
        load::fill_briefly(store.clone(), round * 1_000_000..(round + 1) * 1_000_000).await;
        store.settled().await;
        let before = load::pairs(store.clone(), 64, arguments.turn).await.per_second;
        clock.advance(load::BRIEF * 3);
        let purging = tokio::spawn({
            let store = Arc::clone(&store);
            async move { load::purge(&*store).await }
        });
        let during = load::pairs(store.clone(), 64, arguments.turn).await.per_second;
        removed += purging.await.expect("purging does not panic");
        ratios.push(during / before);
    }
    println!("\nexpiring {removed} records under traffic: {:.2} of the throughput before", median(ratios));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
