//! What an operator does to many executions.
//!
//! 1. It runs in the background, page by page, and can be watched and aborted: between two executions, while it waits for its
//!    rate, and while it waits for its canary.
//! 2. A dry run only counts, and says what would be skipped.
//! 3. A rate slows it down, and rises to its full height over the first [`RAMP`], so that a target that just came back is not
//!    run over. The first goes at once.
//! 4. A canary is a few that go first. The rest goes when all of them took effect; if one failed again, or none of it is known
//!    after [`CANARY_WAIT_MAX`], the job stops.
//! 5. To redrive what failed is to redrive [dead letters](Execution::is_dead_letter): what an operator cancelled is redriven
//!    only where that reason is asked for.
//! 6. Its beginning and its end are in the audit log. Whatever an operation changes is judged by itself: what makes no sense
//!    where an execution stands is skipped and counted.
//!
//! A job dies with its node. What it has done stays done, and it can be started again.

use super::{
    Action, Auditing, Operated,
    operate::{is_anybodys, makes_sense, operate},
    words,
};
use crate::{
    engine::{
        Engine, Runtime, Stage,
        gate::ramp::{RAMP, ramped},
        locked,
    },
    function::Rate,
};
use semel_core::{
    execution::{ErrorPrint, Execution, ExecutionId},
    queue::{Filter, GoOn, PAGE_MAX},
    record::Status,
    store::StoreError,
    time::Timestamp,
};
use std::{
    collections::VecDeque,
    sync::{Arc, MutexGuard},
    time::Duration,
};
use tokio::sync::watch;

/// Most jobs that a node remembers; the oldest that ended are forgotten.
pub const JOBS_MAX: usize = 32;
/// How long a canary is waited for.
pub const CANARY_WAIT_MAX: Duration = Duration::from_mins(10);
/// How often it is looked at.
const CANARY_POLL: Duration = Duration::from_secs(1);

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
    abort: Arc<watch::Sender<bool>>,
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
        self.abort.send_replace(true);
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
        let (abort, aborted) = watch::channel(false);
        let job = engine.jobs().add(action.as_str(), progress, abort)?;
        let bulk = Bulk {
            engine: Arc::clone(engine),
            number: job.number,
            filters,
            then,
            action,
            options,
            who: who.to_owned(),
            tell,
            aborted,
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
        abort: watch::Sender<bool>,
    ) -> Option<Job> {
        if self.jobs.len() >= JOBS_MAX {
            let over = self.jobs.iter().position(|it| it.progress.borrow().state.is_over())?;
            self.jobs.remove(over);
        }
        self.last += 1;
        let job = Job { number: self.last, action, progress, abort: Arc::new(abort) };
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
    aborted: watch::Receiver<bool>,
}

impl Bulk {
    async fn run(self) {
        let state = match self.act().await {
            Ok(state) => state,
            Err(error) => JobState::Failed(error.to_string()),
        };
        self.tell.send_modify(|it| it.state = state);
        let Progress { matched, done, skipped, state } = self.tell.borrow().clone();
        let detail =
            format!("{matched} matched, {done} changed, {skipped} skipped: {}", words::state(&state));
        if let Err(error) = self.note("end of job", &detail).await {
            tracing::warn!(%error, "the end of a job could not be noted");
        }
    }

    async fn act(&self) -> Result<JobState, StoreError> {
        if !self.options.dry_run {
            self.note("job", &words::job(self.action.as_str(), &self.filters, &self.options)).await?;
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
            let now = self.engine.clock.now();
            let meant = page.items.iter().map(|it| &it.value).filter(|it| self.means(now, filter, it));
            if self.options.dry_run {
                self.count(now, meant);
            } else {
                let ids: Vec<_> = meant.map(Execution::id).collect();
                for id in ids {
                    let stopped = self.act_in_turn(id, canary, began).await?;
                    if stopped.is_some() {
                        return Ok(stopped);
                    }
                }
            }
            if self.is_over() {
                return Ok(Some(JobState::Aborted));
            }
            from = page.next;
            if from.is_none() {
                return Ok(None);
            }
        }
    }

    /// Whether an execution that was found is one of those that are meant.
    fn means(&self, now: Timestamp, filter: &Filter, execution: &Execution) -> bool {
        let is_dead = || match self.action {
            Action::Redrive(_) => filter.reason.is_some() || execution.is_dead_letter(),
            Action::Cancel | Action::Park | Action::Unpark | Action::Resolve(_) => true,
        };
        is_anybodys(execution) && !execution.is_expired(now) && is_dead()
    }

    /// Says what would be done to these.
    fn count<'a>(&self, now: Timestamp, executions: impl Iterator<Item = &'a Execution>) {
        let (mut matched, mut skipped) = (0, 0);
        for execution in executions {
            matched += 1;
            skipped += u64::from(!makes_sense(now, execution, &self.action));
        }
        self.tell.send_modify(|it| {
            it.matched += matched;
            it.skipped += skipped;
        });
    }

    /// Whether the job was aborted, or its node stops.
    fn is_over(&self) -> bool {
        *self.aborted.borrow() || self.engine.stage() != Stage::Running
    }

    /// Waits for so long, unless the job is over before.
    async fn wait(&self, time: Duration) {
        let mut aborted = self.aborted.clone();
        tokio::select! {
            biased;
            _ = aborted.wait_for(|it| *it) => {}
            () = self.engine.raised(Stage::Stopping) => {}
            () = self.engine.clock.sleep(time) => {}
        }
    }

    /// Operates on one when it is its turn. How the job ended, if it does before.
    async fn act_in_turn(
        &self,
        id: ExecutionId,
        canary: &mut Option<Canary>,
        began: Duration,
    ) -> Result<Option<JobState>, StoreError> {
        if canary.as_ref().is_some_and(Canary::is_full)
            && let Some(canary) = canary.take()
            && !self.is_well(&canary.ids).await?
        {
            return Ok(Some(if self.is_over() { JobState::Aborted } else { JobState::CanaryFailed }));
        }
        if let Some(rate) = &self.options.rate
            && self.tell.borrow().matched > 0
        {
            let since = self.engine.clock.monotonic().saturating_sub(began);
            self.wait(pause(rate, since)).await;
        }
        if self.is_over() {
            return Ok(Some(JobState::Aborted));
        }
        let is_done = self.act_on(id).await?;
        if let Some(canary) = canary.as_mut().filter(|_| is_done) {
            canary.ids.push(id);
        }
        Ok(None)
    }

    /// Operates on one. Whether it was changed.
    async fn act_on(&self, id: ExecutionId) -> Result<bool, StoreError> {
        self.tell.send_modify(|it| it.matched += 1);
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
            self.wait(CANARY_POLL).await;
        }
    }

    async fn note(&self, what: &str, detail: &str) -> Result<(), StoreError> {
        let subject = format!("job {}", self.number);
        let auditing = Auditing { who: &self.who, what, subject: &subject, detail };
        let execution = auditing.execution(&self.engine);
        let _new = self.engine.queue.accept(&[execution]).await?;
        Ok(())
    }
}

/// How long to wait between two, so long after the beginning: longer while the rate rises, but no longer than until it has
/// risen and one more is due.
fn pause(rate: &Rate, since: Duration) -> Duration {
    let interval = rate.interval();
    let rising = interval.saturating_mul(100) / ramped(100, since);
    rising.min(RAMP.saturating_sub(since) + interval)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_rises_and_a_slow_one_is_not_slower_for_long() {
        let (second, hour) = (Duration::from_secs(1), Duration::from_hours(1));
        let often = Rate::new(10, second).expect("it is one");
        assert_eq!(pause(&often, Duration::ZERO), second);
        assert_eq!(pause(&often, RAMP), second / 10);
        let seldom = Rate::new(1, hour).expect("it is one");
        assert_eq!(pause(&seldom, Duration::ZERO), RAMP + hour);
        assert_eq!(pause(&seldom, RAMP), hour);
    }
}
