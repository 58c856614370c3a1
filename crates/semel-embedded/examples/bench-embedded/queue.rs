//! How fast the embedded queue is, as a ratio to a plain log of the same bytes, in the same run.
//!
//! 1. The limit appends what the queue would write (each execution, encoded) to a log with the same group commit,
//!    keeps nothing in memory, and answers when it is on disk.
//! 2. What an execution costs is counted with the housekeeping that it causes: the processor's time is read when the journal
//!    is as short again as it was before. So an empty queue is warmed up until its journal is as long as it will ever be.
//! 3. Files are moved and merged in lumps, so this cost is that of all turns together, and not of the one in the middle. Whether
//!    it is flat is judged by the mean of those shapes that have many callers: one alone mostly waits for the disk.
//! 4. What expires is purged while others go on; what they get done meanwhile is compared with the turn before.

use crate::{limit::Log, load::Clocked, machine, median};
use semel_core::{
    execution::{Arrival, Execution, Input, Origin, claimed, step},
    fingerprint::Fingerprint,
    key::Key,
    queue::{Accepted, Change, Queue},
    record::{Body, Holder},
    retry::{Jitter, RetryPolicy},
    time::Timestamp,
    wire,
};
use semel_embedded::EmbeddedQueue;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) const HELP: &str = "\
usage: bench-embedded queue [--retained N,N,…] [--backlog N,N,…] [--seconds S] [--rounds R] [--event BYTES]
                            [--directory PATH]

  --retained   how many finished executions are there   (default 0,1000000)
  --backlog    how many wait, after that                (default 1000000)
  --seconds    how long each turn lasts                 (default 2)
  --rounds     how many turns each, the median counts   (default 3)
  --event      how large an event is                    (default 300)
  --directory  where to work, on the disk to measure    (default target/bench-queue)";

struct Arguments {
    retained: Vec<u64>,
    backlog: Vec<u64>,
    turn: Duration,
    rounds: usize,
    event: usize,
    directory: PathBuf,
}

/// How many executions fill the journal up to where it is moved.
const WARM_UP: u64 = 200_000;
/// How many expire at once, and after which time all of them have.
const EXPIRING: u64 = 1_000_000;
const LONG_AFTER: Duration = Duration::from_hours(24 * 90);
/// How one measures: how many callers, and how large their batches are.
const SHAPES: [(usize, usize); 4] = [(1, 1), (64, 1), (512, 1), (8, 100)];
/// How much more or less an execution may cost than in an empty queue.
const APART_MAX: f64 = 0.2;

fn parse(words: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        retained: vec![0, 1_000_000],
        backlog: vec![1_000_000],
        turn: Duration::from_secs(2),
        rounds: 3,
        event: 300,
        directory: PathBuf::from("target/bench-queue"),
    };
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(format!("`{}` needs a value", pair[0])) };
        let list = || -> Result<Vec<u64>, String> {
            value.split(',').map(|it| it.parse().map_err(|_| format!("`{it}` is no number"))).collect()
        };
        let number = || value.parse().map_err(|_| format!("`{value}` is no number"));
        match name.as_str() {
            "--retained" => arguments.retained = list()?,
            "--backlog" => arguments.backlog = list()?,
            "--seconds" => arguments.turn = Duration::from_secs(number()? as u64),
            "--rounds" => arguments.rounds = number()?,
            "--event" => arguments.event = number()?,
            "--directory" => arguments.directory = PathBuf::from(value),
            _ => return Err(format!("there is no option `{name}`")),
        }
    }
    Ok(arguments)
}

pub(crate) async fn bench(words: &[String]) {
    let arguments = parse(words).unwrap_or_else(|message| {
        eprintln!("error: {message}\n\n{HELP}");
        std::process::exit(2);
    });
    let _ = std::fs::remove_dir_all(&arguments.directory);
    std::fs::create_dir_all(&arguments.directory).expect("the directory can be made");
    let directory = arguments.directory.join("data");
    let bench = Bench { next: AtomicU64::new(0), arguments };
    let mut queue = open(&directory);
    let (mut held, mut costs) = (0, Vec::new());
    for retained in bench.arguments.retained.clone() {
        bench.fill(&queue, retained - held, true).await;
        held = retained;
        println!("\n{retained} finished executions are retained");
        let cost;
        (queue, cost) = bench.measure(queue, &directory).await;
        costs.push(cost);
    }
    let mut waiting = 0;
    for backlog in bench.arguments.backlog.clone() {
        bench.fill(&queue, backlog - waiting, false).await;
        waiting = backlog;
        println!("\n{backlog} executions wait, {held} finished ones are retained");
        let cost;
        (queue, cost) = bench.measure(queue, &directory).await;
        costs.push(cost);
    }
    tell_flatness(&costs);
    // Last, because what it leaves behind waits.
    bench.turns("accept only", &queue, 8, 100, false).await;
    drop(queue);
    bench.expiry().await;
}

/// What an execution costs by what is kept, beside what it cost at first.
fn tell_flatness(costs: &[f64]) {
    println!("\nprocessor time of an execution, with many callers");
    for cost in costs {
        let ratio = cost / costs[0];
        let verdict = if (ratio - 1.0).abs() <= APART_MAX { "" } else { ": NOT MET" };
        println!("  {cost:>9.1} µs, {ratio:.2} of the first (wanted 1 ± {APART_MAX}){verdict}");
    }
}

fn open(directory: &Path) -> Arc<EmbeddedQueue> {
    open_at(directory, &Clocked::new())
}

fn open_at(directory: &Path, clock: &Clocked) -> Arc<EmbeddedQueue> {
    let began = Instant::now();
    let queue = Arc::new(EmbeddedQueue::open(directory, clock.arc()).expect("the queue opens"));
    println!("  open                           {:>9.0} ms", began.elapsed().as_secs_f64() * 1e3);
    queue
}

struct Bench {
    /// The next event's number.
    next: AtomicU64,
    arguments: Arguments,
}

impl Bench {
    /// Prints what there is to tell of the queue, and gives it back, opened anew, with what an execution costs.
    async fn measure(&self, queue: Arc<EmbeddedQueue>, directory: &Path) -> (Arc<EmbeddedQueue>, f64) {
        queue.settled().await;
        let anonymous = machine::anonymous_bytes() as f64 / 1e6;
        drop(queue);
        let queue = open(directory);
        self.fill(&queue, WARM_UP, true).await;
        queue.settled().await;
        let (hot, rows) = queue.sizes();
        println!("  anonymous memory               {anonymous:>9.0} MB   ({hot} in memory, {rows} rows)");
        let mut costs = Vec::new();
        for (callers, batch) in SHAPES {
            costs.push(self.turns("accept and complete", &queue, callers, batch, true).await);
        }
        let known = self.next.fetch_add(10_000, Ordering::Relaxed);
        for at in (known..known + 10_000).step_by(100) {
            pairs(Arc::clone(&queue), self.executions(at, 100), true).await;
        }
        for (callers, batch) in [(64, 1), (8, 100)] {
            let per_second = self.duplicates(&queue, callers, batch, known).await;
            println!("  duplicates, {callers:>3} × {batch:<3}          {per_second:>9.0} /s");
        }
        for what in ["first page", "  and again"] {
            let began = Instant::now();
            let page = queue.list(&semel_core::queue::Filter::default(), None, 100).await.expect("it lists");
            let took = began.elapsed().as_secs_f64() * 1e3;
            println!("  {what} of {:>3}              {took:>9.1} ms", page.items.len());
        }
        let with_many = &costs[1..];
        (queue, with_many.iter().sum::<f64>() / with_many.len() as f64)
    }

    /// Finished executions expire under traffic; each time a turn before, and the turns in which they go.
    async fn expiry(&self) {
        let (mut ratios, mut removed) = (Vec::new(), 0);
        let clock = Clocked::new();
        let queue = open_at(&self.arguments.directory.join("expiry"), &clock);
        for _ in 0..self.arguments.rounds {
            self.fill(&queue, EXPIRING, true).await;
            queue.settled().await;
            let traffic = || self.turn(64, |at| pairs(Arc::clone(&queue), self.executions(at, 1), true));
            let before = traffic().await;
            clock.advance(LONG_AFTER);
            let purging = tokio::spawn(purged(Arc::clone(&queue)));
            let mut during = Vec::new();
            while !purging.is_finished() {
                during.push(traffic().await);
            }
            removed += purging.await.expect("it does not panic");
            ratios.push(during.iter().sum::<f64>() / during.len() as f64 / before);
        }
        println!(
            "\n{removed} executions expired under traffic: {:.2} of the throughput before",
            median(ratios)
        );
    }

    /// The queue and the limit, turn by turn. What an execution cost, in microseconds of a processor.
    async fn turns(
        &self,
        what: &str,
        queue: &Arc<EmbeddedQueue>,
        callers: usize,
        batch: usize,
        ends: bool,
    ) -> f64 {
        let path = self.arguments.directory.join("limit");
        let limit = Arc::new(Log::create(&path));
        let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
        let (mut busy, mut executions) = (0.0, 0.0);
        for _ in 0..self.arguments.rounds {
            let raw =
                self.turn(callers, |at| raw(Arc::clone(&limit), self.executions(at, batch), ends)).await;
            let cpu = machine::cpu_seconds();
            let began = Instant::now();
            let own =
                self.turn(callers, |at| pairs(Arc::clone(queue), self.executions(at, batch), ends)).await;
            executions += own * began.elapsed().as_secs_f64();
            queue.settled().await;
            busy += machine::cpu_seconds() - cpu;
            ours.push(own);
            theirs.push(raw);
            ratios.push(own / raw);
        }
        drop(limit);
        let _ = std::fs::remove_file(&path);
        let cost = busy * 1e6 / executions;
        println!(
            "  {what}, {callers:>3} × {batch:<3}: {:>9.0} /s, limit {:>9.0}, ratio {:.2}, {cost:.1} µs CPU each",
            median(ours),
            median(theirs),
            median(ratios),
        );
        cost
    }

    /// So many executions a second, by so many callers at once.
    async fn turn<F>(&self, callers: usize, work: impl Fn(u64) -> F) -> f64
    where
        F: Future<Output = u64> + Send + 'static,
    {
        let began = Instant::now();
        let mut count = 0;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..callers {
            tasks.spawn(work(self.next.fetch_add(1_000, Ordering::Relaxed)));
        }
        while let Some(done) = tasks.join_next().await {
            count += done.expect("no caller panics");
            if began.elapsed() < self.arguments.turn {
                tasks.spawn(work(self.next.fetch_add(1_000, Ordering::Relaxed)));
            }
        }
        count as f64 / began.elapsed().as_secs_f64()
    }

    fn executions(&self, from: u64, batch: usize) -> Vec<Execution> {
        (from..from + batch as u64).map(|it| execution(it, self.arguments.event)).collect()
    }

    async fn fill(&self, queue: &Arc<EmbeddedQueue>, count: u64, ends: bool) {
        let began = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (queue, event) = (Arc::clone(queue), self.arguments.event);
            let from = self.next.fetch_add(count, Ordering::Relaxed);
            tasks.spawn(async move {
                let mut at = from;
                while at < from + count / 8 {
                    pairs(Arc::clone(&queue), (at..at + 100).map(|it| execution(it, event)).collect(), ends)
                        .await;
                    at += 100;
                }
            });
        }
        tasks.join_all().await;
        println!("  {count} filled in {:.1} s", began.elapsed().as_secs_f64());
    }

    async fn duplicates(&self, queue: &Arc<EmbeddedQueue>, callers: usize, batch: usize, known: u64) -> f64 {
        self.turn(callers, |at| {
            let queue = Arc::clone(queue);
            let new = self.executions(known + at / 1_000 * batch as u64 % 9_900, batch);
            async move {
                let answers = queue.accept(&new).await.expect("it accepts");
                answers.iter().filter(|it| matches!(it, Accepted::Duplicate(_))).count() as u64
            }
        })
        .await
    }
}

/// Purges what has expired, as the runtime does; how many executions that was.
async fn purged(queue: Arc<EmbeddedQueue>) -> u64 {
    const BATCH: u32 = 256;
    let mut all = 0;
    loop {
        let purged = queue.purge(queue.clock().now(), BATCH).await.expect("it purges");
        all += u64::from(purged);
        if purged < BATCH {
            return all;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Accepts, claimed or waiting, and completes what was claimed.
async fn pairs(queue: Arc<EmbeddedQueue>, new: Vec<Execution>, ends: bool) -> u64 {
    let now = queue.clock().now();
    let count = new.len() as u64;
    let new = if ends { new.iter().map(|it| leased(it, now)).collect() } else { new };
    let answers = queue.accept(&new).await.expect("it accepts");
    if !ends {
        return count;
    }
    let changes = new.iter().zip(answers).map(|(it, answer)| {
        let Accepted::New(expected) = answer else { panic!("{} is new", it.key) };
        Change { expected, after: completed(it, now), causes: Vec::new() }
    });
    let changes: Vec<_> = changes.collect();
    drop(queue.write(&changes).await.expect("it writes"));
    count
}

async fn raw(log: Arc<Log>, new: Vec<Execution>, ends: bool) -> u64 {
    let now = new[0].accepted_at;
    let new: Vec<_> = if ends { new.iter().map(|it| leased(it, now)).collect() } else { new };
    log.append_bytes(&new.iter().map(wire::encode_execution).collect::<Vec<_>>()).await;
    if ends {
        let done: Vec<_> = new.iter().map(|it| wire::encode_execution(&completed(it, now))).collect();
        log.append_bytes(&done).await;
    }
    new.len() as u64
}

fn execution(number: u64, bytes: usize) -> Execution {
    let now = Timestamp::from_millis(1_800_000_000_000 + number / 100);
    let id = format!("evt-{number:012}");
    let arrival = Arrival {
        key: Key::new("bench", ("/bench", &*id)).expect("a key"),
        function: "bench".into(),
        origin: Origin { source: "/bench".into(), id: id.into(), kind: "order.created".into() },
        order: None,
        fingerprint: Fingerprint::of_bytes(&number.to_le_bytes()),
        event: vec![b'x'; bytes].into(),
        event_time: None,
        event_expires_at: None,
    };
    Execution::accepted(now, arrival, now + Duration::from_hours(700))
}

fn leased(new: &Execution, now: Timestamp) -> Execution {
    let due = Execution {
        phase: semel_core::execution::Phase::Pending(semel_core::execution::Due::At(now)),
        ..new.clone()
    };
    claimed(now, &due, Holder(1), now + Duration::from_hours(1)).expect("it is due")
}

fn completed(it: &Execution, now: Timestamp) -> Execution {
    let body = Body::Kept { bytes: b"{\"ok\":true}".to_vec(), until: now + Duration::from_hours(24) };
    step(now, it, Input::Complete(body), &RetryPolicy::gen2(), Jitter::LEAST).expect("it is in progress")
}
