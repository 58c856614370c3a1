//! What has expired is counted once, by the housekeeper, whatever comes again meanwhile.

use crate::{
    disk::OsDisk,
    engine::Options,
    gate::{Gate, GatedDisk, Opener},
    lock,
    queue::{EmbeddedQueue, done},
    spares::Purpose,
};
use semel_core::{
    execution::{Arrival, Execution, Input, Origin, step},
    fingerprint::Fingerprint,
    key::Key,
    queue::{Accepted, Change, Counts, Demand, Queue as _, Want},
    record::{Body, Holder},
    retry::{Jitter, RetryPolicy},
    time::Timestamp,
};
use semel_testkit::ManualClock;
use std::{
    fs::File,
    ops::Range,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// Longer than the policy's.
const RETENTION: Duration = Duration::from_hours(24 * 90);

struct World {
    _directory: tempfile::TempDir,
    clock: ManualClock,
    gate: Gate,
    queue: Arc<EmbeddedQueue>,
}

impl World {
    /// A queue that has a housekeeper, or whose work is done by whoever asks for it.
    fn new(has_housekeeper: bool) -> Self {
        let (directory, clock, gate) = (tempfile::tempdir().unwrap(), ManualClock::new(), Gate::default());
        let disk = Arc::new(GatedDisk(OsDisk::new(directory.path()), gate.clone()));
        let options = Options { segment_bytes: 4096, flush_segments: 2, backlog_segments_max: 64 };
        let lock = Arc::new(File::open("/dev/null").unwrap());
        let queue = if has_housekeeper {
            EmbeddedQueue::on(disk, lock, clock.arc(), options, u64::MAX)
        } else {
            EmbeddedQueue::idle(disk, lock, clock.arc(), options)
        };
        Self { _directory: directory, clock, gate, queue: Arc::new(queue.unwrap()) }
    }

    fn now(&self) -> Timestamp {
        self.clock.arc().now()
    }

    /// Executions that are completed, and stand in a file.
    fn finish(&self, numbers: Range<u64>) {
        self.complete(numbers);
        self.roll();
        self.queue.engine.flush().unwrap();
    }

    /// Executions that are completed.
    fn complete(&self, numbers: Range<u64>) {
        let (now, count) = (self.now(), numbers.end - numbers.start);
        let new: Vec<_> = numbers.map(|it| execution(it, now)).collect();
        done(&self.queue, self.queue.accept(&new)).unwrap();
        let want = Want { function: "purged".into(), limit: count as u32, lease: Duration::from_mins(1) };
        let demand = Demand { holder: Holder(1), wants: vec![want] };
        let held = done(&self.queue, self.queue.claim(&demand)).unwrap();
        assert_eq!(held.len() as u64, count);
        let completed = held.into_iter().map(|it| {
            let body = Body::Kept { bytes: Vec::new(), until: now };
            let after = step(now, &it.value, Input::Complete(body), &RetryPolicy::gen2(), Jitter::LEAST);
            Change { expected: it.fence, after: after.unwrap(), causes: Vec::new() }
        });
        done(&self.queue, self.queue.write(&completed.collect::<Vec<_>>())).unwrap();
    }

    fn roll(&self) {
        let engine = &self.queue.engine;
        engine.roll(&mut lock(&engine.state), Purpose::Known).unwrap();
    }

    fn counts(&self) -> Counts {
        let counts = done(&self.queue, self.queue.counts()).unwrap().remove(0);
        assert!(counts.is_balanced(), "{counts:?}");
        counts
    }
}

fn execution(number: u64, now: Timestamp) -> Execution {
    let arrival = Arrival {
        key: Key::new("purged", number).unwrap(),
        function: "purged".into(),
        origin: Origin { source: "/purged".into(), id: number.to_string().into(), kind: "purged".into() },
        order: None,
        fingerprint: Fingerprint::of_bytes(&number.to_le_bytes()),
        event: vec![number as u8; 100].into(),
        event_time: None,
        event_expires_at: None,
    };
    Execution::accepted(now, arrival, now)
}

fn accept(queue: &EmbeddedQueue, new: &[Execution]) {
    let answers = done(queue, queue.accept(new)).unwrap();
    assert!(answers.iter().all(|it| matches!(it, Accepted::New(_))), "it had expired: {answers:?}");
}

#[test]
fn what_comes_again_while_it_is_counted_is_counted_once() {
    const EVENTS: u64 = 5;
    let world = World::new(false);
    world.finish(0..EVENTS);
    world.clock.advance(RETENTION);
    // The journal has become long: after the first row it is moved, and meanwhile everything comes again.
    world.complete(EVENTS..EVENTS + 1);
    (0..3).for_each(|_| world.roll());
    world.gate.hook("building-", {
        let (queue, now) = (Arc::clone(&world.queue), world.now());
        move || accept(&queue, &(0..EVENTS).map(|it| execution(it, now)).collect::<Vec<_>>())
    });
    done(&world.queue, world.queue.purge(world.now(), u32::MAX)).unwrap();
    assert!(world.gate.has_called(), "the journal was not moved while it was long");
    let counts = world.counts();
    assert_eq!((counts.accepted, counts.purged), (2 * EVENTS + 1, EVENTS));
    assert_eq!((counts.pending, counts.completed), (EVENTS, 1));
}

#[test]
fn what_comes_again_while_its_end_is_written_down_is_counted_once() {
    let world = World::new(false);
    let _opener = Opener(&world.gate);
    world.finish(0..1);
    world.clock.advance(RETENTION);
    let before = world.gate.syncs();
    world.gate.set_shut(true);
    let (queue, now) = (Arc::clone(&world.queue), world.now());
    let purging = thread::spawn(move || done(&queue, queue.purge(now, u32::MAX)).unwrap());
    while world.gate.syncs() == before {
        thread::yield_now();
    }
    let (queue, again) = (Arc::clone(&world.queue), execution(0, now));
    let accepting = thread::spawn(move || accept(&queue, &[again]));
    while world.queue.sizes().0 == 0 {
        thread::yield_now();
    }
    world.gate.set_shut(false);
    assert_eq!(purging.join().unwrap(), 1);
    accepting.join().unwrap();
    let counts = world.counts();
    assert_eq!((counts.accepted, counts.purged, counts.pending, counts.completed), (2, 1, 1, 0));
}

#[tokio::test]
async fn the_housekeeper_counts_what_expires_and_not_whoever_asks() {
    let world = World::new(true);
    world.finish(0..3);
    world.clock.advance(RETENTION);
    let name = Arc::new(Mutex::new(None));
    world.gate.hook("gone-", {
        let name = Arc::clone(&name);
        move || *lock(&name) = thread::current().name().map(str::to_owned)
    });
    assert_eq!(world.queue.purge(world.now(), u32::MAX).await.unwrap(), 3);
    assert_eq!(lock(&name).as_deref(), Some("semel-keep"));
}
