//! Jobs, as all nodes know them.
//!
//! 1. All jobs stand in one document, with the number of the last: a job is called the same on every node, and can be looked
//!    at and aborted on each of them.
//! 2. Whoever runs a job writes every [`KEPT_EVERY`] how far it is, and that it lives for another [`ALIVE`]. One that nobody
//!    has kept alive is interrupted: its node is gone, or cannot write. Its node asks itself the same question before each
//!    execution, so what is told to be interrupted is.
//! 3. An abort is written beside the job, with its audit entry. The node that runs the job finds it when it next writes.
//! 4. A job's beginning is one write with its audit entry, and so is its end. One that only counts has neither entry.
//! 5. The latest [`JOBS_MAX`] are remembered; those that are not over are not forgotten.

use super::{
    Auditing,
    document::{self, Revision},
};
use crate::engine::{Engine, Runtime, locked};
use semel_core::{
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Most jobs that are remembered, of all nodes together; the oldest that are over are forgotten.
pub const JOBS_MAX: usize = 32;
/// How often it is written how far a job is.
pub(super) const KEPT_EVERY: Duration = Duration::from_millis(500);
/// How long a job is believed to live after that was written.
pub(super) const ALIVE: Duration = Duration::from_secs(15);
/// Longest error that is remembered of a job, in characters.
const ERROR_CHARS_MAX: usize = 500;
const DOCUMENT: &str = "jobs";

/// How far a job is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Executions that matched so far.
    pub matched: u64,
    /// Executions that were changed.
    pub done: u64,
    /// Executions that were skipped, because it made no sense where they stood.
    pub skipped: u64,
    /// Whether it goes on.
    pub state: JobState,
}

/// Whether a job goes on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It does.
    Running,
    /// It waits for its canary.
    Canary,
    /// It has done everything.
    Finished,
    /// Somebody stopped it.
    Aborted,
    /// Its node stopped, or was not heard of any more.
    Interrupted,
    /// Its canary failed again.
    CanaryFailed,
    /// The queue could not tell what happened.
    Failed(String),
}

impl JobState {
    /// Whether it is over.
    pub const fn is_over(&self) -> bool {
        !matches!(self, Self::Running | Self::Canary)
    }
}

/// A job, as any node tells of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobReport {
    /// Names it, on all nodes.
    pub number: u64,
    /// What it does.
    pub action: String,
    /// Who began it.
    pub who: String,
    /// When.
    pub began_at: Timestamp,
    /// How far it is, as of the last time that its node wrote that.
    pub progress: Progress,
}

/// What became of an abort.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "the job may be over, or not there"]
pub enum Aborting {
    /// The job ends within a second, wherever it runs.
    Told(JobReport),
    /// It was over.
    Over(JobReport),
    /// Nobody knows such a job.
    NotFound,
}

/// A job in the document.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Record {
    number: u64,
    action: String,
    who: String,
    began_at_ms: u64,
    /// Written by its node: until then it is believed to live.
    alive_until_ms: u64,
    /// Written by whoever wants it to end.
    #[serde(default)]
    is_aborted: bool,
    matched: u64,
    done: u64,
    skipped: u64,
    state: JobState,
}

impl Record {
    fn is_lapsed(&self, now: Timestamp) -> bool {
        !self.state.is_over() && now >= Timestamp::from_millis(self.alive_until_ms)
    }

    fn report(&self, now: Timestamp) -> JobReport {
        let state = if self.is_lapsed(now) { JobState::Interrupted } else { self.state.clone() };
        let Self { matched, done, skipped, .. } = *self;
        JobReport {
            number: self.number,
            action: self.action.clone(),
            who: self.who.clone(),
            began_at: Timestamp::from_millis(self.began_at_ms),
            progress: Progress { matched, done, skipped, state },
        }
    }

    fn set(&mut self, progress: &Progress) {
        (self.matched, self.done, self.skipped) = (progress.matched, progress.done, progress.skipped);
        self.state = match &progress.state {
            JobState::Failed(error) => JobState::Failed(error.chars().take(ERROR_CHARS_MAX).collect()),
            state => state.clone(),
        };
    }
}

/// The document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Book {
    /// The number of the last job that was begun.
    last: u64,
    /// The latest last.
    jobs: Vec<Record>,
}

/// What its node finds out about a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// It lives until then.
    Alive(Timestamp),
    /// Somebody wants it to end.
    Aborted,
    /// It was not kept alive, and everybody else takes it for interrupted.
    Lapsed,
}

/// What is written of a document that says this, as it is read; nothing if it says nothing.
pub(super) fn rewritten(content: &[u8]) -> Option<Vec<u8>> {
    let book = Book::read(Some(content)).ok()?;
    // Whatever it says, it can be told.
    for now in [0, u64::MAX] {
        let told = book.jobs.iter().map(|it| it.report(Timestamp::from_millis(now)));
        assert_eq!(told.count(), book.jobs.len());
    }
    Some(book.to_bytes())
}

impl Book {
    fn read(content: Option<&[u8]>) -> Result<Self, StoreError> {
        content.map_or_else(
            || Ok(Self::default()),
            |it| {
                serde_json::from_slice(it).map_err(|error| {
                    StoreError::new(StoreErrorKind::Corrupt, "control", "read which jobs there are")
                        .because(error)
                })
            },
        )
    }

    fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("jobs are JSON")
    }

    fn find(&mut self, number: u64) -> Option<&mut Record> {
        self.jobs.iter_mut().find(|it| it.number == number)
    }

    /// Begins a job; `None` if as many run as may. One that is over makes room.
    fn begin(&mut self, now: Timestamp, action: &str, who: &str) -> Option<JobReport> {
        if self.jobs.len() >= JOBS_MAX {
            let over = self.jobs.iter().position(|it| it.state.is_over() || it.is_lapsed(now))?;
            self.jobs.remove(over);
        }
        self.last += 1;
        let record = Record {
            number: self.last,
            action: action.to_owned(),
            who: who.to_owned(),
            began_at_ms: now.as_millis(),
            alive_until_ms: (now + ALIVE).as_millis(),
            is_aborted: false,
            matched: 0,
            done: 0,
            skipped: 0,
            state: JobState::Running,
        };
        let report = record.report(now);
        self.jobs.push(record);
        Some(report)
    }

    /// Its node writes how far a job is.
    fn keep(&mut self, now: Timestamp, number: u64, progress: &Progress) -> Kept {
        let Some(record) = self.find(number).filter(|it| !it.state.is_over() && !it.is_lapsed(now)) else {
            return Kept::Lapsed;
        };
        if record.is_aborted && !is_on("abort_asks_the_own_node_only") {
            return Kept::Aborted;
        }
        record.set(progress);
        let alive_until = now + ALIVE;
        record.alive_until_ms = alive_until.as_millis();
        Kept::Alive(alive_until)
    }

    /// Its node writes how a job ended. Whether it is still known, and was not over.
    fn end(&mut self, number: u64, progress: &Progress) -> bool {
        let Some(record) = self.find(number).filter(|it| !it.state.is_over()) else { return false };
        record.set(progress);
        true
    }

    /// Somebody wants a job to end.
    fn abort(&mut self, now: Timestamp, number: u64) -> Aborting {
        let Some(record) = self.find(number) else { return Aborting::NotFound };
        let report = record.report(now);
        if report.progress.state.is_over() {
            return Aborting::Over(report);
        }
        record.is_aborted = true;
        Aborting::Told(report)
    }
}

/// The jobs that run on this node, and how they are told to end.
#[derive(Debug, Default)]
pub(crate) struct Jobs(BTreeMap<u64, Arc<watch::Sender<bool>>>);

impl Jobs {
    /// How many there are.
    pub(crate) fn running(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}

/// A job runs on this node until this is dropped.
#[derive(Debug)]
pub(super) struct Here {
    engine: Arc<Engine>,
    number: u64,
    abort: Arc<watch::Sender<bool>>,
}

impl Here {
    pub(super) fn new(engine: Arc<Engine>, number: u64, abort: Arc<watch::Sender<bool>>) -> Self {
        locked(&engine.jobs).0.insert(number, Arc::clone(&abort));
        Self { engine, number, abort }
    }

    /// Tells it to end.
    pub(super) fn abort(&self) {
        self.abort.send_replace(true);
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        locked(&self.engine.jobs).0.remove(&self.number);
        self.engine.place_given_back.notify_waiters();
    }
}

/// What is written with a job's beginning or end.
pub(super) struct Noted<'a> {
    pub(super) who: &'a str,
    pub(super) what: &'a str,
    pub(super) detail: &'a str,
}

impl Book {
    /// What is written, with what is noted of this job.
    fn revision(&self, engine: &Engine, number: u64, noted: Option<&Noted<'_>>) -> Revision {
        let subject = format!("job {number}");
        let entry = noted.map(|Noted { who, what, detail }| {
            Auditing { who, what, subject: &subject, detail }.execution(engine)
        });
        Revision { content: self.to_bytes(), causes: entry.into_iter().collect() }
    }
}

/// Begins a job. `None` if too many run already.
pub(super) async fn begin(
    engine: &Engine,
    action: &str,
    who: &str,
    noted: Option<Noted<'_>>,
) -> Result<Option<JobReport>, StoreError> {
    let mut begun = None;
    document::revise(engine, DOCUMENT, |before| {
        let mut book = Book::read(before)?;
        begun = book.begin(engine.clock.now(), action, who);
        let Some(report) = &begun else { return Ok(None) };
        Ok(Some(book.revision(engine, report.number, noted.as_ref())))
    })
    .await?;
    Ok(begun)
}

/// Writes how far a job is, and finds out whether it may go on.
pub(super) async fn keep(engine: &Engine, number: u64, progress: &Progress) -> Result<Kept, StoreError> {
    let mut kept = Kept::Lapsed;
    document::revise(engine, DOCUMENT, |before| {
        let mut book = Book::read(before)?;
        kept = book.keep(engine.clock.now(), number, progress);
        let is_written = matches!(kept, Kept::Alive(_));
        Ok(is_written.then(|| book.revision(engine, number, None)))
    })
    .await?;
    Ok(kept)
}

/// Writes how a job ended.
pub(super) async fn end(
    engine: &Engine,
    number: u64,
    progress: &Progress,
    noted: Option<Noted<'_>>,
) -> Result<(), StoreError> {
    document::revise(engine, DOCUMENT, |before| {
        let mut book = Book::read(before)?;
        let is_known = book.end(number, progress);
        Ok(is_known.then(|| book.revision(engine, number, noted.as_ref())))
    })
    .await?;
    Ok(())
}

impl Runtime {
    /// The jobs of all nodes, the latest last.
    pub async fn jobs(&self) -> Result<Vec<JobReport>, StoreError> {
        let engine = self.engine();
        let edition = document::read(engine, DOCUMENT).await?;
        let book = Book::read(edition.content.as_deref())?;
        let now = engine.clock.now() - engine.clock.margin();
        Ok(book.jobs.iter().map(|it| it.report(now)).collect())
    }

    /// How far a job is, on whichever node it runs.
    pub async fn job(&self, number: u64) -> Result<Option<JobReport>, StoreError> {
        Ok(self.jobs().await?.into_iter().find(|it| it.number == number))
    }

    /// Stops a job soon, on whichever node it runs. What it has done stays done.
    pub async fn abort(&self, number: u64, who: &str) -> Result<Aborting, StoreError> {
        let engine = self.engine();
        let (mut aborting, noted) = (Aborting::NotFound, Noted { who, what: "abort", detail: "" });
        document::revise(engine, DOCUMENT, |before| {
            let mut book = Book::read(before)?;
            aborting = book.abort(engine.clock.now() - engine.clock.margin(), number);
            let is_told = matches!(aborting, Aborting::Told(_));
            Ok(is_told.then(|| book.revision(engine, number, Some(&noted))))
        })
        .await?;
        let here = locked(&engine.jobs).0.get(&number).cloned();
        if let (Aborting::Told(_), Some(here)) = (&aborting, here) {
            here.send_replace(true);
        }
        Ok(aborting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);
    const BEGUN: Progress = Progress { matched: 0, done: 0, skipped: 0, state: JobState::Running };

    fn begun(count: usize) -> Book {
        let mut book = Book::default();
        for _ in 0..count {
            book.begin(NOW, "redrive", "ada").expect("there is room");
        }
        book
    }

    #[test]
    fn numbers_go_on_and_what_runs_is_not_forgotten() {
        let mut book = begun(JOBS_MAX);
        assert_eq!(book.begin(NOW, "redrive", "ada"), None);
        let finished = Progress { done: 3, state: JobState::Finished, ..BEGUN };
        assert!(book.end(7, &finished));
        assert!(!book.end(7, &finished), "it was over");
        assert_eq!(book.begin(NOW, "cancel", "bob").map(|it| it.number), Some(JOBS_MAX as u64 + 1));
        assert_eq!(book.find(7), None);
        assert_eq!(book.jobs.len(), JOBS_MAX);
        let later = NOW + ALIVE;
        assert_eq!(book.begin(later, "cancel", "bob").map(|it| it.number), Some(JOBS_MAX as u64 + 2));
        assert_eq!(book.find(1), None, "nobody kept it alive");
    }

    #[test]
    fn what_nobody_keeps_alive_is_interrupted_and_its_node_finds_that_too() {
        let mut book = begun(1);
        let progress = Progress { matched: 5, done: 4, skipped: 1, state: JobState::Running };
        let (early, late) = (NOW + ALIVE / 2, NOW + ALIVE / 2 + ALIVE);
        assert_eq!(book.keep(early, 1, &progress), Kept::Alive(late));
        assert_eq!(book.jobs[0].report(late - Duration::from_millis(1)).progress, progress);
        let lapsed = book.jobs[0].report(late).progress;
        assert_eq!(lapsed, Progress { state: JobState::Interrupted, ..progress.clone() });
        assert_eq!(book.keep(late, 1, &progress), Kept::Lapsed);
        assert!(matches!(book.abort(late, 1), Aborting::Over(_)));
    }

    #[test]
    fn an_abort_is_found_by_whoever_keeps_the_job() {
        let mut book = begun(1);
        assert!(matches!(book.abort(NOW, 1), Aborting::Told(_)));
        assert_eq!(book.keep(NOW, 1, &BEGUN), Kept::Aborted);
        assert_eq!(book.abort(NOW, 2), Aborting::NotFound);
        assert_eq!(book.keep(NOW, 2, &BEGUN), Kept::Lapsed);
        assert!(book.end(1, &Progress { state: JobState::Aborted, ..BEGUN }));
        assert!(matches!(book.abort(NOW, 1), Aborting::Over(_)));
    }

    #[test]
    fn what_was_written_is_read_again() {
        let mut book = begun(2);
        let failed = JobState::Failed("x".repeat(2 * ERROR_CHARS_MAX));
        assert!(book.end(2, &Progress { state: failed, ..BEGUN }));
        assert_eq!(Book::read(Some(&book.to_bytes())).unwrap(), book);
        assert_eq!(book.jobs[1].state, JobState::Failed("x".repeat(ERROR_CHARS_MAX)));
        assert_eq!(Book::read(None).unwrap(), Book::default());
        let old = br#"{"last": 1, "jobs": [{"number": 1, "action": "redrive", "who": "ada", "began_at_ms": 1,
            "alive_until_ms": 2, "matched": 3, "done": 2, "skipped": 1, "state": "canary_failed", "new": true}]}"#;
        assert_eq!(Book::read(Some(old)).unwrap().jobs[0].state, JobState::CanaryFailed);
        assert_eq!(Book::read(Some(b"[")).unwrap_err().kind(), StoreErrorKind::Corrupt);
    }
}
