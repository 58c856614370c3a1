//! Going through what matches from the oldest to the latest, though a queue lists the latest first.
//!
//! 1. What was accepted in a span of time is gathered whole, and then gone through from its other end. Of one order it is in
//!    the order's own sequence: two nodes' clocks, and one millisecond, say nothing about that.
//! 2. Where that is more than [`GATHERED_MAX`], the span is divided into later and earlier ones, and nothing is kept but where;
//!    the earliest goes first. So a job needs the same memory for ten million executions as for ten thousand.
//! 3. What was accepted after the latest that was found when it began is not meant.

use semel_core::{
    execution::{Execution, ExecutionId},
    queue::Filter,
    sabotage::is_on,
    time::Timestamp,
};
use std::time::Duration;

/// Most executions that are gathered at once, and those of one more millisecond.
pub(super) const GATHERED_MAX: usize = 5_000;

/// What was accepted from here on, and before there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    from: Option<Timestamp>,
    before: Option<Timestamp>,
}

impl Span {
    /// The one that a filter asks for.
    pub(super) const fn of(filter: &Filter) -> Self {
        Self { from: filter.accepted_from, before: filter.accepted_before }
    }

    /// The same filter, in this span.
    pub(super) fn within(self, filter: &Filter) -> Filter {
        Filter { accepted_from: self.from, accepted_before: self.before, ..filter.clone() }
    }
}

/// An execution, as far as its turn depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    id: ExecutionId,
    sequence: Option<u64>,
}

/// What became of a span that was gone through.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Gathered {
    /// All of it, the oldest first.
    Whole(Vec<ExecutionId>),
    /// It is too much: these go together in its place, the latest first.
    Spans(Vec<Span>),
}

/// Gathers what was accepted in a span, the latest first.
pub(super) struct Gathering {
    span: Span,
    size_max: usize,
    places: Vec<Place>,
    /// Where the span is divided, the latest first: what was accepted then is in the later part.
    cuts: Vec<Timestamp>,
    /// How many there are since the last cut.
    count: usize,
    /// When the last one was accepted, and when the first.
    last_at: Option<Timestamp>,
    first_at: Option<Timestamp>,
}

impl Gathering {
    pub(super) const fn new(span: Span, size_max: usize) -> Self {
        Self { span, size_max, places: Vec::new(), cuts: Vec::new(), count: 0, last_at: None, first_at: None }
    }

    /// The next one that is listed, and whether it is meant.
    pub(super) fn add(&mut self, execution: &Execution, is_meant: bool) {
        let place = Place { id: execution.id(), sequence: execution.order.as_ref().map(|it| it.sequence) };
        self.add_place(execution.accepted_at, place, is_meant);
    }

    fn add_place(&mut self, at: Timestamp, place: Place, is_meant: bool) {
        if let Some(last_at) = self.last_at.filter(|it| self.count >= self.size_max && at < *it) {
            self.cuts.push(last_at);
            self.places = Vec::new();
            self.count = 0;
        }
        self.first_at = self.first_at.or(Some(at));
        self.last_at = Some(at);
        self.count += usize::from(is_meant);
        if is_meant && self.cuts.is_empty() {
            self.places.push(place);
        }
    }

    /// There are no more.
    pub(super) fn finish(mut self) -> Gathered {
        if self.cuts.is_empty() {
            if !is_on("redriven_latest_first") {
                self.places.reverse();
                // It keeps the order of those that have none.
                self.places.sort_by_key(|it| it.sequence);
            }
            return Gathered::Whole(self.places.into_iter().map(|it| it.id).collect());
        }
        let latest = self.first_at.map(|it| it + Duration::from_millis(1));
        let ends = std::iter::once(self.span.before.or(latest)).chain(self.cuts.iter().copied().map(Some));
        let begins = self.cuts.iter().copied().map(Some).chain([self.span.from]);
        Gathered::Spans(begins.zip(ends).map(|(from, before)| Span { from, before }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::key::Identity;

    fn id(number: u8) -> ExecutionId {
        ExecutionId::from_identity(Identity::from_bytes([number; 32]))
    }

    /// What comes of these moments, sequences and numbers, in the order of a list.
    fn gathered(size_max: usize, listed: &[(u64, Option<u64>, u8)]) -> Gathered {
        let mut gathering = Gathering::new(Span { from: None, before: None }, size_max);
        for (at, sequence, number) in listed {
            let place = Place { id: id(*number), sequence: *sequence };
            gathering.add_place(Timestamp::from_millis(*at), place, true);
        }
        gathering.finish()
    }

    #[test]
    fn the_oldest_goes_first_and_of_an_order_the_one_that_came_first() {
        let check = |listed: &[_], expected: &[u8]| {
            let expected = expected.iter().map(|it| id(*it)).collect();
            assert_eq!(gathered(9, listed), Gathered::Whole(expected));
        };
        check(&[(3, None, 3), (2, None, 2), (1, None, 1)], &[1, 2, 3]);
        // In one millisecond, or by the clock of a node that is behind.
        check(&[(3, Some(8), 8), (2, Some(10), 10), (2, Some(9), 9)], &[8, 9, 10]);
        check(&[], &[]);
    }

    #[test]
    fn what_is_too_much_is_divided_and_nothing_is_left_out_or_there_twice() {
        let listed: Vec<_> = [9, 8, 8, 8, 7, 6, 5, 5].iter().zip(1..).map(|(at, n)| (*at, None, n)).collect();
        let Gathered::Spans(spans) = gathered(2, &listed) else { panic!("it was not divided") };
        let at = |it| Some(Timestamp::from_millis(it));
        let span = |from, before| Span { from, before };
        // Three of one millisecond stay together.
        assert_eq!(spans, [span(at(8), at(10)), span(at(6), at(8)), span(None, at(6))]);
        let counts = spans.iter().map(|it| {
            let is_in = |moment: u64| {
                let moment = Timestamp::from_millis(moment);
                it.from.is_none_or(|from| from <= moment) && it.before.is_none_or(|before| moment < before)
            };
            listed.iter().filter(|(at, ..)| is_in(*at)).count()
        });
        assert_eq!(counts.collect::<Vec<_>>(), [4, 2, 2]);
    }

    #[test]
    fn one_millisecond_is_never_divided() {
        let listed: Vec<_> = (1..9).map(|it| (5, None, it)).collect();
        let expected: Vec<_> = (1..9).rev().map(id).collect();
        assert_eq!(gathered(2, &listed), Gathered::Whole(expected));
    }
}
