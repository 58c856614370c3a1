//! The gate of one function.
//!
//! 1. What starts takes a place; what is written down gives it back. There are as many as the function's concurrency, or
//!    more of them if its calls are [quick](super::pace); fewer while its target is on its way back from an outage, and none
//!    while it is down or the function is paused.
//! 2. Of those that have a place, as many may call at once as the function's concurrency says. The others are being
//!    written, or wait for their turn.
//! 3. Every place costs a token of the function's rate. One that was taken and not used gives its token back.
//! 4. Places for the backlog leave room for fresh events, and so do tokens. Where the node can hold less than there are places,
//!    that is what is shared.
//! 5. What is known of a target is not known of another: a function that is aimed elsewhere begins anew.
//!
//! It does not know the other functions: see [`super::budget`].

use super::{
    breaker::{Breaker, Health, Passage},
    bucket::Bucket,
    pace::Pace,
    ramp::{RAMP, ramped},
    share::{Kind, Owed, Share},
};
use crate::function::Rate;
use semel_core::{retry::Jitter, sabotage::is_on};
use std::time::Duration;

/// What a function's owner asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Most calls at once.
    pub concurrency: u32,
    /// Most attempts over time.
    pub rate: Option<Rate>,
    /// Whether nothing may start.
    pub is_paused: bool,
}

/// What runs of one function, and what its target is thought to be. Moments are those of the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gate {
    /// Places taken for fresh events.
    fresh: u32,
    /// Places taken for the backlog.
    backlog: u32,
    /// Those of them that call.
    calling: u32,
    pace: Pace,
    breaker: Breaker,
    bucket: Bucket,
    share: Share,
    owed: Owed,
    /// When the target came back from its last outage.
    back_since: Option<Duration>,
}

/// Whether one that has a place may call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It calls.
    Call,
    /// When another call is over.
    Wait,
    /// Nothing may go any more.
    Never,
}

impl Gate {
    /// Places that are taken.
    pub const fn taken(&self) -> u32 {
        self.fresh + self.backlog
    }

    /// Places that are taken for the backlog.
    pub const fn backlog(&self) -> u32 {
        self.backlog
    }

    /// Calls that are under way.
    pub const fn calling(&self) -> u32 {
        self.calling
    }

    /// Where the breaker stands.
    pub const fn breaker(&self) -> Breaker {
        self.breaker
    }

    /// How many attempts of this kind may start now.
    pub fn room(&self, terms: &Terms, now: Duration, kind: Kind) -> u32 {
        self.room_beside(terms, now, kind, u32::MAX)
    }

    /// The same on a node that has room for so many more of this function.
    pub fn room_beside(&self, terms: &Terms, now: Duration, kind: Kind, free_here: u32) -> u32 {
        if terms.is_paused {
            return 0;
        }
        let places = self.pace.held_max(self.concurrency(terms, now));
        let free = places.saturating_sub(self.taken());
        let passing = match self.breaker.passage(now) {
            Passage::Free => free,
            // A probe needs no room beside what still hangs from before the outage.
            Passage::Probe => 1,
            Passage::ClosedUntil(_) | Passage::Awaited => 0,
        };
        let room = passing.min(self.tokens(terms, now, kind)).min(free_here);
        match kind {
            Kind::Fresh => room,
            Kind::Backlog if matches!(self.breaker.passage(now), Passage::Probe) => room,
            Kind::Backlog => {
                let can_be_held = if is_on("fresh_without_budget") {
                    places
                } else {
                    places.min(self.taken().saturating_add(free_here))
                };
                room.min(self.share.backlog_max(now, can_be_held).saturating_sub(self.backlog))
            }
        }
    }

    /// How many tokens there are for this kind; any number if the function has no rate.
    fn tokens(&self, terms: &Terms, now: Duration, kind: Kind) -> u32 {
        let Some(rate) = &terms.rate else { return u32::MAX };
        let kept = match kind {
            Kind::Fresh => 0,
            Kind::Backlog => self.owed.kept(rate, now),
        };
        self.bucket.tokens(rate, now).saturating_sub(kept)
    }

    /// How long until there may be room for the backlog without anything being given back; `None` if only that helps.
    pub fn wait(&self, terms: &Terms, now: Duration) -> Option<Duration> {
        if terms.is_paused {
            return None;
        }
        if let Passage::ClosedUntil(until) = self.breaker.passage(now) {
            return Some(until.saturating_sub(now));
        }
        let by_rate = terms.rate.as_ref().and_then(|rate| self.token_at(rate, now));
        let by_ramp = self.back_since.map(|at| (now + RAMP / 20).min(at + RAMP)).filter(|at| *at > now);
        let ends = [by_rate, by_ramp, self.share.relaxes_at(now)];
        ends.into_iter().flatten().min().map(|at| at.saturating_sub(now))
    }

    /// When there is a token for the backlog, if there is none now.
    fn token_at(&self, rate: &Rate, now: Duration) -> Option<Duration> {
        let by_bucket = self.bucket.has_at(rate, self.owed.kept(rate, now) + 1);
        [by_bucket, self.owed.lapses_at(rate)].into_iter().flatten().filter(|at| *at > now).min()
    }

    /// A fresh event came: whether it may start at once. The place is taken if so.
    #[must_use]
    pub fn admit_fresh(&mut self, terms: &Terms, now: Duration, may: bool) -> bool {
        let found_room = may && self.room(terms, now, Kind::Fresh) > 0;
        self.share = self.share.after_arrival(now, found_room);
        if self.tokens(terms, now, Kind::Fresh) == 0 {
            self.owed = self.owed.after_miss(now);
        }
        if found_room {
            self.take(terms, now, Kind::Fresh, 1);
        }
        found_room
    }

    /// Takes so many places, which there was [room](Gate::room) for.
    pub fn take(&mut self, terms: &Terms, now: Duration, kind: Kind, places: u32) {
        if places == 0 {
            return;
        }
        *self.count(kind) += places;
        self.breaker = self.breaker.after_start();
        self.share = self.share.after_start(kind);
        if let Some(rate) = &terms.rate {
            self.bucket = self.bucket.taken(rate, now, places);
            self.owed = self.owed.after_start(rate, kind, places);
        }
    }

    /// The function is aimed at another target: what the one before was thought to be says nothing of it.
    pub fn aimed_anew(&mut self) {
        (self.pace, self.breaker, self.back_since) = (Pace::default(), Breaker::default(), None);
    }

    /// The function has another rate.
    pub fn rated_anew(&mut self) {
        (self.bucket, self.owed) = (Bucket::default(), Owed::default());
    }

    /// Gives back so many places that were not used after all.
    pub fn untake(&mut self, terms: &Terms, now: Duration, kind: Kind, places: u32) {
        if places == 0 {
            return;
        }
        *self.count(kind) -= places;
        self.breaker = self.breaker.after_end(now, Health::Unknown, Jitter::LEAST);
        if let Some(rate) = &terms.rate {
            self.bucket = self.bucket.put_back(rate, places);
        }
    }

    /// Whether one that has a place may call; if so, it does from now on.
    #[must_use]
    pub fn turn(&mut self, terms: &Terms, now: Duration) -> Turn {
        if terms.is_paused && !is_on("pause_misses_what_was_claimed") {
            return Turn::Never;
        }
        match self.breaker.passage(now) {
            Passage::Free if self.calling >= self.concurrency(terms, now) && !is_on("turns_not_taken") => {
                return Turn::Wait;
            }
            // What hangs from before the outage does not keep the probe waiting.
            Passage::Free | Passage::Awaited => {}
            // It took its place before the outage, and is no probe.
            Passage::ClosedUntil(_) | Passage::Probe => return Turn::Never,
        }
        self.calling += 1;
        Turn::Call
    }

    /// One that had its turn made no call after all.
    pub const fn not_called(&mut self) {
        self.calling -= 1;
    }

    /// One has waited so long for its turn, in vain: calls take at least as long.
    pub fn waited_in_vain(&mut self, waited: Duration) {
        self.pace = self.pace.after_call(waited, false);
    }

    /// A call is over, after so long: what it found out about the target.
    pub fn called(&mut self, now: Duration, took: Duration, health: Health, jitter: Jitter) {
        self.calling -= 1;
        if health != Health::Unknown {
            self.pace = self.pace.after_call(took, health == Health::Alive);
        }
        self.heard(now, health, jitter);
    }

    /// Gives back a place after an attempt.
    pub const fn give_back(&mut self, kind: Kind) {
        *self.count(kind) -= 1;
    }

    fn heard(&mut self, now: Duration, health: Health, jitter: Jitter) {
        let was_closed = self.breaker.is_closed();
        self.breaker = self.breaker.after_end(now, health, jitter);
        if !was_closed && self.breaker.is_closed() {
            self.back_since = Some(now);
        }
    }

    const fn count(&mut self, kind: Kind) -> &mut u32 {
        match kind {
            Kind::Fresh => &mut self.fresh,
            Kind::Backlog => &mut self.backlog,
        }
    }

    fn concurrency(&self, terms: &Terms, now: Duration) -> u32 {
        self.back_since.map_or(terms.concurrency, |at| ramped(terms.concurrency, now.saturating_sub(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::breaker::{FAILURES_MAX, OPEN_MIN},
        *,
    };

    const T: Duration = Duration::from_secs(100);
    const TERMS: Terms = Terms { concurrency: 20, rate: None, is_paused: false };

    fn down() -> Gate {
        let mut gate = Gate::default();
        for _ in 0..FAILURES_MAX {
            gate.heard(T, Health::Down, Jitter::MOST);
        }
        gate
    }

    #[test]
    fn there_is_room_for_the_concurrency_and_no_more() {
        let mut gate = Gate::default();
        assert_eq!(gate.room(&TERMS, T, Kind::Backlog), 20);
        gate.take(&TERMS, T, Kind::Backlog, 20);
        assert_eq!(gate.room(&TERMS, T, Kind::Fresh), 0);
        gate.give_back(Kind::Backlog);
        assert_eq!(gate.room(&TERMS, T, Kind::Fresh), 1);
    }

    /// With as many calls under way as there may be.
    fn calling() -> Gate {
        let mut gate = Gate::default();
        gate.take(&TERMS, T, Kind::Fresh, TERMS.concurrency);
        for _ in 0..TERMS.concurrency {
            assert_eq!(gate.turn(&TERMS, T), Turn::Call);
        }
        gate
    }

    #[test]
    fn a_quick_function_has_more_places_and_no_more_calls() {
        let mut gate = calling();
        gate.called(T, Duration::ZERO, Health::Alive, Jitter::MOST);
        assert_eq!(gate.room(&TERMS, T, Kind::Fresh), 60);
        gate.take(&TERMS, T, Kind::Fresh, 60);
        assert_eq!(gate.turn(&TERMS, T), Turn::Call);
        assert_eq!((gate.turn(&TERMS, T), gate.calling()), (Turn::Wait, 20));
        gate.not_called();
        assert_eq!(gate.turn(&TERMS, T), Turn::Call);
        gate.waited_in_vain(Duration::from_secs(5));
        assert_eq!(gate.room(&TERMS, T, Kind::Fresh), 0);
    }

    #[test]
    fn whoever_took_a_place_before_the_outage_does_not_call_in_it_and_the_probe_does() {
        let mut gate = calling();
        for _ in 0..FAILURES_MAX {
            gate.heard(T, Health::Down, Jitter::MOST);
        }
        assert_eq!(gate.turn(&TERMS, T), Turn::Never);
        let later = T + OPEN_MIN;
        assert_eq!(gate.turn(&TERMS, later), Turn::Never, "it is no probe");
        gate.take(&TERMS, later, Kind::Backlog, 1);
        assert_eq!(gate.turn(&TERMS, later), Turn::Call, "what hangs does not keep it waiting");
    }

    #[test]
    fn a_paused_function_starts_nothing() {
        let paused = Terms { is_paused: true, ..TERMS };
        assert_eq!(Gate::default().room(&paused, T, Kind::Fresh), 0);
        assert_eq!(Gate::default().turn(&paused, T), Turn::Never);
        assert_eq!(Gate::default().wait(&paused, T), None);
    }

    #[test]
    fn a_target_that_is_down_gets_one_probe_and_then_a_tenth() {
        let mut gate = down();
        assert_eq!(gate.room(&TERMS, T, Kind::Backlog), 0);
        assert_eq!(gate.wait(&TERMS, T), Some(OPEN_MIN));
        let later = T + OPEN_MIN;
        assert_eq!(gate.room(&TERMS, later, Kind::Backlog), 1);
        gate.take(&TERMS, later, Kind::Backlog, 1);
        assert_eq!(gate.room(&TERMS, later, Kind::Backlog), 0);
        gate.heard(later, Health::Alive, Jitter::MOST);
        gate.give_back(Kind::Backlog);
        assert_eq!(gate.room(&TERMS, later, Kind::Backlog), 2);
        assert_eq!(gate.room(&TERMS, later + RAMP, Kind::Backlog), 20);
    }

    #[test]
    fn a_probe_that_was_not_used_can_be_taken_again() {
        let (mut gate, later) = (down(), T + OPEN_MIN);
        gate.take(&TERMS, later, Kind::Backlog, 1);
        gate.untake(&TERMS, later, Kind::Backlog, 1);
        assert_eq!(gate.room(&TERMS, later, Kind::Fresh), 1);
    }

    #[test]
    fn a_fresh_event_that_found_no_room_gets_half_of_what_is_given_back() {
        let mut gate = Gate::default();
        gate.take(&TERMS, T, Kind::Backlog, 20);
        assert!(!gate.admit_fresh(&TERMS, T, true));
        for _ in 0..10 {
            gate.give_back(Kind::Backlog);
        }
        assert_eq!(gate.room(&TERMS, T, Kind::Backlog), 0);
        assert_eq!(gate.room(&TERMS, T, Kind::Fresh), 10);
        assert!(gate.admit_fresh(&TERMS, T, true));
    }

    #[test]
    fn the_rate_is_never_exceeded() {
        let rate = Rate::new(100, Duration::from_secs(1)).expect("a rate");
        let terms = Terms { rate: Some(rate), ..TERMS };
        let mut gate = Gate::default();
        assert_eq!(gate.room(&terms, T, Kind::Backlog), 3);
        gate.take(&terms, T, Kind::Backlog, 3);
        assert_eq!(gate.room(&terms, T, Kind::Backlog), 0);
        assert_eq!(gate.wait(&terms, T), Some(rate.spacing()));
        gate.untake(&terms, T, Kind::Backlog, 2);
        assert_eq!(gate.room(&terms, T, Kind::Backlog), 2);
    }

    #[test]
    fn a_token_that_a_fresh_event_missed_is_kept_for_the_next() {
        let rate = Rate::new(10, Duration::from_secs(1)).expect("a rate");
        let terms = Terms { rate: Some(rate), ..TERMS };
        let mut gate = Gate::default();
        gate.take(&terms, T, Kind::Backlog, 1);
        let missed_at = T + rate.spacing() / 2;
        assert!(!gate.admit_fresh(&terms, missed_at, true));
        let next = T + rate.spacing();
        assert_eq!(gate.room(&terms, next, Kind::Backlog), 0);
        assert_eq!(gate.wait(&terms, next), Some(rate.spacing() * 3 / 2), "until nobody wants it any more");
        assert!(gate.admit_fresh(&terms, next, true));
        assert_eq!(gate.wait(&terms, next), Some(rate.spacing()), "it is the backlog's turn");
        assert_eq!(gate.room(&terms, next + rate.spacing(), Kind::Backlog), 1);
    }

    #[test]
    fn what_the_node_has_room_for_is_shared_where_it_is_less_than_the_places() {
        let mut gate = Gate::default();
        assert!(!gate.admit_fresh(&TERMS, T, false));
        assert_eq!(gate.room_beside(&TERMS, T, Kind::Backlog, 6), 3);
        gate.take(&TERMS, T, Kind::Backlog, 3);
        assert_eq!(gate.room_beside(&TERMS, T, Kind::Backlog, 3), 0);
        assert_eq!(gate.room_beside(&TERMS, T, Kind::Fresh, 3), 3);
    }

    #[test]
    fn another_target_is_not_left_alone_for_what_the_one_before_did() {
        let mut gate = down();
        assert_eq!(gate.room(&TERMS, T, Kind::Backlog), 0);
        gate.aimed_anew();
        assert_eq!(gate.room(&TERMS, T, Kind::Backlog), 20, "nothing is known of it");
    }
}
