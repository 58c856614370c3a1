//! Rules about many callers at once.

use super::sample::{HOUR, completed, expect_stored, fresh_key, load, running, swap, write};
use crate::join::join_all;
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{Store, Swap},
};
use std::{
    future::poll_fn,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
    time::Duration,
};

const CALLERS: u128 = 16;
const GENERATIONS: u32 = 8;
const KEYS: usize = 64;

/// Of many who expect the same fence, exactly one wins, and the others are shown what it wrote.
pub async fn concurrent_swaps_have_one_winner_per_generation(store: &dyn Store) {
    let key = fresh_key("generations");
    let mut fence = write(store, &key, None, &running(store, 0)).await;
    for _ in 0..GENERATIONS {
        fence = race(store, &key, Some(fence)).await;
    }
}

/// Of many who create the same key, exactly one does.
pub async fn concurrent_creations_have_one_winner(store: &dyn Store) {
    for _ in 0..GENERATIONS {
        race(store, &fresh_key("creation"), None).await;
    }
}

async fn race(store: &dyn Store, key: &Key, expected: Option<Fence>) -> Fence {
    let records: Vec<Record> = (1..=CALLERS).map(|holder| running(store, holder)).collect();
    let swaps = records.iter().map(|it| Box::pin(swap(store, key, expected, it)) as BoxFuture<'_, Swap>);
    let swaps = join_all(swaps.collect()).await;
    judge(&swaps, &records, load(store, key).await.as_ref())
}

/// Demands one winner, whose record is what everybody else was shown and what is stored.
fn judge(swaps: &[Swap], records: &[Record], stored: Option<&Stored>) -> Fence {
    let won = |it: &(&Swap, &Record)| match it.0 {
        Swap::Won(fence) => Some(Stored { fence: *fence, record: it.1.clone() }),
        Swap::Lost(_) => None,
    };
    let winners: Vec<Stored> = swaps.iter().zip(records).filter_map(|it| won(&it)).collect();
    let [winner] = &winners[..] else { panic!("{} callers won the same swap", winners.len()) };
    assert_eq!(stored, Some(winner), "the record is not the winner's");
    for swap in swaps {
        let Swap::Lost(shown) = swap else { continue };
        assert_eq!(shown.as_ref(), Some(winner), "a loser was shown something else");
    }
    winner.fence
}

/// Many keys, begun and finished side by side, all hold what was written under them.
pub async fn many_keys_at_once_are_all_kept(store: &dyn Store) {
    let calls = (0..KEYS).map(|number| Box::pin(begin_and_finish(store, number)) as BoxFuture<'_, _>);
    for (key, fence, record) in join_all(calls.collect()).await {
        expect_stored(store, &key, fence, &record).await;
    }
}

async fn begin_and_finish(store: &dyn Store, number: usize) -> (Key, Fence, Record) {
    let key = fresh_key(&format!("parallel-{number}"));
    let begun = write(store, &key, None, &running(store, number as u128)).await;
    let record = completed(store, number.to_string().as_bytes(), store.clock().now() + HOUR);
    let done = write(store, &key, Some(begun), &record).await;
    (key, done, record)
}

/// The clock's monotonic time never goes back, and who sleeps for no time wakes.
pub async fn the_clock_goes_on_and_wakes_sleepers(store: &dyn Store) {
    let clock = store.clock();
    let before = clock.monotonic();
    clock.sleep(Duration::ZERO).await;
    assert!(clock.monotonic() >= before, "the monotonic clock went back");
}

/// The rules about many callers at once, with a task for each: `spawn` starts one on the store's runtime.
///
/// ```
/// use semel::MemoryStore;
/// use semel_testkit::conformance;
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// conformance::contended(Arc::new(MemoryStore::new()), |task| { tokio::spawn(task); }).await;
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A task that panics or is dropped breaks the rule, as a caller that the store lost.
pub async fn contended(store: Arc<dyn Store>, spawn: impl Fn(BoxFuture<'static, ()>)) {
    let key = fresh_key("tasks");
    let mut expected = None;
    for _ in 0..GENERATIONS {
        let records: Vec<Record> = (1..=CALLERS).map(|holder| running(&*store, holder)).collect();
        let swaps = records.iter().map(|record| {
            let (store, key, record) = (Arc::clone(&store), key.clone(), record.clone());
            Box::pin(async move { swap(&*store, &key, expected, &record).await }) as BoxFuture<'static, Swap>
        });
        let swaps = spawned(swaps.collect(), &spawn).await;
        expected = Some(judge(&swaps, &records, load(&*store, &key).await.as_ref()));
    }
    let calls = (0..KEYS).map(|number| {
        let store = Arc::clone(&store);
        Box::pin(async move { begin_and_finish(&*store, number).await }) as BoxFuture<'static, _>
    });
    for (key, fence, record) in spawned(calls.collect(), &spawn).await {
        expect_stored(&*store, &key, fence, &record).await;
    }
}

/// What the tasks have given so far, who waits for them, and how many still hold on to this.
struct Gathered<T> {
    outputs: Vec<Option<T>>,
    left: usize,
    waker: Option<Waker>,
}

/// Counts a task as gone when it ends, panics or is dropped.
struct Ticket<T>(Arc<Mutex<Gathered<T>>>);

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        let mut gathered = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        gathered.left -= 1;
        if let Some(waker) = gathered.waker.take() {
            waker.wake();
        }
    }
}

/// Runs each future as a task of its own, and gives their outputs in order.
pub(super) async fn spawned<T: Send + 'static>(
    futures: Vec<BoxFuture<'static, T>>,
    spawn: &impl Fn(BoxFuture<'static, ()>),
) -> Vec<T> {
    let outputs = futures.iter().map(|_| None).collect();
    let gathered = Arc::new(Mutex::new(Gathered { outputs, left: futures.len(), waker: None }));
    for (index, future) in futures.into_iter().enumerate() {
        let ticket = Ticket(Arc::clone(&gathered));
        spawn(Box::pin(async move {
            let output = future.await;
            ticket.0.lock().expect("no task panics while it holds this").outputs[index] = Some(output);
        }));
    }
    poll_fn(|context| {
        let mut gathered = gathered.lock().expect("no task panics while it holds this");
        gathered.waker = Some(context.waker().clone());
        if gathered.left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let outputs = std::mem::take(&mut gathered.lock().expect("every task is over").outputs);
    outputs.into_iter().map(|it| it.expect("a caller panicked or was dropped: see above")).collect()
}
