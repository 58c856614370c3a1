//! One world of the model, and the ones it can become.

use super::setup::{Broken, Guard, Operator, Setup, Step};
use crate::given::at;
use semel_core::{
    call::{self, Decision, Resolution},
    fence::Fence,
    record::{Body, Reason, Record, State, Stored},
    time::Timestamp,
};
use std::collections::HashMap;

/// Swaps that a caller tries before it gives up.
const SWAPS_MAX: u8 = 3;

/// A record by number: worlds stay small, and equal records are equal numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Id(u16);

#[derive(Default)]
pub(super) struct Interned {
    records: Vec<Record>,
    ids: HashMap<Record, Id>,
}

impl Interned {
    fn id(&mut self, record: Record) -> Id {
        if let Some(id) = self.ids.get(&record) {
            return *id;
        }
        let id = Id(u16::try_from(self.records.len()).expect("a small model has few records"));
        self.records.push(record.clone());
        self.ids.insert(record, id);
        id
    }

    fn get(&self, id: Id) -> &Record {
        &self.records[usize::from(id.0)]
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}

/// A record where it stands, under its fence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Row {
    fence: u8,
    record: Id,
}

/// A write on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Write {
    expected: Option<u8>,
    record: Id,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Caller {
    /// About to decide on what it last saw.
    Deciding {
        found: Option<Row>,
        swaps: u8,
    },
    /// The claiming swap is in flight.
    Swapping {
        write: Write,
        swaps: u8,
        reports: bool,
    },
    /// Believes to hold the lease; the effect has not happened yet.
    Leased {
        row: Row,
    },
    /// The effect has happened.
    Effected {
        row: Row,
    },
    /// The completing swap is in flight, and may have landed already.
    Completing {
        write: Write,
        landed: bool,
    },
    /// Dead, with a write in flight.
    Ghost {
        write: Write,
    },
    Ended,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct World {
    now: u8,
    /// The last fence that was given.
    issued: u8,
    stored: Option<Row>,
    callers: [Caller; 3],
    /// Whose claim was the last.
    newest: Option<u8>,
    /// Whether the effect happened; counted only where it may not happen twice.
    effects: u8,
    losses: u8,
    renewals: u8,
    failures: u8,
}

type Next = (Step, Result<World, Broken>);

impl World {
    pub(super) fn start(setup: &Setup) -> Self {
        let mut callers = [Caller::Ended; 3];
        callers[..setup.callers].fill(Caller::Deciding { found: None, swaps: 0 });
        Self {
            now: 0,
            issued: 0,
            stored: None,
            callers,
            newest: None,
            effects: 0,
            losses: setup.losses,
            renewals: setup.renewals,
            failures: setup.failures,
        }
    }

    fn now(&self) -> Timestamp {
        at(self.now.into())
    }

    /// Every world that this one can become.
    pub(super) fn steps(&self, setup: &Setup, records: &mut Interned) -> Vec<Next> {
        let mut next = Vec::with_capacity(12);
        if self.callers == [Caller::Ended; 3] {
            return next;
        }
        if self.now < setup.time_max {
            next.push((Step::Tick, Ok(Self { now: self.now + 1, ..self.clone() })));
        }
        next.extend(self.purged(setup, records).map(|it| (Step::Purge, Ok(it))));
        next.extend(self.resolved(setup, records).map(|it| (Step::Resolve, Ok(it))));
        for who in 0..setup.callers {
            self.caller_steps(who, setup, records, &mut next);
        }
        next
    }

    fn caller_steps(&self, who: usize, setup: &Setup, records: &mut Interned, next: &mut Vec<Next>) {
        match self.callers[who] {
            // Until they have decided, callers differ in name only: they may as well do so in this order.
            Caller::Deciding { swaps: 0, .. } if who > 0 && self.is_yet_to_begin(who - 1) => {}
            Caller::Deciding { found, swaps } => {
                next.push((Step::Decide(who), self.decided(who, found, swaps, setup, records)));
                next.push((Step::Crash(who), Ok(self.with(who, Caller::Ended))));
            }
            Caller::Swapping { write, swaps, reports } => {
                next.push((Step::Swap(who), Ok(self.swapped(who, write, swaps, reports, setup, records))));
                next.extend(self.reply_lost(who, write, self.callers[who], setup, records));
                next.push((Step::Crash(who), Ok(self.with(who, Caller::Ghost { write }))));
            }
            Caller::Leased { row } => self.leased_steps(who, row, setup, records, next),
            Caller::Effected { row } => {
                let body = Body::Kept { bytes: vec![who as u8], until: Timestamp::NEVER };
                let record = call::complete(self.now(), records.get(row.record), body, &setup.terms());
                let write = Write { expected: Some(row.fence), record: records.id(record) };
                let caller = Caller::Completing { write, landed: false };
                next.push((Step::Complete(who), Ok(self.with(who, caller))));
                next.push((Step::Crash(who), Ok(self.with(who, Caller::Ended))));
            }
            Caller::Completing { write, landed } => {
                next.push((Step::Swap(who), self.completed(who, write, landed, setup, records)));
                let waiting = Caller::Completing { write, landed: true };
                next.extend(self.reply_lost(who, write, waiting, setup, records));
                next.push((Step::Crash(who), Ok(self.with(who, Caller::Ghost { write }))));
            }
            Caller::Ghost { write } => {
                let mut world = self.with(who, Caller::Ended);
                let kept = world.swap(who, write, setup, records).is_ok();
                let stale = kept && is_outcome(records.get(write.record)) && self.newest != Some(who as u8);
                next.push((Step::Land(who), if stale { Err(Broken::StaleOutcome) } else { Ok(world) }));
            }
            Caller::Ended => {}
        }
    }

    fn leased_steps(
        &self,
        who: usize,
        row: Row,
        setup: &Setup,
        records: &mut Interned,
        next: &mut Vec<Next>,
    ) {
        // A holder stops by its own clock, so an effect falls within its lease where that is a promise.
        let in_lease = is_leased(records.get(row.record), self.now());
        if in_lease || setup.operator.is_none() {
            let mut world = self.with(who, Caller::Effected { row });
            world.effects += u8::from(setup.operator.is_some());
            next.push((Step::Effect(who), Ok(world)));
        }
        if self.renewals > 0 {
            let record = call::renew(self.now(), records.get(row.record), &setup.terms());
            let write = Write { expected: Some(row.fence), record: records.id(record) };
            let mut world = Self { renewals: self.renewals - 1, ..self.clone() };
            let renewed = world.swap(who, write, setup, records);
            let caller =
                renewed.map_or(Caller::Ended, |fence| Caller::Leased { row: Row { fence, ..row_of(write) } });
            next.push((Step::Renew(who), Ok(world.with(who, caller))));
        }
        if self.failures > 0 {
            let record = call::release(self.now(), records.get(row.record), None);
            let write = Write { expected: Some(row.fence), record: records.id(record) };
            let mut world = Self { failures: self.failures - 1, ..self.clone() };
            let _ = world.swap(who, write, setup, records);
            next.push((Step::Fail(who), Ok(world.with(who, Caller::Ended))));
        }
        next.push((Step::Crash(who), Ok(self.with(who, Caller::Ended))));
    }

    fn is_yet_to_begin(&self, who: usize) -> bool {
        matches!(self.callers[who], Caller::Deciding { swaps: 0, .. })
    }

    fn with(&self, who: usize, caller: Caller) -> Self {
        let mut world = self.clone();
        world.callers[who] = caller;
        world
    }

    fn decided(
        &self,
        who: usize,
        found: Option<Row>,
        swaps: u8,
        setup: &Setup,
        records: &mut Interned,
    ) -> Result<Self, Broken> {
        let found = found.map(|it| stored(it, records));
        let caller = match call::begin(self.now(), found.as_ref(), &setup.call(who), &setup.terms()) {
            Decision::Run { .. } | Decision::Report { .. } if swaps == SWAPS_MAX => Caller::Ended,
            Decision::Run { expected, record, .. } => {
                let write = Write { expected: expected.map(|it| it.get() as u8), record: records.id(record) };
                Caller::Swapping { write, swaps: swaps + 1, reports: false }
            }
            Decision::Report { expected, record } => {
                let write = Write { expected: Some(expected.get() as u8), record: records.id(record) };
                Caller::Swapping { write, swaps: swaps + 1, reports: true }
            }
            Decision::Replay(_) | Decision::Busy { .. } => Caller::Ended,
            Decision::Mismatch => return Err(Broken::Mismatch),
        };
        Ok(self.with(who, caller))
    }

    /// The claiming swap, answered.
    fn swapped(
        &self,
        who: usize,
        write: Write,
        swaps: u8,
        reports: bool,
        setup: &Setup,
        records: &Interned,
    ) -> Self {
        let mut world = self.clone();
        let caller = match world.swap(who, write, setup, records) {
            Ok(_) if reports => Caller::Ended,
            Ok(fence) => Caller::Leased { row: Row { fence, ..row_of(write) } },
            // One's own record there means that an earlier try had landed.
            Err(Some(row)) if row.record == write.record && reports => Caller::Ended,
            Err(Some(row)) if row.record == write.record => Caller::Leased { row },
            Err(found) => Caller::Deciding { found, swaps },
        };
        world.with(who, caller)
    }

    /// The completing swap, answered.
    fn completed(
        &self,
        who: usize,
        write: Write,
        landed: bool,
        setup: &Setup,
        records: &Interned,
    ) -> Result<Self, Broken> {
        let mut world = self.with(who, Caller::Ended);
        match world.swap(who, write, setup, records) {
            Ok(_) if self.newest != Some(who as u8) => Err(Broken::StaleOutcome),
            // One's own record there means that an earlier try had landed.
            Err(Some(row)) if row.record == write.record => Ok(world),
            Err(_) if !landed && self.newest == Some(who as u8) => Err(Broken::SupersededByNobody),
            Ok(_) | Err(_) => Ok(world),
        }
    }

    /// The write lands, but its caller does not learn of it and goes on as given.
    fn reply_lost(
        &self,
        who: usize,
        write: Write,
        caller: Caller,
        setup: &Setup,
        records: &Interned,
    ) -> Option<Next> {
        let mut world = Self { losses: self.losses.checked_sub(1)?, ..self.with(who, caller) };
        let stale = is_outcome(records.get(write.record)) && self.newest != Some(who as u8);
        let kept = world.swap(who, write, setup, records).ok()?;
        debug_assert!(kept > 0, "fences begin at 1");
        Some((Step::LoseReply(who), if stale { Err(Broken::StaleOutcome) } else { Ok(world) }))
    }

    /// The store's one operation, as good as its guard.
    fn swap(
        &mut self,
        who: usize,
        write: Write,
        setup: &Setup,
        records: &Interned,
    ) -> Result<u8, Option<Row>> {
        let fence = self.stored.map(|it| it.fence);
        let ends = is_outcome(records.get(write.record));
        let runs = self.stored.is_some_and(|it| is_running(records.get(it.record)));
        let passes = match setup.guard {
            Guard::Nothing => true,
            Guard::KeyOnly if ends => fence.is_some(),
            Guard::StillRunning if ends => runs,
            Guard::Fence
            | Guard::ReusedFence
            | Guard::LeaseByExpiry
            | Guard::KeyOnly
            | Guard::StillRunning => fence == write.expected,
        };
        if !passes {
            return Err(self.stored);
        }
        let record = records.get(write.record);
        if is_running(record) || matches!(record.state, State::Failed { .. }) {
            self.newest = Some(who as u8);
        }
        self.issued += 1;
        self.stored = Some(Row { fence: self.issued, record: write.record });
        Ok(self.issued)
    }

    /// The store removes what it takes for expired.
    fn purged(&self, setup: &Setup, records: &Interned) -> Option<Self> {
        let record = records.get(self.stored?.record);
        let lapsed = is_running(record) && !is_leased(record, self.now());
        let gone = record.is_expired(self.now()) || (setup.guard == Guard::LeaseByExpiry && lapsed);
        let issued = if setup.guard == Guard::ReusedFence { 0 } else { self.issued };
        gone.then(|| Self { stored: None, issued, ..self.clone() })
    }

    /// An operator resolves a doubt.
    fn resolved(&self, setup: &Setup, records: &mut Interned) -> Option<Self> {
        let operator = setup.operator?;
        let row = self.stored?;
        let resolution = match operator {
            Operator::Truthful if self.effects > 0 => Resolution::Happened(None),
            Operator::Truthful | Operator::Guessing => Resolution::DidNot,
        };
        let record = call::resolve(self.now(), records.get(row.record), resolution, &setup.terms()).ok()?;
        let stored = Some(Row { fence: self.issued + 1, record: records.id(record) });
        Some(Self { stored, issued: self.issued + 1, ..self.clone() })
    }

    /// Whether a promise is broken in this world, which came of that one.
    pub(super) fn broken(&self, before: &Self, setup: &Setup, records: &Interned) -> Result<(), Broken> {
        let holds = |it: &&Caller| match it {
            Caller::Leased { row } | Caller::Effected { row } => {
                is_leased(records.get(row.record), self.now())
            }
            Caller::Deciding { .. }
            | Caller::Swapping { .. }
            | Caller::Completing { .. }
            | Caller::Ghost { .. }
            | Caller::Ended => false,
        };
        if self.callers.iter().filter(holds).count() > 1 {
            return Err(Broken::TwoHolders);
        }
        if setup.operator.is_some() && self.effects > 1 {
            return Err(Broken::SecondEffect);
        }
        let outcome = before.stored.map(|it| it.record).filter(|it| {
            let record = records.get(*it);
            matches!(record.state, State::Completed(_)) && !record.is_expired(self.now())
        });
        if outcome.is_some() && outcome != self.stored.map(|it| it.record) {
            return Err(Broken::OutcomeChanged);
        }
        Ok(())
    }
}

fn stored(row: Row, records: &Interned) -> Stored {
    let fence = Fence::new(row.fence.into()).expect("fences begin at 1");
    Stored { fence, record: records.get(row.record).clone() }
}

fn row_of(write: Write) -> Row {
    Row { fence: 0, record: write.record }
}

fn is_running(record: &Record) -> bool {
    matches!(record.state, State::InProgress { .. })
}

fn is_leased(record: &Record, now: Timestamp) -> bool {
    matches!(record.state, State::InProgress { lease_until, .. } if now < lease_until)
}

/// Whether this is what a holder writes when it is done.
fn is_outcome(record: &Record) -> bool {
    match record.state {
        State::Completed(_) => true,
        State::Failed { reason, .. } => reason != Reason::OutcomeUnknown,
        State::Pending { .. } | State::InProgress { .. } => false,
    }
}
