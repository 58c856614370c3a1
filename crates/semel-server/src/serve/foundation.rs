//! What everything stands on: what the store promises, and how much room it has.
//!
//! 1. The tier is that of the running configuration, as the doctor found it at the start, and so are its warnings.
//! 2. How full the disk is, is known of the embedded queue alone. Its room is what is left of `disk_bytes_max`, or of the
//!    disk, whichever is less.
//! 3. In how many days it is full follows from how much the queue grew in the last [`SAMPLES_MAX`] minutes, or since the
//!    start. Nothing is said before [`KNOWN_AFTER`], nor of a queue that does not grow.
//!
//! 4. A queue that stopped for good, because the disk no longer keeps what it is given, ends the server: only a restart reads
//!    what is really there. It is looked for every [`LOOK_EVERY`].
//! 5. What cannot be read, what cannot be tidied up, and that nothing new is taken, is told: once in the log when it is first
//!    seen, and to whoever asks.
//!
//! It does not refuse anything: the queue does, before the disk is full.

use crate::store_url::{Place, StoreUrl};
use semel::doctor::{Finding, Severity, Tier};
#[cfg(feature = "embedded")]
use std::path::Path;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tracing::{error, info, warn};

/// How often it is looked whether the queue has stopped.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the size of the queue is looked at.
const SAMPLE_EVERY: Duration = Duration::from_mins(1);
/// Most sizes that are remembered: those of a day.
const SAMPLES_MAX: usize = 24 * 60;
/// How long the queue is watched before anything is said.
const KNOWN_AFTER: Duration = Duration::from_mins(10);
const DAY: Duration = Duration::from_hours(24);

/// What everything stands on.
pub struct Foundation {
    /// Where executions are kept, without passwords.
    pub(crate) place: String,
    /// Whether no other node can have them, too.
    pub(crate) is_alone: bool,
    /// What the store promises.
    pub(crate) tier: Tier,
    /// What the doctor would have otherwise.
    pub(crate) warnings: Vec<String>,
    ailing: Ailing,
    disk: Option<Disk>,
}

/// What is wrong with what the queue keeps.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ailments {
    /// Executions that are left alone because they cannot be read, and why.
    pub(crate) damaged: Vec<String>,
    /// Why what is finished cannot be tidied up.
    pub(crate) trouble: Option<String>,
    /// Why no new events are taken, while what was taken is delivered.
    pub(crate) refuses: Option<String>,
}

impl Ailments {
    /// What was not there before.
    fn since<'a>(&'a self, before: &'a Self) -> News<'a> {
        let damaged = self.damaged.iter().filter(|it| !before.damaged.contains(it)).map(String::as_str);
        News {
            damaged: damaged.collect(),
            trouble: self.trouble.as_deref().filter(|_| before.trouble.is_none()),
            refuses: self.refuses.as_deref().filter(|_| before.refuses.is_none()),
            takes_again: before.refuses.is_some() && self.refuses.is_none(),
        }
    }
}

/// What is to be told.
#[derive(PartialEq, Eq, Default, Debug)]
struct News<'a> {
    damaged: Vec<&'a str>,
    trouble: Option<&'a str>,
    refuses: Option<&'a str>,
    takes_again: bool,
}

/// How full a disk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// What the queue takes, in bytes.
    pub(crate) used: u64,
    /// What it may still take, in bytes.
    pub(crate) left: u64,
    /// In how many whole days nothing is left, if it goes on like this.
    pub(crate) days_to_full: Option<u64>,
}

type Measure = Box<dyn Fn() -> u64 + Send + Sync>;
type Stopped = Box<dyn Fn() -> Option<String> + Send + Sync>;
type Ailing = Box<dyn Fn() -> Ailments + Send + Sync>;

struct Disk {
    used: Measure,
    left: Measure,
    stopped: Stopped,
    since: Instant,
    growth: Mutex<Growth>,
}

impl Foundation {
    /// Of a store with this tier and these findings.
    pub(crate) fn new(url: &StoreUrl, tier: Tier, findings: &[Finding]) -> Self {
        let warnings = findings.iter().filter(|it| it.severity == Severity::Warning);
        let warnings = warnings.map(ToString::to_string).collect();
        let is_alone = !matches!(url.place, Place::Postgres { .. });
        let ailing = Box::new(Ailments::default);
        Self { place: url.to_string(), is_alone, tier, warnings, ailing, disk: None }
    }

    /// With a queue that tells what is wrong with what it keeps.
    #[cfg(any(feature = "embedded", feature = "postgres"))]
    pub(crate) fn ailing(self, ailing: impl Fn() -> Ailments + Send + Sync + 'static) -> Self {
        Self { ailing: Box::new(ailing), ..self }
    }

    /// What is wrong with what the queue keeps.
    pub(crate) fn ailments(&self) -> Ailments {
        (self.ailing)()
    }

    /// With a queue on this machine's disk that takes so much, may take no more than this, and says why it stopped, if it did.
    #[cfg(feature = "embedded")]
    pub(crate) fn on_disk(
        self,
        directory: &Path,
        bytes_max: u64,
        used: impl Fn() -> u64 + Send + Sync + Clone + 'static,
        stopped: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let (directory, taken) = (directory.to_owned(), used.clone());
        let left = move || bytes_max.saturating_sub(taken()).min(free(&directory));
        let disk = Disk {
            used: Box::new(used),
            left: Box::new(left),
            stopped: Box::new(stopped),
            since: Instant::now(),
            growth: Mutex::default(),
        };
        disk.look();
        Self { disk: Some(disk), ..self }
    }

    /// How full the disk is, if that can be seen.
    pub(crate) fn room(&self) -> Option<Room> {
        self.disk.as_ref().map(Disk::room)
    }

    /// Looks at the queue now and then, until it has stopped for good. Why it did.
    pub(crate) async fn watch(&self) -> String {
        let (mut looked_at, mut known) = (Instant::now(), Ailments::default());
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let found = self.ailments();
            tell(&known, &found);
            known = found;
            let Some(disk) = &self.disk else { continue };
            if let Some(cause) = (disk.stopped)() {
                return cause;
            }
            if looked_at.elapsed() >= SAMPLE_EVERY {
                looked_at = Instant::now();
                disk.look();
            }
        }
    }
}

/// Tells the log what is new.
fn tell(known: &Ailments, found: &Ailments) {
    let News { damaged, trouble, refuses, takes_again } = found.since(known);
    for cause in damaged {
        error!(cause, "an execution cannot be read: it is left alone");
    }
    if let Some(cause) = trouble {
        warn!(cause, "what is finished cannot be tidied up");
    }
    if let Some(cause) = refuses {
        warn!(cause, "no new events are taken: what was taken is delivered from what was reserved");
    }
    if takes_again {
        info!("new events are taken again");
    }
}

impl Disk {
    fn look(&self) {
        let (at, used) = (self.since.elapsed(), (self.used)());
        self.growth.lock().unwrap_or_else(PoisonError::into_inner).note(at, used);
    }

    fn room(&self) -> Room {
        let (used, left) = ((self.used)(), (self.left)());
        let days_to_full = self.growth.lock().unwrap_or_else(PoisonError::into_inner).days_to_full(left);
        Room { used, left, days_to_full }
    }
}

/// What the disk of a directory has left; as much as there can be, where nobody can tell.
#[cfg(feature = "embedded")]
fn free(directory: &Path) -> u64 {
    #[cfg(unix)]
    if let Ok(found) = rustix::fs::statvfs(directory) {
        return found.f_bavail.saturating_mul(found.f_frsize);
    }
    let _ = directory;
    u64::MAX
}

/// How large something was, and when; the latest last.
#[derive(Default)]
struct Growth(VecDeque<(Duration, u64)>);

impl Growth {
    fn note(&mut self, at: Duration, bytes: u64) {
        if self.0.len() == SAMPLES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((at, bytes));
    }

    fn days_to_full(&self, left: u64) -> Option<u64> {
        let ((began, before), (ended, after)) = (*self.0.front()?, *self.0.back()?);
        let watched = ended.saturating_sub(began);
        let grown = after.checked_sub(before).filter(|it| *it > 0 && watched >= KNOWN_AFTER)?;
        let days = u128::from(left) * watched.as_millis() / (u128::from(grown) * DAY.as_millis());
        Some(u64::try_from(days).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// What is said of a queue that had this size every minute.
    fn said(sizes: impl IntoIterator<Item = u64>, left: u64) -> Option<u64> {
        let mut growth = Growth::default();
        for (minute, bytes) in (0..).zip(sizes) {
            growth.note(SAMPLE_EVERY * minute, bytes);
        }
        assert!(growth.0.len() <= SAMPLES_MAX);
        growth.days_to_full(left)
    }

    #[test]
    fn an_ailment_is_told_once_and_again_when_it_comes_back() {
        let ailments = |damaged: &[&str], trouble: Option<&str>| Ailments {
            damaged: damaged.iter().map(ToString::to_string).collect(),
            trouble: trouble.map(ToOwned::to_owned),
            refuses: None,
        };
        let check = |before: &Ailments, after: &Ailments, damaged: &[&str], trouble: Option<&str>| {
            let told = after.since(before);
            assert_eq!(told, News { damaged: damaged.to_vec(), trouble, ..News::default() });
        };
        let full = Ailments { refuses: Some("full".to_owned()), ..Ailments::default() };
        assert_eq!(full.since(&Ailments::default()), News { refuses: Some("full"), ..News::default() });
        assert_eq!(full.since(&full), News::default());
        assert_eq!(Ailments::default().since(&full), News { takes_again: true, ..News::default() });
        let (well, ill) = (Ailments::default(), ailments(&["one"], Some("full")));
        check(&well, &ill, &["one"], Some("full"));
        check(&ill, &ill, &[], None);
        check(&ill, &ailments(&["one", "two"], Some("fuller")), &["two"], None);
        check(&ill, &well, &[], None);
        check(&ailments(&["one"], None), &ill, &[], Some("full"));
    }

    #[test]
    fn days_to_full_follow_from_what_was_written_in_a_day() {
        let day = |minute: u64| minute * GIB / (24 * 60);
        assert_eq!(said((0..=60).map(day), 10 * GIB), Some(10));
        assert_eq!(said((0..=60).map(day), GIB / 2), Some(0));
    }

    #[test]
    fn what_does_not_grow_is_never_full() {
        assert_eq!(said([GIB; 60], GIB), None);
        assert_eq!(said((0..60).map(|it| GIB - it), GIB), None);
    }

    #[test]
    fn nothing_is_said_before_it_is_known() {
        assert_eq!(said(0..10, GIB), None);
        assert!(said(0..11, GIB).is_some());
        assert_eq!(Growth::default().days_to_full(GIB), None);
    }

    #[test]
    fn what_was_before_yesterday_does_not_count() {
        let minutes = SAMPLES_MAX as u64;
        let sizes = (0..minutes).map(|it| it * GIB).chain([minutes * GIB; SAMPLES_MAX]);
        assert_eq!(said(sizes, GIB), None);
    }

    #[cfg(all(unix, feature = "embedded"))]
    #[test]
    fn a_disk_has_something_left() {
        assert!((1..u64::MAX).contains(&free(&std::env::temp_dir())));
        assert_eq!(free(Path::new("/no/such/directory")), u64::MAX);
    }
}
