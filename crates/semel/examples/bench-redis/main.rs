//! What the library costs on Redis: `cargo run --release -p semel --features redis --example bench-redis`.
//!
//! Pairs of claim and completion by 64 callers, compared with as many pairs of bare `EVALSHA` of an empty script
//! through the same client, in turns. The server is the one at `SEMEL_TEST_REDIS`, or at its usual port.

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use semel::{Begin, Once, store::redis::RedisStore};
use std::time::{Duration, Instant};

const CALLERS: u64 = 64;
const PAIRS_PER_CALLER: u64 = 500;
const ROUNDS: usize = 9;
/// The least share of the bare script's speed.
const SHARE_MIN: f64 = 0.8;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("SEMEL_TEST_REDIS").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let config = ConnectionManagerConfig::new()
        .set_response_timeout(Some(Duration::from_secs(10)))
        .set_pipeline_buffer_size(1_024);
    let client = redis::Client::open(url)?;
    let connection = ConnectionManager::new_with_config(client, config).await?;
    let store = RedisStore::new(connection.clone()).await?.with_prefix("bench")?;
    let once = Once::builder().retention(Duration::from_mins(1)).store(store);
    let empty = redis::Script::new("return 1");
    let _: i64 = empty.invoke_async(&mut connection.clone()).await?;

    let (mut bare, mut library, mut replayed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(rate(|_, _| bare_pair(connection.clone(), empty.get_hash().to_owned())).await?);
        let run = fastrand::u64(..);
        library.push(rate(|caller, pair| pair_of(once.clone(), (run, caller, pair))).await?);
        replayed.push(rate(|caller, pair| replay_of(once.clone(), (run, caller, pair))).await?);
    }
    let (bare, library, replayed) = (median(bare), median(library), median(replayed));
    let share = library / bare;
    println!("pairs of bare EVALSHA     {bare:>8.0} /s");
    println!("claim and completion      {library:>8.0} /s   {share:.2} of the bare pairs");
    println!("replay (one round trip)   {replayed:>8.0} /s");
    if share < SHARE_MIN {
        return Err(format!("less than {SHARE_MIN} of the bare script").into());
    }
    Ok(())
}

/// Pairs per second, by all callers together.
async fn rate<F>(pair: impl Fn(u64, u64) -> F) -> Result<f64, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let start = Instant::now();
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let pairs: Vec<F> = (0..PAIRS_PER_CALLER).map(|number| pair(caller, number)).collect();
        callers.push(tokio::spawn(async move {
            for pair in pairs {
                pair.await?;
            }
            Ok::<(), Failure>(())
        }));
    }
    for caller in callers {
        caller.await??;
    }
    Ok((CALLERS * PAIRS_PER_CALLER) as f64 / start.elapsed().as_secs_f64())
}

async fn bare_pair(mut connection: ConnectionManager, hash: String) -> Result<(), Failure> {
    for _ in 0..2 {
        let mut command = redis::cmd("EVALSHA");
        let _: i64 = command.arg(&hash).arg(0).query_async(&mut connection).await?;
    }
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

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
