//! Flipped bits: an error or the right answer, and the others go on.

use semel_core::{
    execution::{Arrival, Execution, Input, Origin, step},
    fingerprint::Fingerprint,
    key::Key,
    queue::{Change, Demand, Queue, Want, Written},
    record::{Body, Holder, Status},
    retry::{Jitter, RetryPolicy},
    store::StoreErrorKind,
    time::Timestamp,
};
use semel_embedded::{EmbeddedQueue, Options};
use semel_testkit::ManualClock;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

pub(super) const FUNCTION: &str = "bits";
const EVENTS: u64 = 90;

pub(super) fn event(number: u64, bytes: usize, now: Timestamp) -> Execution {
    let arrival = Arrival {
        key: Key::new(FUNCTION, number).unwrap(),
        function: FUNCTION.into(),
        origin: Origin { source: "/bits".into(), id: number.to_string().into(), kind: "bits".into() },
        order: None,
        fingerprint: Fingerprint::of_bytes(&number.to_le_bytes()),
        event: vec![number as u8; bytes].into(),
        event_time: None,
        event_expires_at: None,
    };
    Execution::accepted(now, arrival, now)
}

pub(super) fn completed(held: &Execution, now: Timestamp) -> Execution {
    let body = Body::Kept { bytes: b"done".to_vec(), until: now };
    step(now, held, Input::Complete(body), &RetryPolicy::gen2(), Jitter::LEAST).unwrap()
}

fn open(directory: &Path, clock: &ManualClock) -> Result<EmbeddedQueue, semel_core::store::StoreError> {
    let options = Options { segment_bytes: 16 << 10, flush_segments: 1, backlog_segments_max: 8 };
    EmbeddedQueue::builder(directory, clock.arc()).options(options).open()
}

fn demand(limit: u32) -> Demand {
    let want = Want { function: FUNCTION.into(), limit, lease: Duration::from_mins(1) };
    Demand { holder: Holder(1), wants: vec![want] }
}

/// A closed queue of which a third is finished, the rest waits, and everything has moved that can.
async fn sample() -> (tempfile::TempDir, ManualClock) {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let queue = open(directory.path(), &clock).unwrap();
    let now = queue.clock().now();
    for number in 0..EVENTS {
        drop(queue.accept(&[event(number, 700, now)]).await.unwrap());
        if number % 3 == 0 {
            let held = queue.claim(&demand(1)).await.unwrap().remove(0);
            let change =
                Change { expected: held.fence, after: completed(&held.value, now), causes: Vec::new() };
            drop(queue.write(&[change]).await.unwrap());
        }
    }
    // The present file of the journal, and the next.
    while count(directory.path(), "journal-") > 2 || count(directory.path(), "waiting-") == 0 {
        tokio::task::yield_now().await;
    }
    drop(queue);
    (directory, clock)
}

fn count(directory: &Path, start: &str) -> usize {
    files(&directory.join("queue")).iter().filter(|it| name(it).starts_with(start)).count()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path());
    let starts = ["journal-", "finished-", "waiting-", "FORMAT"];
    let mut files: Vec<_> = all.filter(|it| starts.iter().any(|start| name(it).starts_with(start))).collect();
    files.sort();
    files
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    fs::create_dir(to.path().join("queue")).unwrap();
    for file in fs::read_dir(from.join("queue")).unwrap().flatten() {
        fs::copy(file.path(), to.path().join("queue").join(file.file_name())).unwrap();
    }
    to
}

/// Opens the directory and asks for everything; whether somebody noticed the damage.
async fn is_noticed(directory: &Path, clock: &ManualClock, what: &str) -> bool {
    let queue = match open(directory, clock) {
        Ok(queue) => queue,
        Err(error) => {
            let expected = [StoreErrorKind::Corrupt, StoreErrorKind::Misconfigured, StoreErrorKind::Refused];
            assert!(expected.contains(&error.kind()), "{what}: {error}");
            return true;
        }
    };
    let mut noticed = 0;
    for number in 0..EVENTS {
        let new = event(number, 700, Timestamp::EPOCH);
        match queue.get(&[new.id()]).await {
            Err(_) => noticed += 1,
            Ok(found) => {
                let found = found[0]
                    .as_ref()
                    .unwrap_or_else(|| panic!("{what}: {number} is lost, and nobody says so"));
                assert_eq!(found.value.event, new.event, "{what}: {number} has another event");
                let is_done = found.value.status() == Status::Completed;
                assert_eq!(is_done, found.value.attempts > 0, "{what}: {number} stands elsewhere");
            }
        }
    }
    let handed_out = queue.claim(&demand(1_000)).await.unwrap_or_default().len() as u64;
    assert!(handed_out + noticed >= EVENTS * 2 / 3, "{what}: only {handed_out} go on, {noticed} are damaged");
    noticed > 0
}

#[tokio::test]
async fn no_flipped_bit_gives_a_wrong_answer_or_stops_the_others() {
    const FLIPS: usize = 20;
    let (directory, clock) = sample().await;
    let mut random = fastrand::Rng::with_seed(25);
    let (mut noticed, mut flips) = (0, 0);
    for file in files(&directory.path().join("queue")) {
        let length = fs::metadata(&file).unwrap().len() as usize;
        for flip in 0..FLIPS {
            let damaged = copy(directory.path());
            let path = damaged.path().join("queue").join(name(&file));
            let mut bytes = fs::read(&path).unwrap();
            let at = if flip % 2 == 0 { flip * length / FLIPS } else { random.usize(..length) };
            bytes[at] ^= 1 << random.u8(..8);
            fs::write(&path, bytes).unwrap();
            let what = format!("byte {at} of {}", name(&file));
            noticed += u32::from(is_noticed(damaged.path(), &clock, &what).await);
            flips += 1;
        }
    }
    println!("{flips} flips, of which {noticed} were noticed; the others did not matter");
    assert!(noticed > flips / 10, "only {noticed} of {flips} flips were noticed");
}

/// Flips a bit in the event of one that waits.
fn damage_one(directory: &Path) {
    // The event of one that waits: a third of them, the first, are finished.
    let event = [EVENTS as u8 / 3 + 5; 700];
    let place = files(&directory.join("queue")).into_iter().find_map(|path| {
        let bytes = fs::read(&path).unwrap();
        let at = bytes.windows(event.len()).position(|it| it == event)?;
        name(&path).starts_with("waiting-").then_some((path, bytes, at + event.len() / 2))
    });
    let (path, mut bytes, at) = place.expect("it waits in a file of those that wait");
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
}

#[tokio::test]
async fn an_execution_that_cannot_be_read_is_told_and_the_others_are_handed_out() {
    let (directory, clock) = sample().await;
    damage_one(directory.path());
    let queue = open(directory.path(), &clock).unwrap();
    let before = queue.counts().await.unwrap()[0].pending;
    let held = queue.claim(&demand(1_000)).await.unwrap().len() as u64;
    assert_eq!(held + queue.damaged().len() as u64, before);
    assert_eq!(queue.damaged().len(), 1, "{:?}", queue.damaged());
    assert!(queue.claim(&demand(1_000)).await.unwrap().is_empty(), "it is left alone");
    assert!(queue.counts().await.unwrap()[0].is_balanced());
}

/// Invariant 16, awa #388: all others come in the next round.
#[tokio::test]
async fn one_that_cannot_be_read_stops_neither_the_rescue_nor_the_purge_of_others() {
    let (directory, clock) = sample().await;
    damage_one(directory.path());
    let queue = open(directory.path(), &clock).unwrap();
    let others = queue.claim(&demand(1_000)).await.unwrap().len();
    assert_eq!((others as u64, queue.damaged().len()), (EVENTS * 2 / 3 - 1, 1));
    clock.advance(Duration::from_mins(2));
    let rescued = queue.claim(&demand(1_000)).await.unwrap();
    assert_eq!(rescued.len(), others, "their leases have lapsed");
    let now = queue.clock().now();
    let change = |expected, after| Change { expected, after, causes: Vec::new() };
    let changes: Vec<_> = rescued.iter().map(|it| change(it.fence, completed(&it.value, now))).collect();
    let written = queue.write(&changes).await.unwrap();
    assert!(written.iter().all(|it| matches!(it, Written::Won(_))), "{written:?}");
    clock.advance(Duration::from_hours(24 * 365));
    let mut purged = 0;
    while purged < EVENTS - 1 {
        let some = queue.purge(queue.clock().now(), 1_000).await.unwrap();
        assert!(some > 0, "{purged} of {EVENTS} are purged, and then no more");
        purged += u64::from(some);
    }
    let counts = queue.counts().await.unwrap().remove(0);
    assert!(counts.is_balanced() && counts.pending == 1, "{counts:?}");
}
