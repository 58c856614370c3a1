//! Power cuts under the queue.
//!
//! 1. Whatever a cut leaves is the queue as it was after some number of its changes, at least those that were
//!    answered, and a change with what it causes is one: an attempt that was handed out is counted, a fence
//!    is not issued again.
//! 2. What stands is counted, listed, and handed out if it is due: everything in memory comes back with it.

use super::{disk::CrashDisk, seeds};
use crate::{
    EmbeddedQueue, Options,
    disk::{Disk, OsDisk},
    queue::done,
};
use semel_core::{
    execution::{Arrival, Execution, Input, Origin, claimed, step},
    fence::Fence,
    fingerprint::Fingerprint,
    key::Key,
    queue::{Accepted, Change, Demand, Fenced, Filter, Queue, Want},
    record::{Body, Holder, Status},
    retry::{Jitter, RetryPolicy},
    time::{Clock, Timestamp},
};
use semel_testkit::ManualClock;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::Path,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How many events there are: few, so that they meet. Those above `CAUSES` are only ever caused.
const EVENTS: u64 = 24;
const CAUSES: u64 = 100;
const FUNCTIONS: [&str; 2] = ["one", "two"];

fn options() -> Options {
    Options { segment_bytes: 2048, flush_segments: 2, backlog_segments_max: 1000 }
}

fn open(disk: Arc<dyn Disk>, clock: &ManualClock) -> EmbeddedQueue {
    let lock = Arc::new(File::open("/dev/null").unwrap());
    let opened = EmbeddedQueue::idle(disk, lock, clock.arc(), options());
    opened.unwrap_or_else(|error| panic!("a cut left a queue that does not open: {error}"))
}

fn event(number: u64, now: Timestamp, due_at: Timestamp, bytes: usize) -> Execution {
    let function = FUNCTIONS[number as usize % 2];
    let arrival = Arrival {
        key: Key::new(function, number).unwrap(),
        function: function.into(),
        origin: Origin { source: "/power".into(), id: number.to_string().into(), kind: "cut".into() },
        order: number.is_multiple_of(3).then(|| format!("order {}", number % 2).into()),
        fingerprint: Fingerprint::of_bytes(&number.to_le_bytes()),
        event: vec![number as u8; bytes].into(),
        event_time: None,
        event_expires_at: None,
    };
    Execution::accepted(now, arrival, due_at)
}

type Snapshot = BTreeMap<u64, Fenced<Execution>>;

/// Everything that stands, read past the port, so that nothing waits for the disk.
fn snapshot(queue: &EmbeddedQueue) -> Snapshot {
    let numbers = (0..EVENTS).chain(CAUSES..CAUSES + EVENTS);
    let now = Timestamp::EPOCH;
    let found = numbers.filter_map(|number| {
        let key = event(number, now, now, 0).key;
        let value = queue.engine.load(key.identity()).expect("what a cut leaves answers")?;
        Some((number, EmbeddedQueue::shown(key.identity(), &value).expect("what a cut leaves reads")))
    });
    found.collect()
}

/// Changes that stand or fall together.
#[derive(Debug)]
struct Group {
    writes: Vec<(u64, Fenced<Execution>)>,
    accepted: u64,
}

#[derive(Default)]
struct Oracle {
    /// What stands for sure, and how many were ever accepted for sure.
    base: Snapshot,
    accepted: u64,
    /// What was done since.
    later: Vec<Group>,
    /// What had expired then may be gone.
    purged_at: Timestamp,
    highest: Option<Fence>,
}

impl Oracle {
    /// Everything that was done stands for sure.
    fn settle(&mut self, now: Snapshot) {
        self.accepted += self.later.drain(..).map(|it| it.accepted).sum::<u64>();
        self.base = now;
    }

    /// The first so many of the later changes stand for sure.
    fn settle_first(&mut self, count: usize) {
        for group in self.later.drain(..count) {
            self.accepted += group.accepted;
            self.base.extend(group.writes);
        }
    }

    /// Finds out what was done by comparing, and notes it, as these groups.
    fn note(
        &mut self,
        before: &Snapshot,
        after: &Snapshot,
        groups: &[Vec<u64>],
        accepts: impl Fn(u64) -> bool,
    ) {
        let mut made = Vec::new();
        for group in groups {
            let is_new = |it: &u64| after.get(it).map(|it| it.fence) != before.get(it).map(|it| it.fence);
            let writes: Vec<_> =
                group.iter().filter(|it| is_new(it)).map(|it| (*it, after[it].clone())).collect();
            let accepted = writes.iter().filter(|it| accepts(it.0)).count() as u64;
            if let Some(first) = writes.iter().map(|it| it.1.fence).min() {
                assert!(Some(first) > self.highest, "fences only grow");
                made.push((first, Group { writes, accepted }));
            }
        }
        made.sort_by_key(|it| it.0);
        let highest = made.iter().flat_map(|it| &it.1.writes).map(|it| it.1.fence).max();
        self.highest = self.highest.max(highest);
        self.later.extend(made.into_iter().map(|it| it.1));
    }

    /// After how many of the later changes this is what stands; and how many were accepted until then.
    fn find(&self, found: &Snapshot) -> (usize, u64) {
        let mut state = self.base.clone();
        let mut accepted = self.accepted;
        for done in 0..=self.later.len() {
            if self.is_like(&state, found) {
                return (done, accepted);
            }
            if let Some(group) = self.later.get(done) {
                state.extend(group.writes.iter().cloned());
                accepted += group.accepted;
            }
        }
        let short = |it: &Snapshot| -> BTreeMap<u64, u64> {
            it.iter().map(|(number, it)| (*number, it.fence.get())).collect()
        };
        panic!(
            "this was never so: {:?}\nfor sure: {:?}\nlater: {:?}",
            short(found),
            short(&self.base),
            self.later
                .iter()
                .map(|it| it.writes.iter().map(|it| (it.0, it.1.fence)).collect())
                .collect::<Vec<Vec<_>>>()
        )
    }

    fn is_like(&self, expected: &Snapshot, found: &Snapshot) -> bool {
        let is_purged = |it: &Fenced<Execution>| it.value.expires_at <= self.purged_at;
        expected.iter().all(|(number, it)| match found.get(number) {
            Some(found) => found == it,
            None => is_purged(it),
        }) && found.keys().all(|it| expected.contains_key(it))
    }

    /// Opens what a cut left, and compares.
    fn check(&self, directory: &Path, clock: &ManualClock) {
        let clock = ManualClock::at(clock.now() + Duration::from_secs(1));
        let queue = open(Arc::new(OsDisk::new(directory)), &clock);
        let found = snapshot(&queue);
        let (_, accepted) = self.find(&found);
        check_counts(&queue, &found, accepted);
        check_list(&queue, &found);
        check_due(&queue, &found, &clock);
        let new = event(CAUSES * 2, clock.now(), clock.now(), 9);
        let answer = done(&queue, queue.accept(&[new])).unwrap();
        let [Accepted::New(fence)] = answer[..] else { panic!("what a cut leaves accepts") };
        assert!(Some(fence) > self.highest, "a fence was issued again");
    }
}

fn check_counts(queue: &EmbeddedQueue, found: &Snapshot, accepted: u64) {
    let counts = done(queue, queue.counts()).unwrap();
    for counts in &counts {
        assert!(counts.is_balanced(), "something is lost: {counts:?}");
        let mut expected = counts.clone();
        (expected.pending, expected.in_progress, expected.completed, expected.failed) = Default::default();
        for it in found.values().filter(|it| it.value.function == counts.function) {
            *expected.of(&it.value.phase) += 1;
        }
        assert_eq!(*counts, expected, "the counters differ from what stands");
    }
    assert_eq!(counts.iter().map(|it| it.accepted).sum::<u64>(), accepted, "accepted");
}

fn check_list(queue: &EmbeddedQueue, found: &Snapshot) {
    let page = done(queue, queue.list(&Filter::default(), None, 500)).unwrap();
    let fences: BTreeSet<Fence> = page.items.iter().map(|it| it.fence).collect();
    assert_eq!((page.items.len(), page.next), (found.len(), None));
    assert_eq!(fences, found.values().map(|it| it.fence).collect(), "the list differs from what stands");
}

fn check_due(queue: &EmbeddedQueue, found: &Snapshot, clock: &ManualClock) {
    clock.advance(Duration::from_hours(24 * 365));
    let unfinished = || found.iter().filter(|it| !it.1.value.status().is_terminal());
    let is_head = |it: &Fenced<Execution>| {
        let Some(order) = &it.value.order else { return true };
        let before = unfinished().filter(|other| {
            let other = &other.1.value;
            other.function == it.value.function
                && other.order.as_ref().is_some_and(|it| it.key == order.key && it.sequence < order.sequence)
        });
        before.count() == 0
    };
    let due = unfinished().filter(|it| it.1.value.due_at().is_some() && is_head(it.1));
    let due: BTreeSet<_> = due.map(|it| it.1.value.id()).collect();
    let claimed = done(queue, queue.claim(&demand(1000))).unwrap();
    let claimed: BTreeSet<_> = claimed.iter().map(|it| it.value.id()).collect();
    assert_eq!(claimed, due, "what is handed out differs from what is due");
}

fn demand(limit: u32) -> Demand {
    let want = |it: &str| Want { function: it.into(), limit, lease: Duration::from_mins(1) };
    Demand { holder: Holder(7), wants: FUNCTIONS.map(want).to_vec() }
}

struct World {
    random: fastrand::Rng,
    disk: CrashDisk,
    clock: ManualClock,
    oracle: Arc<Mutex<Oracle>>,
    queue: Option<EmbeddedQueue>,
}

impl World {
    fn new(seed: u64, share: f64) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let oracle = Arc::new(Mutex::new(Oracle::default()));
        let disk = CrashDisk::new(seed, share);
        disk.at_cuts({
            let (clock, oracle) = (clock.clone(), Arc::clone(&oracle));
            move |directory| oracle.lock().unwrap().check(directory, &clock)
        });
        let mut world = Self { random: fastrand::Rng::with_seed(seed), disk, clock, oracle, queue: None };
        world.reopen();
        world
    }

    fn reopen(&mut self) {
        self.queue = None;
        // A moment passes, as it does: fences lost with the power are in the past.
        self.clock.advance(Duration::from_secs(1));
        let queue = open(Arc::new(self.disk.clone()), &self.clock);
        let found = snapshot(&queue);
        let mut oracle = self.oracle.lock().unwrap();
        let (done, accepted) = oracle.find(&found);
        check_counts(&queue, &found, accepted);
        oracle.later.truncate(done);
        oracle.settle(found);
        drop(oracle);
        self.queue = Some(queue);
    }

    fn queue(&self) -> &EmbeddedQueue {
        self.queue.as_ref().expect("the queue is open between steps")
    }

    fn step(&mut self) {
        match self.random.u32(..100) {
            0..25 => self.accept(),
            25..45 => self.claim(),
            45..70 => self.write(),
            70..76 => self.sync(),
            76..82 => self.queue().engine.flush().unwrap(),
            82..84 => self.queue().engine.merge().unwrap(),
            84..87 => self.queue().engine.prepare_next().unwrap(),
            87..90 => self.purge(),
            90..95 => self.clock.advance(Duration::from_secs(self.random.u64(..120))),
            95..98 => {
                let appended = self.queue().engine.state.lock().unwrap().appended;
                self.queue().engine.write_upto(appended).unwrap();
            }
            _ => self.reopen(),
        }
    }

    /// Does it, to its end or only until it waits for the disk, and notes what it did. `shows` says of which
    /// events it shows what stands, which must then be durable, too.
    fn perform<T>(
        &mut self,
        groups: &[Vec<u64>],
        shows: &[u64],
        accepts: impl Fn(u64) -> bool,
        future: impl for<'a> FnOnce(&'a EmbeddedQueue) -> semel_core::BoxFuture<'a, T>,
    ) {
        let queue = self.queue.as_ref().expect("the queue is open between steps");
        let before = snapshot(queue);
        let mut future = future(queue);
        let is_done = future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let after = snapshot(queue);
        let mut oracle = self.oracle.lock().unwrap();
        let known = oracle.later.len();
        oracle.note(&before, &after, groups, accepts);
        let is_shown = |it: &Group| it.writes.iter().any(|it| shows.contains(&it.0));
        if is_done {
            // What it answered for is durable, and what came before that. What came later need not be.
            let made = (oracle.later.len() > known).then_some(oracle.later.len());
            let shown = oracle.later.iter().rposition(is_shown).map(|it| it + 1);
            oracle.settle_first(made.or(shown).unwrap_or(0));
        } else if self.random.bool() {
            drop(oracle);
            done(queue, future);
            self.oracle.lock().unwrap().settle(after);
        }
    }

    fn accept(&mut self) {
        let now = self.clock.now();
        let numbers: BTreeSet<u64> = (0..self.random.u64(1..5)).map(|_| self.random.u64(..EVENTS)).collect();
        let new: Vec<Execution> = numbers.iter().map(|number| self.some_event(*number, now)).collect();
        let groups: Vec<_> = numbers.iter().map(|it| vec![*it]).collect();
        let shows: Vec<u64> = numbers.into_iter().collect();
        self.perform(
            &groups,
            &shows,
            |_| true,
            |queue| Box::pin(async move { queue.accept(&new).await.unwrap() }),
        );
    }

    fn some_event(&mut self, number: u64, now: Timestamp) -> Execution {
        let due_at = now + Duration::from_secs(self.random.u64(..60));
        let new = event(number, now, due_at, self.random.usize(1..300));
        let claimed = claimed(due_at, &new, Holder(9), now + Duration::from_secs(30));
        match claimed {
            Some(claimed) if new.order.is_none() && self.random.bool() => claimed,
            Some(_) | None => new,
        }
    }

    fn claim(&mut self) {
        let demand = demand(self.random.u32(1..4));
        let groups: Vec<_> = (0..EVENTS).chain(CAUSES..CAUSES + EVENTS).map(|it| vec![it]).collect();
        self.perform(
            &groups,
            &[],
            |_| false,
            |queue| Box::pin(async move { queue.claim(&demand).await.unwrap() }),
        );
    }

    fn write(&mut self) {
        let standing: Vec<_> = snapshot(self.queue()).into_iter().collect();
        let mut groups: Vec<Vec<u64>> = Vec::new();
        let mut changes = Vec::new();
        for _ in 0..self.random.usize(1..4) {
            let Some((number, before)) = self.random.choice(&standing).cloned() else { return };
            let now = self.clock.now();
            let Some(after) = self.some_step(&before.value, now) else { continue };
            if groups.iter().flatten().any(|it| *it == number) {
                continue;
            }
            let caused = CAUSES + self.random.u64(..EVENTS);
            let causes =
                self.random.bool() && !groups.iter().flatten().any(|it| *it == caused) && number != caused;
            groups.push(if causes { vec![caused, number] } else { vec![number] });
            let causes = if causes { vec![self.some_event(caused, now)] } else { Vec::new() };
            changes.push(Change { expected: before.fence, after, causes });
        }
        let changed: BTreeSet<u64> = groups.iter().filter_map(|it| it.last().copied()).collect();
        let accepts = move |number| !changed.contains(&number);
        self.perform(&groups, &[], accepts, |queue| {
            Box::pin(async move { queue.write(&changes).await.unwrap() })
        });
    }

    fn some_step(&mut self, before: &Execution, now: Timestamp) -> Option<Execution> {
        let error = "it did not work".to_owned();
        let input = match (before.status(), self.random.u32(..4)) {
            (Status::InProgress, 0) => Input::Fail { error, retry_after: None },
            (Status::InProgress, 1) => Input::Reject { error },
            (Status::InProgress, _) => Input::Complete(Body::Kept { bytes: b"done".to_vec(), until: now }),
            (Status::Pending, 0) => Input::Cancel,
            (Status::Pending, 1) => Input::Park,
            (Status::Pending, _) => Input::Unpark,
            (Status::Failed, _) => Input::Redrive { event: None },
            (Status::Completed, _) => return None,
        };
        let policy = RetryPolicy::gen2();
        let mut after = step(now, before, input, &policy, Jitter::LEAST).ok()?;
        if after.status().is_terminal() {
            after.expires_at = now + Duration::from_secs(*self.random.choice(&[0, 20, 200, 4000]).unwrap());
        }
        Some(after)
    }

    fn purge(&mut self) {
        let now = self.clock.now();
        self.oracle.lock().unwrap().purged_at = now;
        let queue = self.queue();
        done(queue, queue.purge(now, u32::MAX)).unwrap();
        queue.engine.archive.empty_trash(&self.disk, || {}).unwrap();
        // Only if something was purged did it sync.
        self.sync();
    }

    fn sync(&mut self) {
        let queue = self.queue();
        queue.engine.sync().unwrap();
        self.oracle.lock().unwrap().settle(snapshot(queue));
    }
}

#[test]
fn no_power_cut_loses_an_execution_an_attempt_or_a_count() {
    let mut cuts = 0;
    for seed in seeds(24) {
        println!("SEMEL_SEED={seed}");
        let mut world = World::new(seed, 0.1);
        (0..300).for_each(|_| world.step());
        cuts += world.disk.cuts();
    }
    println!("{cuts} power cuts");
    if std::env::var_os("SEMEL_SEED").is_none() {
        assert!(cuts >= 500, "the test must cut the power often enough, but did {cuts} times");
    }
}

#[test]
fn a_duplicate_is_told_what_a_power_cut_does_not_take_back() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let queue = open(Arc::new(OsDisk::new(directory.path())), &clock);
    let now = clock.now();
    let known = event(1, now, now, 8);
    done(&queue, queue.accept(std::slice::from_ref(&known))).unwrap();
    let again = [known, event(2, now + Duration::from_mins(1), now + Duration::from_mins(1), 8)];
    let mut accepting = pin!(queue.accept(&again));
    let mut claiming = pin!(async { queue.claim(&demand(1)).await });
    assert!(waits(accepting.as_mut()), "a new one was accepted before it was durable");
    queue.engine.sync().unwrap();
    assert!(waits(claiming.as_mut()), "a claim was handed out before it was durable");
    assert!(waits(accepting.as_mut()), "a duplicate was told of a claim that was not durable");
    queue.engine.sync().unwrap();
    let Poll::Ready(Ok(accepted)) = polled(accepting.as_mut()) else { panic!("all of it is durable") };
    let Accepted::Duplicate(told) = &accepted[0] else { panic!("it was there: {accepted:?}") };
    assert_eq!(told.value.status(), Status::InProgress);
}

#[test]
fn what_is_counted_is_what_a_power_cut_does_not_take_back() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let queue = open(Arc::new(OsDisk::new(directory.path())), &clock);
    let now = clock.now();
    let new = event(1, now, now, 8);
    let mut accepting = pin!(queue.accept(std::slice::from_ref(&new)));
    assert!(waits(accepting.as_mut()), "it was accepted before it was durable");
    let mut counting = pin!(queue.counts());
    assert!(waits(counting.as_mut()), "it was counted before it was durable");
    queue.engine.sync().unwrap();
    let Poll::Ready(Ok(counts)) = polled(counting) else { panic!("all of it is durable") };
    assert_eq!(counts.iter().map(|it| it.accepted).sum::<u64>(), 1);
    assert!(polled(pin!(queue.counts())).is_ready(), "there is nothing to wait for");
}

fn polled<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Whether it is not done though everybody else was let go first.
fn waits<T>(mut future: Pin<&mut impl Future<Output = T>>) -> bool {
    polled(future.as_mut()).is_pending() && polled(future).is_pending()
}
