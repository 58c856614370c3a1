//! What an operator does to many executions.
//!
//! 1. It runs in the background, page by page, and can be watched and aborted: between two executions, while it waits for its
//!    rate, and while it waits for its canary.
//! 2. A dry run only counts, and says what would be skipped.
//! 3. A rate slows it down, and [rises](super::canary) to its full height, so that a target that just came back is not run
//!    over. The first goes at once.
//! 4. A [canary](super::canary) is a few that go first. The rest goes when all of them took effect; if one failed again, or
//!    none of it is known after [`CANARY_WAIT_MAX`], the job stops.
//! 5. To redrive what failed is to redrive [dead letters](Execution::is_dead_letter): what an operator cancelled is redriven
//!    only where that reason is asked for. The [oldest](super::oldest) goes first: of what has an order, the last effect is
//!    that of the latest event.
//! 6. To stop what fails with one error is to go on [until that holds](super::calm).
//! 7. Its beginning and its end are in the audit log, and so is each execution that it changed, with the number of the job.
//!    A dry run changes nothing, and is in no log. Whatever an operation changes is judged by itself: what makes no sense where
//!    an execution stands is skipped and counted.
//!
//! How far it is, and whether somebody wants it to end, is [written](super::jobs) where all nodes find it. A job dies with its
//! node: what it has done stays done, and it can be started again.

use super::{
    Action, Operated,
    canary::{Canary, Health, pause},
    jobs::{self, ALIVE, Here, JobReport, JobState, KEPT_EVERY, Kept, Noted, Progress},
    oldest::{GATHERED_MAX, Gathered, Gathering, Span},
    operate::{By, is_anybodys, makes_sense, operate},
    words,
};
use crate::{
    engine::{Engine, Runtime, Stage, locked},
    function::Rate,
};
use semel_core::{
    execution::{ErrorPrint, Execution, ExecutionId},
    queue::{Filter, GoOn, PAGE_MAX},
    record::Status,
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

pub(super) struct Bulk {
    pub(super) engine: Arc<Engine>,
    pub(super) number: u64,
    pub(super) filters: Vec<Filter>,
    course: Course,
    /// Of which something has matched, where that matters.
    pub(super) functions: Mutex<BTreeSet<Arc<str>>>,
    action: Action,
    options: BulkOptions,
    pub(super) who: String,
    pub(super) tell: watch::Sender<Progress>,
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
            let noted = (!self.options.dry_run).then_some(noted);
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
        let canary = self.options.canary.filter(|_| !self.options.dry_run).map(Canary::new);
        let mut pace = Pace { began, canary };
        for filter in &self.filters {
            let stopped = self.act_on_all(filter, &mut pace).await?;
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

    /// Operates on all that match. How it ended, if it was before the last of them.
    pub(super) async fn act_on_all(
        &self,
        filter: &Filter,
        pace: &mut Pace,
    ) -> Result<Option<JobState>, StoreError> {
        if matches!(self.action, Action::Redrive(_)) && !self.options.dry_run {
            return self.act_on_oldest_first(filter, pace).await;
        }
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
                if let Some(state) = self.act_on_these(ids, pace).await? {
                    return Ok(Some(state));
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

    /// The same, from the oldest to the latest.
    async fn act_on_oldest_first(
        &self,
        filter: &Filter,
        pace: &mut Pace,
    ) -> Result<Option<JobState>, StoreError> {
        let mut spans = vec![Span::of(filter)];
        while let Some(span) = spans.pop() {
            let stopped = match self.gather(&span.within(filter), span).await? {
                Some(Gathered::Whole(ids)) => self.act_on_these(ids, pace).await?,
                Some(Gathered::Spans(parts)) => {
                    spans.extend(parts);
                    None
                }
                None => self.stopped(),
            };
            if stopped.is_some() {
                return Ok(stopped);
            }
        }
        Ok(self.stopped())
    }

    /// What matches in a span; nothing if the job is over before that is known.
    async fn gather(&self, filter: &Filter, span: Span) -> Result<Option<Gathered>, StoreError> {
        let (mut from, mut gathering) = (None, Gathering::new(span, GATHERED_MAX));
        loop {
            let page = self.engine.queue.list(filter, from.as_ref(), PAGE_MAX).await?;
            let now = self.engine.clock.now();
            for it in page.items.iter().map(|it| &it.value) {
                gathering.add(it, self.means(now, filter, it));
            }
            from = page.next;
            if self.stopped().is_some() {
                return Ok(None);
            }
            if from.is_none() {
                return Ok(Some(gathering.finish()));
            }
        }
    }

    /// Operates on these, each in its turn.
    async fn act_on_these(
        &self,
        ids: Vec<ExecutionId>,
        pace: &mut Pace,
    ) -> Result<Option<JobState>, StoreError> {
        for id in ids {
            let stopped = self.act_in_turn(id, pace).await?;
            if stopped.is_some() {
                return Ok(stopped);
            }
        }
        Ok(None)
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
    pub(super) async fn wait(&self, time: Duration) {
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
    async fn act_in_turn(&self, id: ExecutionId, pace: &mut Pace) -> Result<Option<JobState>, StoreError> {
        if pace.canary.as_ref().is_some_and(Canary::is_full)
            && let Some(canary) = pace.canary.take()
        {
            if !self.is_well(&canary).await? {
                return Ok(Some(self.stopped().unwrap_or(JobState::CanaryFailed)));
            }
            if !is_on("rate_risen_after_its_canary") {
                pace.began = self.engine.clock.monotonic();
            }
        }
        if let Some(rate) = &self.options.rate
            && self.tell.borrow().matched > 0
        {
            let since = self.engine.clock.monotonic().saturating_sub(pace.began);
            self.wait(pause(rate, since)).await;
        }
        if let Some(state) = self.stopped() {
            return Ok(Some(state));
        }
        let done = self.act_on(id).await?;
        if let (Some(canary), Some(done)) = (&mut pace.canary, done) {
            canary.add(&done);
        }
        Ok(None)
    }

    /// Operates on one. What stands now, if it was changed.
    async fn act_on(&self, id: ExecutionId) -> Result<Option<Execution>, StoreError> {
        self.tell.send_modify(|it| it.matched += 1);
        let by = By { who: &self.who, job: Some(self.number) };
        let done = match operate(&self.engine, id, &self.action, by).await? {
            Operated::Done(stands) => Some(stands.value),
            Operated::NotFound | Operated::Refused(_) => None,
        };
        self.tell.send_modify(|it| if done.is_some() { it.done += 1 } else { it.skipped += 1 });
        Ok(done)
    }

    /// Waits until the canary took effect. Whether all of it did.
    async fn is_well(&self, canary: &Canary) -> Result<bool, StoreError> {
        self.tell.send_modify(|it| it.state = JobState::Canary);
        let (ids, until) = (canary.ids(), self.engine.clock.monotonic() + CANARY_WAIT_MAX);
        loop {
            let found = self.engine.queue.get(&ids).await?;
            match canary.health(found.iter().map(|it| it.as_ref().map(|it| &it.value))) {
                Health::Failed => return Ok(false),
                Health::Well => {
                    self.tell.send_modify(|it| it.state = JobState::Running);
                    return Ok(true);
                }
                Health::Waiting => {}
            }
            if self.engine.clock.monotonic() >= until || self.stopped().is_some() {
                return Ok(false);
            }
            self.wait(CANARY_POLL).await;
        }
    }
}

/// Whose turn it is, and when.
pub(super) struct Pace {
    /// When the rate began to rise.
    pub(super) began: Duration,
    /// Those that go first, until they have.
    pub(super) canary: Option<Canary>,
}
