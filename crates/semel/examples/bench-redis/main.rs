//! What the library costs on Redis: `cargo xtask bench redis`.
//!
//! Pairs of claim and completion by 64 callers, compared with as many pairs of bare `EVALSHA` of an empty script
//! through the same client, in turns: each turn of ours with the bare one right before it, so that what else the
//! machine does weighs on both. An empty script touches no key, so the least that can be done by hand is shown too: a
//! `SET` that writes what is not there, and a script that compares and writes, for one key each. A round removes what
//! it wrote, so that no round pays for the memory of those before it.
//!
//! Measured twice: without an append-only file, which an empty script would not write to either, and with one that is
//! synced before each answer. The server's settings are then as they were.
//!
//! One thread works here, because the server needs the other core. The server is the one at `SEMEL_TEST_REDIS`, or at
//! its usual port.

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use semel::{Begin, Once, store::redis::RedisStore};
use std::{
    fmt,
    time::{Duration, Instant},
};

const CALLERS: u64 = 64;
const PAIRS_PER_CALLER: u64 = 200;
const ROUNDS: usize = 25;
const ROUNDS_SYNCED: usize = 5;
/// What all names begin with.
const PREFIX: &str = "semel-bench";
/// The least share of the bare script's speed.
const SHARE_MIN: f64 = 0.8;

/// Writes if the value begins as expected.
const COMPARE: &str = "\
local stored = redis.call('GET', KEYS[1])
if stored and string.sub(stored, 1, 16) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1";
/// About what a record takes.
const VALUE_BYTES: usize = 140;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("SEMEL_TEST_REDIS").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let config = ConnectionManagerConfig::new()
        .set_response_timeout(Some(Duration::from_secs(10)))
        .set_pipeline_buffer_size(1_024);
    let client = redis::Client::open(url)?;
    let connection = ConnectionManager::new_with_config(client, config).await?;
    let store = RedisStore::new(connection.clone()).await?.with_prefix(PREFIX)?;
    let once = Once::builder().retention(Duration::from_mins(1)).store(store);
    let bench = Bench { connection, once };

    let found = bench.setting("appendonly").await?;
    let synced = bench.setting("appendfsync").await?;
    let measured = bench.without_and_with_a_file().await;
    // Also if it failed: the server may be somebody's.
    bench.set("appendfsync", &synced).await?;
    bench.set("appendonly", &found).await?;

    if measured? < SHARE_MIN {
        return Err(format!("less than {SHARE_MIN} of the bare script").into());
    }
    Ok(())
}

/// The library, and the client that it uses.
struct Bench {
    connection: ConnectionManager,
    once: Once,
}

impl Bench {
    async fn setting(&self, name: &str) -> Result<String, Failure> {
        let mut command = redis::cmd("CONFIG");
        let (_, value): (String, String) =
            command.arg("GET").arg(name).query_async(&mut self.connection.clone()).await?;
        Ok(value)
    }

    async fn set(&self, name: &str, value: &str) -> Result<(), Failure> {
        let mut command = redis::cmd("CONFIG");
        Ok(command.arg("SET").arg(name).arg(value).query_async(&mut self.connection.clone()).await?)
    }

    /// Measures twice, and gives our share of the bare script's speed without an append-only file.
    async fn without_and_with_a_file(&self) -> Result<f64, Failure> {
        self.set("appendonly", "no").await?;
        println!("without an append-only file:");
        let share = self.measure(ROUNDS).await?;
        self.set("appendfsync", "always").await?;
        self.set("appendonly", "yes").await?;
        println!("with one that is synced before each answer:");
        self.measure(ROUNDS_SYNCED).await?;
        Ok(share)
    }

    /// Prints what so many rounds took, and gives our share of the bare script's speed.
    async fn measure(&self, rounds: usize) -> Result<f64, Failure> {
        let Self { connection, once } = self;
        let (empty, compare) = (redis::Script::new("return 1"), redis::Script::new(COMPARE));
        for script in [&empty, &compare] {
            script.prepare_invoke().load_async(&mut connection.clone()).await?;
        }
        let bare_pairs = {
            let (connection, hash) = (connection.clone(), empty.get_hash().to_owned());
            move |_, _| bare_pair(connection.clone(), hash.clone())
        };
        let pairs = |run: u64| {
            let once = once.clone();
            move |caller, number| pair_of(once.clone(), (run, caller, number))
        };
        let replays = |run: u64| {
            let once = once.clone();
            move |caller, number| replay_of(once.clone(), (run, caller, number))
        };
        let by_hand = |run: u64| {
            let (connection, hash) = (connection.clone(), compare.get_hash().to_owned());
            move |caller, number| {
                by_hand(connection.clone(), hash.clone(), format!("{PREFIX}:hand:{run}:{caller}:{number}"))
            }
        };
        let (mut bare, mut library, mut replayed) = (Vec::new(), Vec::new(), Vec::new());
        let mut hand = Vec::new();
        for _ in 0..rounds {
            let run = fastrand::u64(..);
            hand.push(turn(connection, by_hand(run)).await?);
            bare.push(turn(connection, bare_pairs.clone()).await?);
            library.push(turn(connection, pairs(run)).await?);
            replayed.push(turn(connection, replays(run)).await?);
            self.remove().await?;
        }
        println!("  pairs of bare EVALSHA     {}", Turn::middle(&bare));
        println!("  the same by hand          {}", Turn::middle(&hand));
        println!("  claim and completion      {}", Turn::middle(&library));
        println!("  replay (one round trip)   {}", Turn::middle(&replayed));
        let share = median(library.iter().zip(&bare).map(|(ours, bare)| ours.rate / bare.rate));
        let of_hand = median(library.iter().zip(&hand).map(|(ours, hand)| ours.rate / hand.rate));
        println!(
            "  claim and completion: {share:.2} of the bare pairs, {of_hand:.2} of those by hand, turn by turn"
        );
        Ok(share)
    }

    /// Removes what was written.
    async fn remove(&self) -> Result<(), Failure> {
        let mut from = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(from).arg("MATCH").arg(format!("{PREFIX}:*")).arg("COUNT").arg(1_000);
            let (next, names): (u64, Vec<Vec<u8>>) = scan.query_async(&mut self.connection.clone()).await?;
            if !names.is_empty() {
                let mut unlink = redis::cmd("UNLINK");
                let _: u64 = unlink.arg(names).query_async(&mut self.connection.clone()).await?;
            }
            if next == 0 {
                return Ok(());
            }
            from = next;
        }
    }
}

/// What one turn took.
struct Turn {
    /// Pairs per second, by all callers together.
    rate: f64,
    /// Commands per pair, with those that scripts send.
    commands: f64,
    /// Processor time per pair in microseconds: ours, and the server's.
    ours: f64,
    servers: f64,
}

impl Turn {
    /// The median of each.
    fn middle(turns: &[Self]) -> Self {
        Self {
            rate: median(turns.iter().map(|it| it.rate)),
            commands: median(turns.iter().map(|it| it.commands)),
            ours: median(turns.iter().map(|it| it.ours)),
            servers: median(turns.iter().map(|it| it.servers)),
        }
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, commands, ours, servers } = self;
        write!(f, "{rate:>8.0} /s   {commands:>4.2} commands   ")?;
        write!(f, "processor time {ours:>5.1} µs here, {servers:>5.1} µs at the server")
    }
}

/// All callers do their pairs.
async fn turn<P, F>(connection: &ConnectionManager, pair: P) -> Result<Turn, Failure>
where
    P: Fn(u64, u64) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), Failure>> + Send,
{
    let (told, ours) = (Told::by(connection).await?, our_micros());
    let start = Instant::now();
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let pair = pair.clone();
        callers.push(tokio::spawn(async move {
            for number in 0..PAIRS_PER_CALLER {
                pair(caller, number).await?;
            }
            Ok::<(), Failure>(())
        }));
    }
    for caller in callers {
        caller.await??;
    }
    let pairs = (CALLERS * PAIRS_PER_CALLER) as f64;
    let (took, ours, later) = (start.elapsed(), our_micros() - ours, Told::by(connection).await?);
    Ok(Turn {
        rate: pairs / took.as_secs_f64(),
        commands: (later.commands - told.commands - 1.0) / pairs,
        ours: ours / pairs,
        servers: (later.micros - told.micros) / pairs,
    })
}

/// The processor time that this process has used, where Linux tells.
fn our_micros() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let told = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        told.split(' ').next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1_000.0
}

/// What the server tells of its work.
struct Told {
    /// The processor time that it has used.
    micros: f64,
    /// How many commands it has carried out, with those that scripts sent.
    commands: f64,
}

impl Told {
    async fn by(connection: &ConnectionManager) -> Result<Self, Failure> {
        let told: String = redis::cmd("INFO").query_async(&mut connection.clone()).await?;
        let sum = |names: &[&str]| -> f64 {
            let fields = told.lines().filter_map(|line| line.split_once(':'));
            let numbers = fields.filter(|it| names.contains(&it.0)).map(|it| it.1.trim().parse::<f64>());
            numbers.flatten().sum()
        };
        Ok(Self {
            micros: sum(&["used_cpu_sys", "used_cpu_user"]) * 1_000_000.0,
            commands: sum(&["total_commands_processed"]),
        })
    }
}

async fn bare_pair(mut connection: ConnectionManager, hash: String) -> Result<(), Failure> {
    for _ in 0..2 {
        let mut command = redis::cmd("EVALSHA");
        let _: i64 = command.arg(&hash).arg(0).query_async(&mut connection).await?;
    }
    Ok(())
}

async fn by_hand(mut connection: ConnectionManager, hash: String, name: String) -> Result<(), Failure> {
    let value = "1".repeat(VALUE_BYTES);
    let mut claim = redis::cmd("SET");
    let _: Option<String> =
        claim.arg(&name).arg(&value).arg("NX").arg("GET").query_async(&mut connection).await?;
    let mut complete = redis::cmd("EVALSHA");
    let complete = complete.arg(&hash).arg(1).arg(&name).arg(&value[..16]).arg(&value).arg(60_000);
    let _: i64 = complete.query_async(&mut connection).await?;
    Ok(())
}

async fn pair_of(once: Once, id: (u64, u64, u64)) -> Result<(), Failure> {
    match once.call("bench", id).begin().await? {
        Begin::Run(lease) => Ok(lease.complete(&()).await?),
        other => Err(format!("a fresh call was answered with {other:?}").into()),
    }
}

async fn replay_of(once: Once, id: (u64, u64, u64)) -> Result<(), Failure> {
    match once.call("bench", id).begin().await? {
        Begin::Replay(_) => Ok(()),
        other => Err(format!("a finished call was answered with {other:?}").into()),
    }
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
