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
//! 6. To stop what fails with one error is to go on until that holds. What is in progress cannot be parked, and nobody knows
//!    what its attempt will find; so every [`LOOK`] the job parks what has failed that way, and it is done when it found nothing
//!    twice, and nothing of the functions that fail that way was in progress. What fails on its own node meanwhile is parked
//!    [as it fails](super::stops). Where there is always something in progress, it
//!    goes on for [`STOP_MAX`], which is longer than any attempt that ran when it began.
//! 7. Its beginning and its end are in the audit log, and so is each execution that it changed, with the number of the job.
//!    Whatever an operation changes is judged by itself: what makes no sense where an execution stands is skipped and counted.
//!
//! How far it is, and whether somebody wants it to end, is [written](super::jobs) where all nodes find it. A job dies with its
//! node: what it has done stays done, and it can be started again.

use super::{
    Action, Operated,
    jobs::{self, ALIVE, Here, JobReport, JobState, KEPT_EVERY, Kept, Noted, Progress},
    operate::{By, is_anybodys, makes_sense, operate},
    stops::Stopping,
    words,
};
use crate::{
    engine::{
        Engine, LEASE_SLACK, Runtime, Stage,
        gate::ramp::{RAMP, ramped},
        locked,
    },
    function::Rate,
};
use semel_core::{
    execution::{ErrorPrint, Execution, ExecutionId},
    queue::{Filter, GoOn, PAGE_MAX},
    record::Status,
    retry::TIMEOUT_MAX,
    sabotage::is_on,
    store::StoreError,
    time::Timestamp,
};
use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::watch;

/// How long a canary is waited for.
pub const CANARY_WAIT_MAX: Duration = Duration::from_mins(10);
/// How often it is looked at.
const CANARY_POLL: Duration = Duration::from_secs(1);
/// How often a job that stops what fails looks again.
const LOOK: Duration = Duration::from_secs(1);
/// How often in a row it finds nothing before it is done. Between two questions to the queue, what was in progress may wait
/// again, and be in progress by the next.
const CALM_LOOKS: u32 = 2;
/// How long it goes on at most.
const STOP_MAX: Duration = Duration::from_mins(65);
const _: () = assert!(STOP_MAX.as_secs() > TIMEOUT_MAX.as_secs() + LEASE_SLACK.as_secs());

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

/// An operation on many executions, as the node has it that runs it.
#[derive(Clone, Debug)]
pub struct Job {
    begun: JobReport,
    progress: watch::Receiver<Progress>,
}

impl Job {
    /// Its number, on all nodes.
    pub const fn number(&self) -> u64 {
        self.begun.number
    }

    /// How far it is at this moment.
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// As any node would tell of it.
    pub fn report(&self) -> JobReport {
        JobReport { progress: self.progress(), ..self.begun.clone() }
    }

    /// Waits until it is over, and that is written.
    pub async fn finished(&mut self) -> Progress {
        let over = self.progress.wait_for(|it| it.state.is_over()).await.map(|it| it.clone());
        // Its node is gone, and it with it.
        over.unwrap_or_else(|_| Progress { state: JobState::Interrupted, ..self.progress() })
    }
}

impl Runtime {
    /// Does this to all executions that match, in the background. `None` if too many such jobs run already.
    pub async fn bulk(
        &self,
        filter: Filter,
        action: Action,
        options: BulkOptions,
        who: &str,
    ) -> Result<Option<Job>, StoreError> {
        self.bulk_each(vec![filter], action, options, who).await
    }

    /// The same for what matches one of these, one after the other.
    pub async fn bulk_each(
        &self,
        filters: Vec<Filter>,
        action: Action,
        options: BulkOptions,
        who: &str,
    ) -> Result<Option<Job>, StoreError> {
        self.bulk_then(filters, action, options, who, Course::Once).await
    }

    /// The same, and goes on as this says.
    pub(super) async fn bulk_then(
        &self,
        filters: Vec<Filter>,
        action: Action,
        options: BulkOptions,
        who: &str,
        course: Course,
    ) -> Result<Option<Job>, StoreError> {
        let engine = self.engine();
        let detail = words::job(action.as_str(), &filters, &options);
        let noted = (!options.dry_run).then_some(Noted { who, what: "job", detail: &detail });
        let Some(begun) = jobs::begin(engine, action.as_str(), who, noted).await? else { return Ok(None) };
        let (tell, progress) = watch::channel(begun.progress.clone());
        let abort = Arc::new(watch::Sender::new(false));
        let bulk = Bulk {
            engine: Arc::clone(engine),
            number: begun.number,
            filters,
            course,
            functions: Mutex::default(),
            action,
            options,
            who: who.to_owned(),
            tell,
            aborted: abort.subscribe(),
            alive_until: watch::Sender::new(begun.began_at + ALIVE),
            here: Here::new(Arc::clone(engine), begun.number, abort),
        };
        engine.tasks.spawn(bulk.run());
        Ok(Some(Job { begun, progress }))
    }

    /// Parks everything that waits after it failed with this error, until somebody unparks or cancels it; and what fails with
    /// it while anything of the same functions is in progress.
    pub async fn stop_errors(&self, print: ErrorPrint, who: &str) -> Result<Option<Job>, StoreError> {
        let filter = Filter { error: Some(print), status: Some(Status::Pending), ..Filter::default() };
        let course = if is_on("errors_stopped_once") { Course::Once } else { Course::UntilCalm };
        self.bulk_then(vec![filter], Action::Park, BulkOptions::default(), who, course).await
    }
}

/// What a job does when it has gone through everything that matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Course {
    /// It is done.
    Once,
    /// It lets the queue go on.
    ThenGoOn(GoOn),
    /// It begins again, until nothing matches and nothing is in progress that may.
    UntilCalm,
}

struct Bulk {
    engine: Arc<Engine>,
    number: u64,
    filters: Vec<Filter>,
    course: Course,
    /// Of which something has matched, where that matters.
    functions: Mutex<BTreeSet<Arc<str>>>,
    action: Action,
    options: BulkOptions,
    who: String,
    tell: watch::Sender<Progress>,
    aborted: watch::Receiver<bool>,
    /// Until when every node believes that it lives.
    alive_until: watch::Sender<Timestamp>,
    here: Here,
}

impl Bulk {
    async fn run(self) {
        let acted = tokio::select! {
            biased;
            acted = self.act() => acted,
            never = self.keep() => match never {},
        };
        let state = acted.unwrap_or_else(|error| JobState::Failed(error.to_string()));
        let ended = Progress { state, ..self.tell.borrow().clone() };
        self.end(&ended).await;
        self.tell.send_replace(ended);
        drop(self.here);
    }

    /// Writes every now and then how far it is, and finds out whether it may go on.
    async fn keep(&self) -> Infallible {
        loop {
            self.engine.clock.sleep(KEPT_EVERY).await;
            let progress = self.tell.borrow().clone();
            match jobs::keep(&self.engine, self.number, &progress).await {
                Ok(Kept::Alive(until)) => {
                    self.alive_until.send_replace(until);
                }
                Ok(Kept::Aborted) => self.here.abort(),
                Ok(Kept::Lapsed) => {
                    self.alive_until.send_replace(Timestamp::EPOCH);
                }
                Err(error) => {
                    tracing::warn!(%error, job = self.number, "how far a job is could not be written");
                }
            }
        }
    }

    /// Writes how it ended, as long as others believe that it lives: after that they know that it is over.
    async fn end(&self, ended: &Progress) {
        let Progress { matched, done, skipped, state } = ended;
        let detail = format!("{matched} matched, {done} changed, {skipped} skipped: {}", words::state(state));
        loop {
            let noted = Noted { who: &self.who, what: "end of job", detail: &detail };
            let Err(error) = jobs::end(&self.engine, self.number, ended, noted).await else { return };
            tracing::warn!(%error, job = self.number, "the end of a job could not be written");
            if !self.is_alive() || self.engine.stage() >= Stage::Interrupting {
                return;
            }
            self.engine.clock.sleep(KEPT_EVERY).await;
        }
    }

    async fn act(&self) -> Result<JobState, StoreError> {
        let began = self.engine.clock.monotonic();
        let mut canary = self.options.canary.filter(|_| !self.options.dry_run).map(Canary::new);
        for filter in &self.filters {
            let stopped = self.act_on_all(filter, &mut canary, began).await?;
            if let Some(state) = stopped {
                return Ok(state);
            }
        }
        match self.course {
            Course::Once => {}
            Course::ThenGoOn(how) => self.engine.queue.go_on(how).await?,
            Course::UntilCalm => return self.act_until_calm(began).await,
        }
        Ok(JobState::Finished)
    }

    /// Goes through everything again and again, until there is nothing left that may match.
    async fn act_until_calm(&self, began: Duration) -> Result<JobState, StoreError> {
        let stopping = |it: &Filter| it.error.map(|it| Stopping::new(&self.engine, it, &self.tell));
        let _until_it_is_over: Vec<_> = self.filters.iter().filter_map(stopping).collect();
        let mut calm = 0;
        while calm < CALM_LOOKS && self.engine.clock.monotonic() < began + STOP_MAX {
            self.wait(LOOK).await;
            let matched = self.tell.borrow().matched;
            let mut is_busy = false;
            for filter in &self.filters {
                is_busy |= self.is_busy(filter).await?;
                if let Some(state) = self.act_on_all(filter, &mut None, began).await? {
                    return Ok(state);
                }
            }
            let found_nothing = self.tell.borrow().matched == matched;
            calm = if found_nothing && !is_busy { calm + 1 } else { 0 };
        }
        Ok(JobState::Finished)
    }

    /// Whether anything is in progress that has matched before, or is of a function of which something has.
    async fn is_busy(&self, filter: &Filter) -> Result<bool, StoreError> {
        let running = Filter { status: Some(Status::InProgress), ..filter.clone() };
        if self.has_any(&running).await? {
            return Ok(true);
        }
        let functions = locked(&self.functions).clone();
        for function in functions {
            let running =
                Filter { function: Some(function), status: Some(Status::InProgress), ..Filter::default() };
            if self.has_any(&running).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether anything matches. A page may be empty though there are more.
    async fn has_any(&self, filter: &Filter) -> Result<bool, StoreError> {
        let mut from = None;
        loop {
            let page = self.engine.queue.list(filter, from.as_ref(), PAGE_MAX).await?;
            locked(&self.functions).extend(page.items.iter().map(|it| Arc::clone(&it.value.function)));
            from = page.next;
            if !page.items.is_empty() || from.is_none() {
                return Ok(!page.items.is_empty());
            }
        }
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
            if self.course == Course::UntilCalm {
                locked(&self.functions).extend(page.items.iter().map(|it| Arc::clone(&it.value.function)));
            }
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
            if let Some(state) = self.stopped() {
                return Ok(Some(state));
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
        // Whoever comes again and again does not count what it has parked already.
        let is_left = || self.course != Course::UntilCalm || execution.due_at().is_some();
        is_anybodys(execution) && !execution.is_expired(now) && is_dead() && is_left()
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

    /// How the job ended, if it was aborted, or its node stops, or others take it for interrupted.
    fn stopped(&self) -> Option<JobState> {
        if *self.aborted.borrow() {
            return Some(JobState::Aborted);
        }
        let may_go_on = self.engine.stage() == Stage::Running && self.is_alive();
        (!may_go_on).then_some(JobState::Interrupted)
    }

    fn is_alive(&self) -> bool {
        self.engine.clock.now() < *self.alive_until.borrow()
    }

    /// Waits for so long, unless the job is over before.
    async fn wait(&self, time: Duration) {
        let (mut aborted, mut alive_until) = (self.aborted.clone(), self.alive_until.subscribe());
        tokio::select! {
            biased;
            _ = aborted.wait_for(|it| *it) => {}
            _ = alive_until.wait_for(|it| *it == Timestamp::EPOCH) => {}
            () = self.engine.raised(Stage::Keeping) => {}
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
            return Ok(Some(self.stopped().unwrap_or(JobState::CanaryFailed)));
        }
        if let Some(rate) = &self.options.rate
            && self.tell.borrow().matched > 0
        {
            let since = self.engine.clock.monotonic().saturating_sub(began);
            self.wait(pause(rate, since)).await;
        }
        if let Some(state) = self.stopped() {
            return Ok(Some(state));
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
        let by = By { who: &self.who, job: Some(self.number) };
        let is_done = match operate(&self.engine, id, &self.action, by).await? {
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
            if self.engine.clock.monotonic() >= until || self.stopped().is_some() {
                return Ok(false);
            }
            self.wait(CANARY_POLL).await;
        }
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
