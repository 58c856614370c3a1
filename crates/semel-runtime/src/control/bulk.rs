//! What an operator does to many executions.
//!
//! 1. It runs in the background, page by page, and can be watched and aborted.
//! 2. A dry run only counts.
//! 3. A rate slows it down, and rises to its full height over the first [`RAMP`](crate::engine::gate::ramp::RAMP), so that a
//!    target that just came back is not run over.
//! 4. A canary is a few that go first. The rest goes when all of them took effect; if one failed again, or none of it is known
//!    after [`CANARY_WAIT_MAX`], the job stops.
//! 5. Its beginning and its end are in the audit log. Whatever an operation changes is judged by itself: what makes no sense
//!    where an execution stands is skipped and counted.
//!
//! A job dies with its node. What it has done stays done, and it can be started again.

use super::{
    Action, Auditing, Operated,
    operate::{is_anybodys, operate},
};
use crate::{
    engine::{Engine, Runtime, Stage, gate::ramp::ramped, locked},
    function::Rate,
};
use semel_core::{
    execution::{ErrorPrint, Execution, ExecutionId},
    queue::{Filter, GoOn, PAGE_MAX},
    record::Status,
    store::StoreError,
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// Most jobs that a node remembers; the oldest that ended are forgotten.
pub const JOBS_MAX: usize = 32;
/// How long a canary is waited for.
pub const CANARY_WAIT_MAX: Duration = Duration::from_mins(10);
/// How often it is looked at.
const CANARY_POLL: Duration = Duration::from_secs(1);
/// How many executions are operated on between two looks at whether the job was aborted.
const STEP: usize = 16;

/// How a job goes about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BulkOptions {
    /// Only count.
    pub dry_run: bool,
    /// Not faster than this.
    pub rate: Option<Rate>,
    /// So many first.
    pub canary: Option<u32>,
}

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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobState {
    /// It does.
    Running,
    /// It waits for its canary.
    Canary,
    /// It has done everything.
    Finished,
    /// Somebody stopped it.
    Aborted,
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

/// An operation on many executions.
#[derive(Clone, Debug)]
pub struct Job {
    number: u64,
    action: &'static str,
    progress: watch::Receiver<Progress>,
    is_aborted: Arc<AtomicBool>,
}

impl Job {
    /// Its number on this node.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// What it does.
    pub const fn action(&self) -> &'static str {
        self.action
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Stops it soon. What it has done stays done.
    pub fn abort(&self) {
        self.is_aborted.store(true, Ordering::Relaxed);
    }

    /// Waits until it is over.
    pub async fn finished(&mut self) -> Progress {
        let over = self.progress.wait_for(|it| it.state.is_over()).await.map(|it| it.clone());
        // Its node is gone, and it with it.
        over.unwrap_or_else(|_| Progress { state: JobState::Aborted, ..self.progress() })
    }
}

/// The jobs that a node remembers.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    jobs: VecDeque<Job>,
    last: u64,
}

impl Runtime {
    /// Does this to all executions that match, in the background. `None` if too many such jobs run already.
    pub fn bulk(&self, filter: Filter, action: Action, options: BulkOptions, who: &str) -> Option<Job> {
        self.bulk_then(vec![filter], action, options, who, None)
    }

    /// The same for what matches one of these, one after the other; and when it is done, lets the queue go on.
    pub(super) fn bulk_then(
        &self,
        filters: Vec<Filter>,
        action: Action,
        options: BulkOptions,
        who: &str,
        then: Option<GoOn>,
    ) -> Option<Job> {
        let engine = self.engine();
        let (tell, progress) =
            watch::channel(Progress { matched: 0, done: 0, skipped: 0, state: JobState::Running });
        let is_aborted = Arc::new(AtomicBool::new(false));
        let job = engine.jobs().add(action.as_str(), progress, &is_aborted)?;
        let bulk = Bulk {
            engine: Arc::clone(engine),
            number: job.number,
            filters,
            then,
            action,
            options,
            who: who.to_owned(),
            tell,
            is_aborted,
        };
        engine.tasks.spawn(bulk.run());
        Some(job)
    }

    /// Parks everything that waits after it failed with this error, until somebody unparks or cancels it.
    pub fn stop_errors(&self, print: ErrorPrint, who: &str) -> Option<Job> {
        let filter = Filter { error: Some(print), status: Some(Status::Pending), ..Filter::default() };
        self.bulk(filter, Action::Park, BulkOptions::default(), who)
    }

    /// The jobs of this node, the latest last.
    pub fn jobs(&self) -> Vec<Job> {
        self.engine().jobs().jobs.iter().cloned().collect()
    }
}

impl Jobs {
    fn add(
        &mut self,
        action: &'static str,
        progress: watch::Receiver<Progress>,
        is_aborted: &Arc<AtomicBool>,
    ) -> Option<Job> {
        if self.jobs.len() >= JOBS_MAX {
            let over = self.jobs.iter().position(|it| it.progress.borrow().state.is_over())?;
            self.jobs.remove(over);
        }
        self.last += 1;
        let job = Job { number: self.last, action, progress, is_aborted: Arc::clone(is_aborted) };
        self.jobs.push_back(job.clone());
        Some(job)
    }
}

struct Bulk {
    engine: Arc<Engine>,
    number: u64,
    filters: Vec<Filter>,
    then: Option<GoOn>,
    action: Action,
    options: BulkOptions,
    who: String,
    tell: watch::Sender<Progress>,
    is_aborted: Arc<AtomicBool>,
}

impl Bulk {
    async fn run(self) {
        let state = match self.act().await {
            Ok(state) => state,
            Err(error) => JobState::Failed(error.to_string()),
        };
        self.tell.send_modify(|it| it.state = state);
        let Progress { matched, done, skipped, state } = self.tell.borrow().clone();
        let detail = format!("{matched} matched, {done} changed, {skipped} skipped: {state:?}");
        if let Err(error) = self.note("end of job", &detail).await {
            tracing::warn!(%error, "the end of a job could not be noted");
        }
    }

    async fn act(&self) -> Result<JobState, StoreError> {
        if !self.options.dry_run {
            self.note("job", &format!("{} of {:?}", self.action.as_str(), self.filters)).await?;
        }
        let began = self.engine.clock.monotonic();
        let mut canary = self.options.canary.filter(|_| !self.options.dry_run).map(Canary::new);
        for filter in &self.filters {
            let stopped = self.act_on_all(filter, &mut canary, began).await?;
            if let Some(state) = stopped {
                return Ok(state);
            }
        }
        if let Some(how) = self.then {
            self.engine.queue.go_on(how).await?;
        }
        Ok(JobState::Finished)
    }

    /// Operates on all that match. How it ended, if it was before the last of them.
    async fn act_on_all(
        &self,
        filter: &Filter,
        canary: &mut Option<Canary>,
        began: Duration,
    ) -> Result<Option<JobState>, StoreError> {
        let mut from = None;
        loop {
            let page = self.engine.queue.list(filter, from.as_ref(), PAGE_MAX).await?;
            let ids: Vec<_> =
                page.items.iter().filter(|it| is_anybodys(&it.value)).map(|it| it.value.id()).collect();
            for ids in ids.chunks(STEP) {
                if self.is_over() {
                    return Ok(Some(JobState::Aborted));
                }
                for id in ids {
                    if canary.as_ref().is_some_and(Canary::is_full)
                        && let Some(canary) = canary.take()
                        && !self.is_well(&canary.ids).await?
                    {
                        return Ok(Some(JobState::CanaryFailed));
                    }
                    let is_done = self.act_on(*id, began).await?;
                    if let Some(canary) = canary.as_mut().filter(|_| is_done) {
                        canary.ids.push(*id);
                    }
                }
            }
            from = page.next;
            if from.is_none() {
                return Ok(None);
            }
        }
    }

    /// Whether the job was aborted, or its node stops.
    fn is_over(&self) -> bool {
        self.is_aborted.load(Ordering::Relaxed) || self.engine.stage() != Stage::Running
    }

    /// Operates on one. Whether it was changed.
    async fn act_on(&self, id: ExecutionId, began: Duration) -> Result<bool, StoreError> {
        self.tell.send_modify(|it| it.matched += 1);
        if self.options.dry_run {
            return Ok(false);
        }
        if let Some(rate) = &self.options.rate {
            let since = self.engine.clock.monotonic().saturating_sub(began);
            let percent = ramped(100, since);
            self.engine.clock.sleep(rate.interval() * 100 / percent).await;
        }
        let is_done = match operate(&self.engine, id, &self.action, None).await? {
            Operated::Done(_) => true,
            Operated::NotFound | Operated::Refused(_) => false,
        };
        self.tell.send_modify(|it| if is_done { it.done += 1 } else { it.skipped += 1 });
        Ok(is_done)
    }

    /// Waits until the canary took effect. Whether all of it did.
    async fn is_well(&self, ids: &[ExecutionId]) -> Result<bool, StoreError> {
        self.tell.send_modify(|it| it.state = JobState::Canary);
        let until = self.engine.clock.monotonic() + CANARY_WAIT_MAX;
        loop {
            let found = self.engine.queue.get(ids).await?;
            let health: Vec<_> = found.iter().flatten().map(|it| canary_health(&it.value)).collect();
            if health.contains(&CanaryHealth::Failed) {
                return Ok(false);
            }
            if !health.contains(&CanaryHealth::Waiting) {
                self.tell.send_modify(|it| it.state = JobState::Running);
                return Ok(true);
            }
            if self.engine.clock.monotonic() >= until || self.is_over() {
                return Ok(false);
            }
            self.engine.clock.sleep(CANARY_POLL).await;
        }
    }

    async fn note(&self, what: &str, detail: &str) -> Result<(), StoreError> {
        let subject = format!("job {}", self.number);
        let auditing = Auditing { who: &self.who, what, subject: &subject, detail };
        let execution = auditing.execution(self.engine.clock.now(), self.engine.chance.holder());
        let _new = self.engine.queue.accept(&[execution]).await?;
        Ok(())
    }
}

struct Canary {
    size: usize,
    ids: Vec<ExecutionId>,
}

impl Canary {
    fn new(size: u32) -> Self {
        // One page at most: they are looked at together.
        Self { size: size.clamp(1, PAGE_MAX) as usize, ids: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.ids.len() >= self.size
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CanaryHealth {
    Well,
    Waiting,
    Failed,
}

/// A canary that has to be tried again has failed: the rest would, too.
fn canary_health(execution: &Execution) -> CanaryHealth {
    match execution.status() {
        Status::Completed => CanaryHealth::Well,
        Status::Failed => CanaryHealth::Failed,
        Status::Pending if execution.attempts > 0 => CanaryHealth::Failed,
        Status::Pending | Status::InProgress => CanaryHealth::Waiting,
    }
}

impl Engine {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        locked(&self.jobs)
    }
}
