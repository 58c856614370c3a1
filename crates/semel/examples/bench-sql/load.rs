//! Many callers at once, for a while.

use crate::Trouble;
use semel::{Key, Record, State, Status, Store, Swap, Timestamp};
use semel_core::record::Body;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

pub(crate) const CALLERS: usize = 64;
pub(crate) const ROUND: Duration = Duration::from_secs(3);
pub(crate) const ROUNDS: usize = 3;
/// As long as a small JSON result.
pub(crate) const RESULT: &[u8] = &[b'x'; 64];

/// A number that no other call of this run has.
pub(crate) fn fresh() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// Calls per second of so many callers, each of which calls again as soon as it is answered.
pub(crate) async fn rate<F, C>(call: C) -> Result<f64, Trouble>
where
    F: Future<Output = Result<(), Trouble>> + Send + 'static,
    C: Fn() -> F + Clone + Send + Sync + 'static,
{
    let (start, count) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (call, count) = (call.clone(), Arc::clone(&count));
        callers.spawn(async move {
            while start.elapsed() < ROUND {
                call().await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, Trouble>(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

/// A record as a claim writes it, and as its completion does.
fn records(now: Timestamp) -> (Record, Record) {
    let claimed = Record {
        fingerprint: semel::Fingerprint::EMPTY,
        state: State::InProgress {
            holder: semel::Holder(u128::from(fresh())),
            lease_until: now + Duration::from_mins(1),
            place: semel::Place::Here,
            on_lapse: semel::OnLapse::Rerun,
        },
        attempts: 1,
        created_at: now,
        updated_at: now,
        expires_at: Timestamp::NEVER,
    };
    let expires_at = now + Duration::from_hours(24 * 7);
    let body = Body::Kept { bytes: RESULT.to_vec(), until: expires_at };
    let completed = Record { state: State::Completed(body), expires_at, ..claimed.clone() };
    debug_assert_eq!(completed.status(), Status::Completed);
    (claimed, completed)
}

/// One claim and one completion of a fresh key.
pub(crate) async fn pair(store: &dyn Store) -> Result<(), Trouble> {
    let key = Key::new("bench", fresh())?;
    let (claimed, completed) = records(store.clock().now());
    let Swap::Won(fence) = store.swap(&key, None, &claimed).await? else {
        return Err("the key was taken".into());
    };
    let Swap::Won(_) = store.swap(&key, Some(fence), &completed).await? else {
        return Err("superseded".into());
    };
    Ok(())
}

/// A duplicate of a completed call.
pub(crate) async fn replay(store: &dyn Store, key: &Key) -> Result<(), Trouble> {
    let (claimed, _) = records(store.clock().now());
    let Swap::Lost(Some(_)) = store.swap(key, None, &claimed).await? else {
        return Err("not a duplicate".into());
    };
    Ok(())
}

/// Prints two rates and what they are to each other.
pub(crate) fn compare(what: &str, ours: f64, beside: &str, theirs: f64) {
    println!("{what:<34} {ours:>9.0}/s   {beside:<40} {theirs:>9.0}/s   ratio {:.2}", ours / theirs);
}
