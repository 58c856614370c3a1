//! How fast the housekeeper works: it lets others go first while the journal has room.
//!
//! 1. After each slice of work it rests. Moving a journal into SQLite takes a processor for a second, and whoever serves on
//!    the same processors would have to wait.
//! 2. The longer the journal, the shorter the rests. While it is moved, there are none from three quarters of the way to where
//!    new keys must wait. While files are merged or counted, which takes longer and shortens nothing, there are none once it
//!    should be moved.
//! 3. Who closes the store does not wait for rests.
//!
//! It does not decide what is done, nor when it begins.

use crate::{engine::Options, lock};
use semel_core::sabotage;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long it works before it rests.
const SLICE: Duration = Duration::from_millis(1);
/// How many times as long it rests while it moves the journal, at most.
const FLUSH_RESTS_MAX: u32 = 5;
/// And while it merges files.
const MERGE_RESTS_MAX: u32 = 1;
/// And while it counts what expires, for which nobody waits.
const PURGE_RESTS_MAX: u32 = 5;
/// How long it rests at once, at most: whoever closes the store waits for that long.
const REST_MAX: Duration = Duration::from_millis(20);

/// What is being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chore {
    Flush,
    Merge,
    /// What expires is counted.
    Purge,
}

pub(crate) struct Pace {
    options: Options,
    /// How many files the journal has.
    segments: AtomicUsize,
    is_closing: AtomicBool,
    work: Mutex<Work>,
}

struct Work {
    chore: Chore,
    /// When it last rested.
    since: Instant,
    /// How often it rested since it began.
    rests: usize,
}

impl Work {
    fn begin(chore: Chore) -> Self {
        Self { chore, since: Instant::now(), rests: 0 }
    }
}

impl Pace {
    pub(crate) fn new(options: Options, segments: usize) -> Self {
        let (segments, is_closing) = (AtomicUsize::new(segments), AtomicBool::new(false));
        Self { options, segments, is_closing, work: Mutex::new(Work::begin(Chore::Flush)) }
    }

    /// Work begins, after a pause.
    pub(crate) fn begin(&self, chore: Chore) {
        *lock(&self.work) = Work::begin(chore);
    }

    /// The journal has so many files now.
    pub(crate) fn has(&self, segments: usize) {
        self.segments.store(segments, Ordering::Relaxed);
    }

    /// Whether the journal is so long that it is to be moved.
    pub(crate) fn is_flush_due(&self) -> bool {
        self.segments.load(Ordering::Relaxed) > self.options.flush_segments
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Rests, if it is time to, and tells whether it was. Called after each little piece of work.
    pub(crate) fn breathe(&self) -> bool {
        let mut work = lock(&self.work);
        let worked = work.since.elapsed();
        if worked < SLICE || self.is_closing.load(Ordering::Relaxed) {
            return false;
        }
        if sabotage::is_on("embedded_housekeeper_never_rests") {
            return false;
        }
        let rest = rest(work.chore, worked, self.segments.load(Ordering::Relaxed), &self.options);
        if !rest.is_zero() {
            thread::sleep(rest);
            work.rests += 1;
        }
        work.since = Instant::now();
        true
    }
}

/// How long to rest after this much work, with a journal of so many files.
fn rest(chore: Chore, worked: Duration, segments: usize, options: &Options) -> Duration {
    let Options { flush_segments, backlog_segments_max, .. } = *options;
    let (rests_max, from, room) = match chore {
        Chore::Flush => {
            (FLUSH_RESTS_MAX, flush_segments, backlog_segments_max.saturating_sub(flush_segments) * 3 / 4)
        }
        Chore::Merge => (MERGE_RESTS_MAX, 0, flush_segments),
        Chore::Purge => (PURGE_RESTS_MAX, 0, flush_segments),
    };
    if room == 0 {
        return Duration::ZERO;
    }
    let left = room.saturating_sub(segments.saturating_sub(from));
    (worked * rests_max * left as u32 / room as u32).min(REST_MAX)
}

#[cfg(test)]
impl Pace {
    /// How often it rested since the work began.
    pub(crate) fn rests(&self) -> usize {
        lock(&self.work).rests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn check(chore: Chore, segments: usize, expected: Duration) {
        let options = Options { segment_bytes: 4096, flush_segments: 8, backlog_segments_max: 16 };
        assert_eq!(rest(chore, MS, segments, &options), expected);
    }

    #[test]
    fn the_longer_the_journal_the_shorter_the_rests() {
        check(Chore::Flush, 0, MS * 5);
        check(Chore::Flush, 8, MS * 5);
        check(Chore::Flush, 11, MS * 5 / 2);
        check(Chore::Flush, 13, MS * 5 / 6);
        check(Chore::Merge, 0, MS);
        check(Chore::Merge, 4, MS / 2);
    }

    #[test]
    fn a_merge_does_not_keep_the_journal_from_being_moved() {
        for segments in 8..=16 {
            check(Chore::Merge, segments, Duration::ZERO);
        }
    }

    #[test]
    fn nobody_rests_while_new_keys_are_about_to_wait() {
        for segments in 14..=16 {
            check(Chore::Flush, segments, Duration::ZERO);
        }
        let full = Options { segment_bytes: 4096, flush_segments: 8, backlog_segments_max: 8 };
        assert_eq!(rest(Chore::Flush, MS, 0, &full), Duration::ZERO, "no room, no rest");
    }

    #[test]
    fn no_rest_is_longer_than_the_limit() {
        assert_eq!(rest(Chore::Flush, MS * 1_000, 0, &Options::default()), REST_MAX);
    }

    #[test]
    fn who_closes_waits_for_no_rests() {
        let pace = Pace::new(Options::default(), 0);
        pace.close();
        let began = lock(&pace.work).since;
        while began.elapsed() < SLICE {
            std::hint::spin_loop();
        }
        assert!(!pace.breathe(), "it does not rest");
    }
}
