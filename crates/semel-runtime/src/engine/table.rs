//! Who may start what: all functions beside each other.
//!
//! 1. A place is taken before anything is claimed or accepted as claimed, and given back when what became of it is
//!    written, or it came to nothing.
//! 2. Whoever has a place may call when it is its turn. Those that wait for theirs are told in the order they came, as
//!    soon as a call is over, or that it will not come.
//! 3. A function has its own [gate](super::gate), all share a [budget](super::gate::budget), and the bytes of what runs
//!    are bounded: beyond them nothing fresh starts at once, and the backlog waits.
//! 4. A node that was just started claims little at first, and more every second: if what it claims kills it, and it is
//!    started again and again, little else loses an attempt each time.
//! 5. A function that was removed starts nothing more; what runs of it is finished on the terms it began on.
//! 6. A function that is aimed at another target begins anew with it: what calls of the old one find out says nothing of the
//!    new one.
//! 7. While fresh events find no room in memory, the backlog has half of it.
//!
//! It awaits nothing and knows no clock: the moment is an argument.

use super::gate::{
    Gate, Terms, Turn,
    asking::Asking,
    breaker::Health,
    budget::{self, Part},
    share::{Kind, Share},
};
use super::status::{FunctionStatus, Totals};
use crate::function::{Aim, Function};
use semel_core::{
    queue::{WANTS_MAX, Want},
    retry::Jitter,
    sabotage::is_on,
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::sync::oneshot;

/// Most executions that are claimed at once.
pub(crate) const CLAIM_MAX: u32 = 512;
/// What a lease is longer than the function's timeout: time to claim, to start and to settle.
pub(crate) const LEASE_SLACK: Duration = Duration::from_secs(10);
/// Most executions of the backlog at once on a node that was just started; twice as many every second.
pub(crate) const SLOW_START: u32 = 16;
/// How large an event is thought to be before any was seen, in bytes.
const EVENT_BYTES_GUESS: usize = 64 * 1024;
/// How long the loop sleeps where there is nothing to wait for.
const NOTHING: Duration = Duration::from_hours(1);

/// Both clocks, read together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// By the queue.
    pub(crate) now: Timestamp,
    /// By the clock that never jumps.
    pub(crate) monotonic: Duration,
}

/// What is to be claimed, or how long there is nothing to claim.
#[derive(Debug)]
pub(crate) enum Demanded {
    /// These; the places are taken.
    Wants(Vec<Want>),
    /// Nothing, for so long, unless somebody says so.
    Wait(Duration),
}

/// Whether one that has a place may call.
#[derive(Debug)]
pub(crate) enum MayCall {
    /// It calls.
    Now,
    /// It is told whether it may, when that is known.
    Later(oneshot::Receiver<bool>),
    /// It is to be handed back.
    Never,
}

#[derive(Debug)]
struct Entry {
    function: Arc<Function>,
    terms: Terms,
    gate: Gate,
    /// Who waits to be told whether it may call.
    waiting: VecDeque<oneshot::Sender<bool>>,
    reserve: u32,
    asking: Asking,
    totals: Totals,
    /// It starts nothing more, and is forgotten when nothing of it runs.
    is_removed: bool,
    /// It had no room when it was last looked at: who gives back a place wakes the loop.
    is_starved: bool,
}

impl Entry {
    const fn part(&self) -> Part {
        Part { reserve: self.reserve, taken: self.gate.taken() }
    }

    fn lease(&self) -> Duration {
        lease(&self.function)
    }

    /// Tells those whose turn it is, and those whose turn will not come.
    fn tell_waiting(&mut self, monotonic: Duration) {
        while let Some(waiting) = self.waiting.pop_front() {
            let turn = self.gate.turn(&self.terms, monotonic);
            if turn == Turn::Wait {
                self.waiting.push_front(waiting);
                return;
            }
            let is_gone = waiting.send(turn == Turn::Call).is_err();
            // One that has gone leaves its turn to the next.
            if is_gone && turn == Turn::Call {
                self.gate.not_called();
            }
        }
    }
}

/// How long an attempt of this function is leased.
pub(crate) fn lease(function: &Function) -> Duration {
    function.policy.timeout() + LEASE_SLACK
}

/// All functions beside each other.
#[derive(Debug)]
pub(crate) struct Table {
    entries: BTreeMap<Arc<str>, Entry>,
    paused: BTreeSet<Arc<str>>,
    /// When the node was started, by the monotonic clock.
    started: Duration,
    budget: u32,
    /// The budget without the reserves.
    pool: u32,
    /// What is taken of the pool.
    pooled: u32,
    bytes_max: usize,
    bytes: usize,
    /// Those of them that came from the backlog.
    bytes_of_backlog: usize,
    /// What fresh events find of the memory.
    share_of_bytes: Share,
    /// How large an event of the backlog may be: the largest of late.
    bytes_guess: usize,
    /// Whose turn it is to be asked for first.
    turn: Option<Arc<str>>,
}

impl Table {
    /// No functions yet, on a node that is started now, with room for so many attempts and so many bytes of events.
    pub(crate) fn new(started: Duration, budget: u32, bytes_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            paused: BTreeSet::new(),
            started,
            budget,
            pool: budget,
            pooled: 0,
            bytes_max,
            bytes: 0,
            bytes_of_backlog: 0,
            share_of_bytes: Share::default(),
            bytes_guess: EVENT_BYTES_GUESS,
            turn: None,
        }
    }

    /// These functions from now on. What is known of those that were there already stays.
    pub(crate) fn replace(&mut self, functions: impl IntoIterator<Item = Arc<Function>>) {
        self.entries.values_mut().for_each(|it| it.is_removed = true);
        for function in functions {
            let name = function.name.shared();
            let terms = Terms {
                concurrency: function.concurrency.get(),
                rate: function.rate,
                is_paused: (self.paused.contains(name) && !is_on("reload_resumes")) || function.is_held,
            };
            let entry = self.entries.entry(Arc::clone(name)).or_insert_with(|| Entry {
                function: Arc::clone(&function),
                terms,
                gate: Gate::default(),
                waiting: VecDeque::new(),
                reserve: 0,
                asking: Asking::default(),
                totals: Totals::default(),
                is_removed: false,
                is_starved: false,
            });
            if !is_same_aim(&entry.function.aim, &function.aim) && !is_on("breaker_outlives_its_target") {
                entry.gate.aimed_anew();
            }
            if entry.terms.rate != terms.rate {
                entry.gate.rated_anew();
            }
            (entry.function, entry.terms, entry.is_removed) = (function, terms, false);
        }
        self.entries.retain(|_, it| !it.is_removed || it.gate.taken() > 0);
        self.divide();
    }

    /// So many may be held at once from now on.
    pub(crate) fn allow(&mut self, budget: u32) {
        self.budget = budget;
        self.divide();
    }

    fn divide(&mut self) {
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        for entry in self.entries.values_mut() {
            entry.reserve = budget::reserve(self.budget, count, entry.terms.concurrency);
        }
        let reserved = self.entries.values().map(|it| it.reserve).sum();
        self.pool = self.budget.saturating_sub(reserved);
        self.pooled = self.entries.values().map(|it| it.part().pooled()).sum();
    }

    /// These functions start nothing, and all others may.
    pub(crate) fn set_paused(&mut self, monotonic: Duration, paused: BTreeSet<Arc<str>>) {
        for (name, entry) in &mut self.entries {
            entry.terms.is_paused = paused.contains(name) || entry.function.is_held;
            entry.tell_waiting(monotonic);
        }
        self.paused = paused;
    }

    /// Which functions are paused.
    pub(crate) const fn paused(&self) -> &BTreeSet<Arc<str>> {
        &self.paused
    }

    /// Takes a place for a fresh event, if there is one; it must wait its turn if it has an order.
    #[must_use]
    pub(crate) fn admit(&mut self, at: Moment, name: &str, bytes: usize, is_ordered: bool) -> bool {
        let has_bytes = self.bytes + bytes <= self.bytes_max;
        let free = self.pool.saturating_sub(self.pooled);
        let Some(entry) = self.entries.get_mut(name).filter(|it| !it.is_removed && !is_ordered) else {
            return false;
        };
        let before = entry.part();
        let may = has_bytes && budget::room(before, free) > 0;
        let admitted = entry.gate.admit_fresh(&entry.terms, at.monotonic, may);
        self.share_of_bytes = self.share_of_bytes.after_arrival(at.monotonic, has_bytes);
        if admitted {
            self.pooled += entry.part().pooled() - before.pooled();
            self.bytes += bytes;
            self.share_of_bytes = self.share_of_bytes.after_start(Kind::Fresh);
        }
        admitted
    }

    /// Whether the loop waits for tokens of this function, and may have its turn when a fresh event has taken one.
    pub(crate) fn awaits_token(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|it| it.is_starved && it.terms.rate.is_some())
    }

    /// What is worth claiming, with the places for it taken.
    pub(crate) fn demand(&mut self, at: Moment) -> Demanded {
        let mut wants = Vec::new();
        let slow = self.room_of_slow_start(at.monotonic);
        let mut left = CLAIM_MAX.min(self.room_in_bytes(at.monotonic)).min(slow);
        let mut wait = if slow < CLAIM_MAX { Duration::from_secs(1) } else { NOTHING };
        if left == 0
            && let Some(relaxes_at) = self.share_of_bytes.relaxes_at(at.monotonic)
        {
            wait = wait.min(relaxes_at.saturating_sub(at.monotonic));
        }
        let names = self.in_turn();
        for name in names {
            let free = self.pool.saturating_sub(self.pooled);
            let entry = self.entries.get_mut(&name).expect("it was listed");
            let asking = entry.asking.wait(at.now, at.monotonic);
            let part = entry.part();
            let free_here = budget::room(part, free);
            let room = entry.gate.room_beside(&entry.terms, at.monotonic, Kind::Backlog, free_here).min(left);
            entry.is_starved = room == 0;
            if room == 0 {
                let opens = entry.gate.wait(&entry.terms, at.monotonic);
                wait = opens.map_or(wait, |it| wait.min(it.max(asking)));
            } else if !asking.is_zero() {
                wait = wait.min(asking);
            } else if wants.len() < WANTS_MAX {
                let limit = if entry.asking.has_reason(at.now) { room } else { room.div_ceil(4) };
                entry.asking.asked(at.now, at.monotonic);
                entry.gate.take(&entry.terms, at.monotonic, Kind::Backlog, limit);
                self.pooled += entry.part().pooled() - part.pooled();
                left -= limit;
                wants.push(Want { function: Arc::clone(&name), limit, lease: entry.lease() });
            }
        }
        if wants.is_empty() { Demanded::Wait(wait) } else { Demanded::Wants(wants) }
    }

    /// Somebody else left something that is due.
    pub(crate) fn hinted(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut().filter(|_| !is_on("hint_ignored")) {
            entry.asking.note(now);
        }
    }

    /// The functions, beginning with another one each time.
    fn in_turn(&mut self) -> Vec<Arc<str>> {
        let names: Vec<_> =
            self.entries.iter().filter(|(_, it)| !it.is_removed).map(|(name, _)| name).collect();
        let first = self.turn.as_ref().map_or(0, |turn| names.partition_point(|it| *it <= turn));
        let (late, early) = names.split_at(first.min(names.len()));
        let names: Vec<_> = early.iter().chain(late).map(|it| Arc::clone(it)).collect();
        self.turn = names.first().cloned();
        names
    }

    fn room_of_slow_start(&self, monotonic: Duration) -> u32 {
        let seconds = monotonic.saturating_sub(self.started).as_secs();
        let allowed =
            SLOW_START.checked_shl(u32::try_from(seconds).unwrap_or(u32::MAX).min(24)).unwrap_or(u32::MAX);
        allowed.saturating_sub(self.entries.values().map(|it| it.gate.backlog()).sum())
    }

    /// How many events of the backlog there is memory for. One, where there is nothing in it: else what is larger than it
    /// would never be delivered.
    fn room_in_bytes(&self, monotonic: Duration) -> u32 {
        let events = |bytes: usize| u32::try_from(bytes / self.bytes_guess.max(1)).unwrap_or(u32::MAX);
        let free = events(self.bytes_max.saturating_sub(self.bytes));
        if is_on("fresh_without_memory") {
            return free;
        }
        let backlog_max = self.share_of_bytes.backlog_max(monotonic, events(self.bytes_max));
        let of_backlog = u32::try_from(self.bytes_of_backlog.div_ceil(self.bytes_guess.max(1)));
        let room = free.min(backlog_max.saturating_sub(of_backlog.unwrap_or(u32::MAX)));
        room.max(u32::from(self.bytes == 0))
    }

    /// The queue answered for one of the wants: places that it did not fill are given back.
    pub(crate) fn claimed(&mut self, at: Moment, want: &Want, given: u32) {
        let Some(entry) = self.entries.get_mut(&want.function) else { return };
        entry.asking.answered(want.limit, given);
        let before = entry.part();
        entry.gate.untake(&entry.terms, at.monotonic, Kind::Backlog, want.limit.saturating_sub(given));
        self.pooled -= before.pooled() - entry.part().pooled();
    }

    /// Nobody knows what the queue did: all places are given back.
    pub(crate) fn unclaimed(&mut self, at: Moment, wants: &[Want]) {
        for want in wants {
            let Some(entry) = self.entries.get_mut(&want.function) else { continue };
            let before = entry.part();
            entry.gate.untake(&entry.terms, at.monotonic, Kind::Backlog, want.limit);
            self.pooled -= before.pooled() - entry.part().pooled();
        }
    }

    /// Takes a place for something that this node has claimed already, if there is one.
    #[must_use]
    pub(crate) fn adopt(&mut self, at: Moment, name: &str) -> bool {
        let free = self.pool.saturating_sub(self.pooled);
        let Some(entry) = self.entries.get_mut(name).filter(|it| !it.is_removed) else { return false };
        let part = entry.part();
        let room = entry.gate.room(&entry.terms, at.monotonic, Kind::Fresh).min(budget::room(part, free));
        if room > 0 {
            entry.gate.take(&entry.terms, at.monotonic, Kind::Backlog, 1);
            self.pooled += entry.part().pooled() - part.pooled();
        }
        room > 0
    }

    /// Whether one that has a place of this function may call.
    #[must_use]
    pub(crate) fn may_call(&mut self, monotonic: Duration, name: &str) -> MayCall {
        let Some(entry) = self.entries.get_mut(name) else { return MayCall::Never };
        match entry.gate.turn(&entry.terms, monotonic) {
            Turn::Call => MayCall::Now,
            Turn::Never => MayCall::Never,
            Turn::Wait => {
                let (tell, told) = oneshot::channel();
                entry.waiting.push_back(tell);
                MayCall::Later(told)
            }
        }
    }

    /// One that has a place has waited so long for its turn, and waits no more.
    pub(crate) fn waited_in_vain(&mut self, name: &str, waited: Duration) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.gate.waited_in_vain(waited);
        }
    }

    /// One that might call has, and found this out about its target; or has not.
    pub(crate) fn called(&mut self, monotonic: Duration, name: &str, found: Option<Finding<'_>>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        match found {
            Some(Finding { aim, took, health, jitter }) => {
                let is_of_target = aim.is_some_and(|it| is_same_aim(it, &entry.function.aim));
                let health = if is_of_target { health } else { Health::Unknown };
                entry.gate.called(monotonic, took, health, jitter);
            }
            None => entry.gate.not_called(),
        }
        entry.tell_waiting(monotonic);
    }

    /// So many bytes were claimed with an event.
    pub(crate) fn load(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.bytes_of_backlog += bytes;
        self.share_of_bytes = self.share_of_bytes.after_start(Kind::Backlog);
        // The largest of late: it shrinks slowly when smaller ones come.
        self.bytes_guess = bytes.max(self.bytes_guess - self.bytes_guess / 16).max(1024);
    }

    /// A place is given back, used or not. Whether the loop should look.
    #[must_use]
    pub(crate) fn give_back(&mut self, at: Moment, name: &str, place: &GivenBack) -> bool {
        self.bytes -= place.bytes;
        if place.kind == Kind::Backlog {
            self.bytes_of_backlog -= place.bytes;
        }
        let Some(entry) = self.entries.get_mut(name) else { return false };
        let before = entry.part();
        if place.is_used {
            entry.gate.give_back(place.kind);
        } else {
            entry.gate.untake(&entry.terms, at.monotonic, place.kind, 1);
        }
        self.pooled -= before.pooled() - entry.part().pooled();
        let is_starved = entry.is_starved;
        if entry.is_removed && entry.gate.taken() == 0 {
            self.entries.remove(name);
            self.divide();
        }
        is_starved
    }

    /// Something of this function is due then. Whether the loop should look.
    #[must_use]
    pub(crate) fn note(&mut self, name: &str, due_at: Timestamp) -> bool {
        let Some(entry) = self.entries.get_mut(name).filter(|it| !it.is_removed) else { return false };
        entry.asking.note(due_at)
    }

    /// Counts something.
    pub(crate) fn count(&mut self, name: &str, count: impl FnOnce(&mut Totals)) {
        if let Some(entry) = self.entries.get_mut(name) {
            count(&mut entry.totals);
        }
    }

    /// Places that are taken, of all functions.
    pub(crate) fn in_flight(&self) -> u32 {
        self.entries.values().map(|it| it.gate.taken()).sum()
    }

    /// Places that are taken of this function.
    pub(crate) fn in_flight_of(&self, name: &str) -> u32 {
        self.entries.get(name).map_or(0, |it| it.gate.taken())
    }

    /// This function, on its present terms.
    pub(crate) fn function(&self, name: &str) -> Option<Arc<Function>> {
        self.entries.get(name).map(|it| Arc::clone(&it.function))
    }

    /// How every function stands.
    pub(crate) fn status(&self) -> Vec<FunctionStatus> {
        let status = |(name, it): (&Arc<str>, &Entry)| FunctionStatus {
            function: Arc::clone(name),
            in_flight: it.gate.calling(),
            held: it.gate.taken(),
            concurrency: it.terms.concurrency,
            rate: it.terms.rate,
            breaker: it.gate.breaker(),
            is_paused: it.terms.is_paused,
            is_removed: it.is_removed,
            totals: it.totals,
        };
        self.entries.iter().map(status).collect()
    }
}

/// A place that is given back.
#[derive(Debug)]
pub(crate) struct GivenBack {
    /// What it was taken for.
    pub(crate) kind: Kind,
    /// The bytes of the event in it.
    pub(crate) bytes: usize,
    /// Whether a call was made.
    pub(crate) is_used: bool,
}

/// Whether what is known of one is known of the other. What is in this process has no outages that a reload would mend.
fn is_same_aim(one: &Aim, other: &Aim) -> bool {
    std::ptr::eq(one, other)
        || match (one, other) {
            (Aim::Url(one), Aim::Url(other)) => one == other,
            (Aim::Here(_), Aim::Here(_)) => true,
            (Aim::Url(_), Aim::Here(_)) | (Aim::Here(_), Aim::Url(_)) => false,
        }
}

/// What a call found out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finding<'a> {
    /// About whom; nobody if it was not heard of again.
    pub(crate) aim: Option<&'a Aim>,
    /// How long it took.
    pub(crate) took: Duration,
    /// About the target.
    pub(crate) health: Health,
    pub(crate) jitter: Jitter,
}
