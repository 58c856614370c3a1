//! Callers.

use crate::machine::cpu_seconds;
use semel_core::{
    BoxFuture,
    call::{self, Call, Decision, Terms},
    fingerprint::Fingerprint,
    key::Key,
    record::{Body, Holder, OnLapse, Place, Record},
    store::{Store, Swap},
    time::{Clock, Timestamp},
};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

/// The retention of what [`fill_briefly`] writes.
pub(crate) const BRIEF: Duration = Duration::from_hours(1);

/// The system's time, and what is added to it by hand.
#[derive(Clone)]
pub(crate) struct Clocked {
    began: Instant,
    ahead_millis: Arc<AtomicU64>,
}

impl Clocked {
    pub(crate) fn new() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), ahead_millis: Arc::new(AtomicU64::new(since.as_millis() as u64)) }
    }

    pub(crate) fn arc(&self) -> Arc<dyn Clock> {
        Arc::new(self.clone())
    }

    pub(crate) fn advance(&self, duration: Duration) {
        self.ahead_millis.fetch_add(duration.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for Clocked {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.ahead_millis.load(Ordering::Relaxed)) + self.began.elapsed()
    }
    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

pub(crate) struct Load {
    pub(crate) per_second: f64,
    pub(crate) cpu_micros: f64,
}

static NEXT: AtomicU64 = AtomicU64::new(1 << 40);

fn key(number: u64) -> Key {
    Key::new("process-order", format!("evt-{number:016}")).expect("this is a key")
}

fn claim(now: Timestamp, terms: &Terms, holder: u64) -> Record {
    let call = Call {
        fingerprint: Fingerprint::EMPTY,
        holder: Holder(holder.into()),
        place: Place::Here,
        on_lapse: OnLapse::Rerun,
    };
    match call::begin(now, None, &call, terms) {
        Decision::Run { record, .. } => record,
        other => unreachable!("nothing was found, so it runs: {other:?}"),
    }
}

fn complete(now: Timestamp, claimed: &Record, terms: &Terms) -> Record {
    let body = Body::Kept { bytes: b"{\"charge\":\"ch_1\"}".to_vec(), until: now + terms.body_retention };
    call::complete(now, claimed, body, terms)
}

async fn pair(store: &dyn Store, clock: &dyn Clock, number: u64, terms: &Terms) {
    let key = key(number);
    let claimed = claim(clock.now(), terms, number);
    let Ok(Swap::Won(fence)) = store.swap(&key, None, &claimed).await else { panic!("a fresh key is won") };
    let completed = complete(clock.now(), &claimed, terms);
    let Ok(Swap::Won(_)) = store.swap(&key, Some(fence), &completed).await else {
        panic!("the holder completes")
    };
}

/// So many callers, each claiming and completing one fresh key after another.
pub(crate) async fn pairs(store: Arc<dyn Store>, callers: usize, turn: Duration) -> Load {
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let mut tasks = Vec::new();
    for _ in 0..callers {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            let (clock, terms) = (store.clock(), Terms::default());
            let mut count = 0_u64;
            while began.elapsed() < turn {
                pair(&*store, &*clock, NEXT.fetch_add(1, Ordering::Relaxed), &terms).await;
                count += 1;
            }
            count
        }));
    }
    let mut count = 0;
    for task in tasks {
        count += task.await.expect("callers do not panic");
    }
    let count = count as f64;
    Load {
        per_second: count / began.elapsed().as_secs_f64(),
        cpu_micros: (cpu_seconds() - cpu) * 1e6 / count,
    }
}

/// Completed records under these numbers.
pub(crate) async fn fill(store: Arc<dyn Store>, numbers: Range<u64>) {
    fill_with(store, numbers, Terms::default()).await;
}

/// The same, to expire soon.
pub(crate) async fn fill_briefly(store: Arc<dyn Store>, numbers: Range<u64>) {
    fill_with(store, numbers, Terms { retention: BRIEF, ..Terms::default() }).await;
}

async fn fill_with(store: Arc<dyn Store>, numbers: Range<u64>, terms: Terms) {
    const FILLERS: u64 = 1024;
    let mut tasks = Vec::new();
    for filler in 0..FILLERS {
        let (store, numbers, terms) = (Arc::clone(&store), numbers.clone(), terms.clone());
        tasks.push(tokio::spawn(async move {
            let clock = store.clock();
            for number in numbers.skip(filler as usize).step_by(FILLERS as usize) {
                let completed = complete(clock.now(), &claim(clock.now(), &terms, number), &terms);
                let swap = store.swap(&key(number), None, &completed).await;
                assert!(matches!(swap, Ok(Swap::Won(_))), "a fresh key is won: {swap:?}");
            }
        }));
    }
    for task in tasks {
        task.await.expect("fillers do not panic");
    }
}

/// Two callers that look these keys up in no particular order; how many a second, together.
pub(crate) async fn reads(store: Arc<dyn Store>, numbers: Range<u64>, known: bool) -> f64 {
    const EACH: u64 = 300_000;
    let began = Instant::now();
    let reader = |reader: u64| {
        let (store, numbers) = (Arc::clone(&store), numbers.clone());
        tokio::spawn(async move {
            let span = numbers.end - numbers.start;
            for turn in 0..EACH {
                let number = numbers.start + (turn * 2 + reader).wrapping_mul(0x9E37_79B9_7F4A_7C15) % span;
                let found = store.load(&key(number)).await.expect("the store answers");
                assert_eq!(found.is_some(), known, "key {number}");
            }
        })
    };
    for task in [reader(0), reader(1)] {
        task.await.expect("readers do not panic");
    }
    (EACH * 2) as f64 / began.elapsed().as_secs_f64()
}

/// Removes what has expired; how many records that was.
pub(crate) async fn purge(store: &dyn Store) -> u32 {
    store.purge(store.clock().now(), u32::MAX).await.expect("the store purges")
}
