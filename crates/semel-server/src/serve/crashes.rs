//! A server that keeps crashing is careful.
//!
//! 1. Whoever starts notes it in the store's directory; whoever stops in order, or has run for [`STEADY`], takes the note away.
//!    What a start finds noted is how often in a row the ones before it crashed.
//! 2. After each crash half as many executions are held at once, until it runs steadily: a crash uses up an attempt of
//!    everything that is held, and a poisonous event must not take all others with it.
//! 3. From the third in a row on, it waits before it starts anything, twice as long each time.
//!
//! A store without a directory has no place for the note, and in development nobody is to wait: neither is careful. The note is
//! not synced, for a cut of the power is no crash of ours.

use crate::{config::ServerSettings, store_url::Place};
use semel_core::sabotage::is_on;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tracing::warn;

/// How long it runs until it is thought to go on running.
const STEADY: Duration = Duration::from_mins(1);
/// How many crashes in a row it takes until the next start waits.
const CRASHES_BEFORE_WAITING: u32 = 3;
const WAIT_MIN: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(30);
const NOTE: &str = "CRASHES";

/// What is known of the starts before this one.
pub(super) struct Crashes {
    note: Option<PathBuf>,
    count: u32,
}

impl Crashes {
    /// Notes a start on this store, which is open.
    pub(super) fn note(settings: &ServerSettings) -> Self {
        let note = match &settings.store.place {
            Place::Embedded(directory) if !settings.is_dev => Some(directory.join(NOTE)),
            _ => None,
        };
        let count = note.as_deref().filter(|_| !is_on("crashes_are_forgotten")).map_or(0, read);
        let noted = note.as_deref().map(|it| fs::write(it, with_one_more(count)));
        if let Some(Err(error)) = noted {
            warn!(%error, "how often it crashed cannot be noted");
        }
        if count > 0 {
            warn!(
                in_a_row = count,
                "it ended before without having been stopped: until it runs steadily it holds fewer at once"
            );
        }
        Self { note, count }
    }

    /// How many executions may be held at once, of so many.
    pub(super) fn in_flight(&self, most: u32) -> u32 {
        in_flight(most, self.count)
    }

    /// Waits, if it crashed too often.
    pub(super) async fn wait(&self) {
        let wait = wait(self.count);
        if !wait.is_zero() {
            warn!(?wait, "it crashes again and again: it waits before it starts");
            tokio::time::sleep(wait).await;
        }
    }

    /// Resolves when it has run for long enough to be trusted, which is then noted.
    pub(super) async fn steady(&self) {
        if self.note.is_none() {
            return std::future::pending().await;
        }
        tokio::time::sleep(STEADY).await;
        self.forget();
    }

    /// It did not crash.
    pub(super) fn forget(&self) {
        match self.note.as_deref().map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                warn!(%error, "that it did not crash cannot be noted");
            }
            Some(_) | None => {}
        }
    }
}

/// How many starts in a row were noted; what cannot be read was not.
fn read(note: &Path) -> u32 {
    fs::read_to_string(note).map_or(0, |it| noted(&it))
}

fn noted(text: &str) -> u32 {
    text.trim().parse().unwrap_or(0)
}

fn with_one_more(count: u32) -> String {
    // A number that nobody wrote here is not added to for ever.
    count.saturating_add(1).to_string()
}

/// The note: whatever it says, the next start holds something, and comes. See [`crate::fuzz`].
pub(crate) fn fuzz(bytes: &[u8]) {
    let count = noted(&String::from_utf8_lossy(bytes));
    assert!((1..=1_024).contains(&in_flight(1_024, count)));
    assert!(wait(count) <= WAIT_MAX);
    assert_eq!(noted(&with_one_more(count)), count.saturating_add(1));
}

fn in_flight(most: u32, crashes: u32) -> u32 {
    most.checked_shr(crashes).unwrap_or(0).max(1)
}

fn wait(crashes: u32) -> Duration {
    match crashes.checked_sub(CRASHES_BEFORE_WAITING) {
        None => Duration::ZERO,
        Some(more) => WAIT_MIN.saturating_mul(1_u32.checked_shl(more).unwrap_or(u32::MAX)).min(WAIT_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store_url::StoreUrl;

    fn settings(directory: &Path, is_dev: bool) -> ServerSettings {
        let store = StoreUrl::parse(directory.to_str().unwrap()).ok().unwrap();
        ServerSettings { store, is_dev, ..ServerSettings::default() }
    }

    #[test]
    fn each_crash_halves_what_is_held_and_later_ones_wait_twice_as_long() {
        for (crashes, held, seconds) in [
            (0, 1024, 0.0),
            (1, 512, 0.0),
            (2, 256, 0.0),
            (3, 128, 0.5),
            (4, 64, 1.0),
            (9, 2, 30.0),
            (40, 1, 30.0),
        ] {
            assert_eq!(in_flight(1024, crashes), held, "after {crashes}");
            assert_eq!(wait(crashes), Duration::from_secs_f64(seconds), "after {crashes}");
        }
    }

    #[test]
    fn crashes_in_a_row_are_counted_until_one_start_ends_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path(), false);
        let counts: Vec<_> = (0..3).map(|_| Crashes::note(&settings).count).collect();
        assert_eq!(counts, [0, 1, 2]);
        Crashes::note(&settings).forget();
        assert_eq!(Crashes::note(&settings).count, 0);
        fs::write(directory.path().join(NOTE), "what is this").unwrap();
        assert_eq!(Crashes::note(&settings).count, 0, "what cannot be read is no crash");
    }

    #[test]
    fn in_development_nobody_is_careful() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path(), true);
        assert_eq!([Crashes::note(&settings).count, Crashes::note(&settings).count], [0, 0]);
        assert!(!directory.path().join(NOTE).exists());
    }

    #[tokio::test(start_paused = true)]
    async fn who_runs_steadily_has_not_crashed() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path(), false);
        Crashes::note(&settings);
        let crashes = Crashes::note(&settings);
        assert_eq!(crashes.in_flight(1024), 512);
        crashes.steady().await;
        assert_eq!(Crashes::note(&settings).count, 0);
    }
}
