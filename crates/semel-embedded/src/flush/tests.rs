//! Values that change while they move.

use crate::{
    bucket::{Builder, Found},
    disk::{OsDisk, SLICE_BYTES},
    engine::{Applied, Change, Engine, Options},
    frame::Kind,
    gate::{Gate, GatedDisk},
    lock,
    owner::Owner as _,
    queue::{EmbeddedQueue, done},
    spares::Purpose,
    store::Records,
};
use semel_core::{
    execution::{Arrival, Execution, Input, Origin, step},
    fence::Fence,
    fingerprint::Fingerprint,
    key::{Identity, Key},
    queue::{self, Demand, Queue as _, Want, Written},
    record::{Body, Holder},
    retry::{Jitter, RetryPolicy},
    time::Timestamp,
};
use semel_testkit::ManualClock;
use std::{
    fs::File,
    sync::{Arc, OnceLock},
    time::Duration,
};

#[test]
fn what_is_forgotten_while_it_moves_does_not_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let gate = Gate::default();
    let disk = Arc::new(GatedDisk(OsDisk::new(directory.path()), gate.clone()));
    let options = Options { segment_bytes: 4096, flush_segments: 1, backlog_segments_max: 8 };
    let engine = Arc::new(Engine::<Records>::open(disk, clock.arc(), options).unwrap());
    let key = Key::new("moving", 1).unwrap();
    let write = move |engine: &Engine<Records>, expected, expires_at| {
        let change =
            Change { identity: key.identity(), expected, expires_at, kind: Kind::Settled, payload: b"value" };
        match engine.apply(&change, |_| None).unwrap() {
            Applied::Won { fence, .. } => fence,
            Applied::Lost(found) => panic!("{found:?} is there"),
        }
    };
    let roll = |engine: &Engine<Records>| engine.roll(&mut lock(&engine.state), Purpose::Known).unwrap();

    let now = clock.arc().now();
    let first = write(&engine, None, now + Duration::from_hours(1));
    roll(&engine);
    let forgotten = Arc::new(OnceLock::new());
    gate.hook("building-", {
        let (engine, forgotten, write) = (Arc::clone(&engine), Arc::clone(&forgotten), write.clone());
        move || forgotten.set(write(&engine, Some(first), now)).unwrap()
    });
    engine.flush().unwrap();
    roll(&engine);
    clock.advance(Duration::from_secs(1));
    engine.flush().unwrap();

    let found = engine.load(Key::new("moving", 1).unwrap().identity()).unwrap();
    assert_eq!(found.map(|it| it.fence).as_ref(), forgotten.get(), "an older value came back");
    write(&engine, forgotten.get().copied(), Timestamp::NEVER);
}

fn waiting(number: u64, now: Timestamp) -> Execution {
    let arrival = Arrival {
        key: Key::new("moving", number).unwrap(),
        function: "moving".into(),
        origin: Origin { source: "/moving".into(), id: number.to_string().into(), kind: "moved".into() },
        order: None,
        fingerprint: Fingerprint::of_bytes(&number.to_le_bytes()),
        event: vec![number as u8; 500].into(),
        event_time: None,
        event_expires_at: None,
    };
    Execution::accepted(now, arrival, now)
}

/// Claims whatever is first, and completes it.
fn complete_one(queue: &EmbeddedQueue, now: Timestamp) {
    let want = Want { function: "moving".into(), limit: 1, lease: Duration::from_mins(1) };
    let demand = Demand { holder: Holder(1), wants: vec![want] };
    let held = done(queue, queue.claim(&demand)).unwrap().remove(0);
    let body = Body::Kept { bytes: b"done".to_vec(), until: now };
    let after = step(now, &held.value, Input::Complete(body), &RetryPolicy::gen2(), Jitter::LEAST).unwrap();
    let written =
        done(queue, queue.write(&[queue::Change { expected: held.fence, after, causes: Vec::new() }]))
            .unwrap();
    assert!(matches!(written[..], [Written::Won(_)]));
}

#[test]
fn what_is_completed_while_it_moves_never_waits_again() {
    const EVENTS: u64 = 4;
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let gate = Gate::default();
    let open = || {
        let disk = GatedDisk(OsDisk::new(directory.path()), gate.clone());
        let options = Options { segment_bytes: 4096, flush_segments: 1, backlog_segments_max: 8 };
        let lock = Arc::new(File::open("/dev/null").unwrap());
        let queue = EmbeddedQueue::idle(Arc::new(disk), lock, clock.arc(), options).unwrap();
        // Who does not rest makes no file of the journal meanwhile: which file tells what would depend on the machine's speed.
        queue.engine.pace.close();
        Arc::new(queue)
    };
    let queue = open();
    let now = clock.arc().now();
    let roll =
        |queue: &EmbeddedQueue| queue.engine.roll(&mut lock(&queue.engine.state), Purpose::Known).unwrap();
    let new: Vec<_> = (0..EVENTS).map(|it| waiting(it, now)).collect();
    done(&queue, queue.accept(&new)).unwrap();
    roll(&queue);
    gate.hook("waiting-", {
        let queue = Arc::clone(&queue);
        move || {
            complete_one(&queue, now);
            queue.engine.roll(&mut lock(&queue.engine.state), Purpose::Known).unwrap();
        }
    });

    // One is completed while a file of those that wait is made, and the file of the journal that says so is moved next.
    queue.engine.flush().unwrap();
    assert!(gate.has_called(), "a file of those that wait was made");
    queue.engine.flush().unwrap();
    drop(queue);

    let queue = open();
    assert_eq!(done(&queue, queue.counts()).unwrap()[0].pending, EVENTS - 1);
    for _ in 1..EVENTS {
        complete_one(&queue, now);
    }
    let want = Want { function: "moving".into(), limit: 10, lease: Duration::from_mins(1) };
    let demand = Demand { holder: Holder(1), wants: vec![want] };
    let again = done(&queue, queue.claim(&demand)).unwrap();
    assert!(again.is_empty(), "what was completed waits again: {again:?}");
}

#[test]
fn who_moves_the_journal_rests_and_makes_its_next_file_meanwhile() {
    const VALUES: u64 = 5_000;
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let options = Options { segment_bytes: 64 << 10, flush_segments: 1, backlog_segments_max: 1_000 };
    let disk = Arc::new(OsDisk::new(directory.path()));
    let engine = Engine::<Records>::open(disk, clock.arc(), options).unwrap();
    let expires_at = clock.arc().now() + Duration::from_hours(1);
    for number in 0..VALUES {
        let key = Key::new("moving", number).unwrap();
        let (identity, payload) = (key.identity(), &[1; 100]);
        let change = Change { identity, expected: None, expires_at, kind: Kind::Settled, payload };
        assert!(matches!(engine.apply(&change, |_| None).unwrap(), Applied::Won { .. }));
    }
    assert!(lock(&engine.state).next.is_none());

    engine.flush().unwrap();

    assert!(engine.pace.rests() > 0, "it took a processor for itself");
    assert!(lock(&engine.state).next.is_some(), "whoever fills the journal next has to make a file first");
}

#[test]
fn a_file_that_is_built_holds_up_nobodys_sync_for_more_than_a_slice() {
    const SLICES: usize = 5;
    let directory = tempfile::tempdir().unwrap();
    let gate = Gate::default();
    let disk = GatedDisk(OsDisk::new(directory.path()), gate.clone());
    let mut builder = Builder::new(&disk, &Records::LAYOUT, Timestamp::NEVER, 1, 1).unwrap();
    let mut identities: Vec<Identity> =
        (0..2 * SLICES).map(|it| *Key::new("built", it).unwrap().identity()).collect();
    identities.sort_unstable();
    for identity in identities {
        let payload = vec![1; SLICE_BYTES / 2];
        let fence = Fence::new(1).unwrap();
        let columns = Records::columns(&identity, &payload);
        builder.push(&Found { identity, fence, expires_at: Timestamp::NEVER, payload }, &columns).unwrap();
    }
    assert_eq!(gate.syncs(), SLICES);
    assert_eq!(builder.finish(&[]).unwrap().rows, 2 * SLICES);
}

/// Which of buckets with so many rows, of a kilobyte each, become one.
fn check_chosen(rows: &[usize], is_endless: bool, expected: &[usize]) {
    let sizes: Vec<_> = rows.iter().map(|it| super::Size { rows: *it, bytes: *it as u64 * 1_024 }).collect();
    assert_eq!(super::chosen(&sizes, is_endless), expected);
}

#[test]
fn what_a_journal_of_ordinary_values_becomes_is_not_written_twice() {
    check_chosen(&[100_000; super::MANY_MAX], false, &[]);
}

#[test]
fn more_than_a_few_small_files_become_one() {
    check_chosen(&[900, 100_000, 900, 900, 900], false, &[]);
    check_chosen(&[900, 100_000, 900, 900, 900, 900], false, &[0, 2, 3, 4, 5]);
    check_chosen(&[100_000; 5], true, &[0, 1, 2, 3, 4]);
}

#[test]
fn the_smallest_of_very_many_files_become_one_that_can_still_be_mapped() {
    let mut rows = [1_000_000; super::MANY_MAX + 1];
    (rows[3], rows[30]) = (60_000, 50_000);
    check_chosen(&rows, false, &[30, 3, 0, 1, 2, 4]);
    check_chosen(&[3_000_000; super::MANY_MAX + 1], false, &[]);
}
