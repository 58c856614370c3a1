//! Power cuts: the engine on a disk that forgets what was not synced.
//!
//! 1. At every write, sync, creation, rename and removal, the power may be cut. What was synced is there;
//!    of the rest, an arbitrary part: writes in any order, torn at sectors, names that moved or did not.
//! 2. Whatever is left must open, and hold every value that was acknowledged, or a newer one that was not.
//! 3. A kill is milder: what was written is there. But what the next process shows must survive a power cut
//!    from then on.

mod disk;
mod oracle;
mod queue;

use crate::{
    engine::{Applied, Change, Engine, Options},
    frame::Kind,
    store::Records,
};
use disk::CrashDisk;
use oracle::{Oracle, Write};
use semel_core::{key::Key, time::Timestamp};
use semel_testkit::ManualClock;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const KEYS: u64 = 24;

fn options() -> Options {
    Options { segment_bytes: 2048, flush_segments: 2, backlog_segments_max: 1000 }
}

/// One directory, one process after another, and what they were promised.
struct World {
    random: fastrand::Rng,
    disk: CrashDisk,
    clock: ManualClock,
    oracle: Arc<Mutex<Oracle>>,
    engine: Option<Engine<Records>>,
}

impl World {
    /// The power is cut, in a copy of the world, at this share of all operations of the disk.
    fn new(seed: u64, share: f64) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let oracle = Arc::new(Mutex::new(Oracle::default()));
        let disk = CrashDisk::new(seed, share);
        disk.at_cuts({
            let (clock, oracle) = (clock.clone(), Arc::clone(&oracle));
            move |directory| oracle.lock().unwrap().check(directory, &clock)
        });
        let mut world = Self { random: fastrand::Rng::with_seed(seed), disk, clock, oracle, engine: None };
        world.reopen();
        world
    }

    fn reopen(&mut self) {
        self.engine = None;
        // A moment passes, as it does: fences lost with the power are in the past.
        self.clock.advance(Duration::from_secs(1));
        let disk = Arc::new(self.disk.clone());
        let engine =
            Engine::<Records>::open(disk, self.clock.arc(), options()).expect("a kill leaves a store");
        let now = self.clock.arc().now();
        let mut oracle = self.oracle.lock().unwrap();
        for number in 0..KEYS {
            let value = engine.load(key(number).identity()).expect("a kill leaves a store that answers");
            oracle.was_shown(number, value.as_ref(), now);
        }
        drop(oracle);
        self.engine = Some(engine);
    }

    fn engine(&self) -> &Engine<Records> {
        self.engine.as_ref().expect("the engine is open between steps")
    }

    fn step(&mut self) {
        match self.random.u32(..100) {
            0..70 => self.write(),
            70..82 => self.sync(),
            82..86 => self.engine().flush().unwrap(),
            86..88 => self.engine().merge().unwrap(),
            88..91 => self.engine().prepare_next().unwrap(),
            91..93 => {
                self.engine().purge(self.clock.arc().now(), u32::MAX).unwrap();
                self.engine().archive.empty_trash(&self.disk, || {}).unwrap();
            }
            93..96 => self.clock.advance(Duration::from_secs(self.random.u64(..120))),
            96..99 => {
                let appended = self.engine().state.lock().unwrap().appended;
                self.engine().write_upto(appended).unwrap();
            }
            _ => self.reopen(),
        }
    }

    fn write(&mut self) {
        let number = self.random.u64(..KEYS);
        let key = key(number);
        let expected = self.engine().load(key.identity()).unwrap().map(|it| it.fence);
        let now = self.clock.arc().now();
        let (kind, expires_at) = match self.random.u32(..6) {
            0 => (Kind::Leased, Timestamp::NEVER),
            1 => (Kind::Settled, Timestamp::NEVER),
            2 => (Kind::Settled, now),
            3 => (Kind::Settled, now + Duration::from_secs(self.random.u64(1..100))),
            _ => (Kind::Settled, now + Duration::from_hours(1)),
        };
        let payload: Vec<u8> = (0..self.random.usize(1..300)).map(|_| self.random.u8(..)).collect();
        let change = Change { identity: key.identity(), expected, expires_at, kind, payload: &payload };
        let Applied::Won { fence, .. } = self.engine().apply(&change, |_| None).unwrap() else {
            panic!("nobody else writes")
        };
        self.oracle.lock().unwrap().was_written(number, Write { fence, payload, expires_at });
    }

    fn sync(&mut self) {
        self.engine().sync().unwrap();
        self.oracle.lock().unwrap().was_synced();
    }
}

pub(crate) fn key(number: u64) -> Key {
    Key::new("power-cut", number).unwrap()
}

/// So many seeds, or as many as `SEMEL_SEEDS` says, or the one that `SEMEL_SEED` names.
fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let variable = |name: &str| std::env::var(name).ok().and_then(|it| it.parse().ok());
    match variable("SEMEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("SEMEL_SEEDS").unwrap_or(count),
    }
}

#[test]
fn no_power_cut_loses_what_was_acknowledged() {
    let mut cuts = 0;
    for seed in seeds(80) {
        println!("SEMEL_SEED={seed}");
        let mut world = World::new(seed, 0.12);
        (0..250).for_each(|_| world.step());
        cuts += world.disk.cuts();
    }
    println!("{cuts} power cuts");
    if std::env::var_os("SEMEL_SEED").is_none() {
        assert!(cuts >= 3_000, "the test must cut the power often enough, but did {cuts} times");
    }
}

#[test]
fn a_power_cut_while_the_directory_is_made_leaves_one_that_opens() {
    let mut cuts = 0;
    for seed in seeds(60) {
        println!("SEMEL_SEED={seed}");
        let mut world = World::new(seed, 1.0);
        (0..3).for_each(|_| world.step());
        cuts += world.disk.cuts();
    }
    println!("{cuts} power cuts");
}
