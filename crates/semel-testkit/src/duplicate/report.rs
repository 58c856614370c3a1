//! What came of delivering an event in every way.

use super::{BEFORE_RETENTION_ENDS, PAST_THE_LEASE, Probe};
use std::{collections::BTreeMap, fmt, time::Duration};

/// A way in which an event is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Scenario {
    /// Once, undisturbed: what the others are compared with.
    Alone,
    /// Twice, one after the other.
    Twice,
    /// Twice, the second so much later.
    Late(Duration),
    /// Twice at once: the second begins when the first has come to this await point.
    Together(usize),
    /// The process dies at this await point, and the event comes again, twice.
    Crash(usize),
    /// As before, and it dies at the same point of the second delivery too.
    CrashTwice(usize),
    /// The process freezes at this await point until its lease has lapsed and the event was handled elsewhere.
    Freeze(usize),
}

impl Scenario {
    /// Every way there is, for a handler with so many await points.
    pub(super) fn every(points: usize) -> Vec<Self> {
        let mut every = vec![Self::Twice, Self::Late(PAST_THE_LEASE), Self::Late(BEFORE_RETENTION_ENDS)];
        every.extend((0..=points).map(Self::Together));
        every.extend((1..=points).map(Self::Crash));
        every.extend((1..=points).map(Self::CrashTwice));
        every.extend((1..=points).map(Self::Freeze));
        every
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => f.write_str("delivered once"),
            Self::Twice => f.write_str("delivered twice, one after the other"),
            Self::Late(after) => write!(f, "delivered again {} hours later", after.as_secs() / 3_600),
            Self::Together(0) => f.write_str("delivered twice at the same moment"),
            Self::Together(point) => {
                write!(f, "delivered again while the first delivery stood at await point {point}")
            }
            Self::Crash(point) => write!(f, "crashed at await point {point}, then delivered again"),
            Self::CrashTwice(point) => {
                write!(f, "crashed twice at await point {point}, then delivered again")
            }
            Self::Freeze(point) => {
                write!(f, "froze at await point {point}, was delivered again, and then went on")
            }
        }
    }
}

/// An effect that did not happen as often as it should, and how it was brought about.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// How the event was delivered.
    pub scenario: Scenario,
    /// As the handler named it to the probe.
    pub effect: String,
    /// How often it happened.
    pub count: u32,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => write!(f, "`{}` never happened: {}", self.effect, self.scenario),
            count => write!(f, "`{}` happened {count} times: {}", self.effect, self.scenario),
        }
    }
}

/// What was seen in one way of delivery.
pub(super) struct Observed {
    scenario: Scenario,
    counts: BTreeMap<String, u32>,
}

impl Observed {
    pub(super) fn new(scenario: Scenario, probe: &Probe) -> Self {
        Self { scenario, counts: probe.counts() }
    }
}

/// Which effects happened more than once, and in which way of delivery. Its text lists them all.
#[must_use = "a report that nobody reads finds nothing: `assert_once`"]
pub struct Report {
    observed: Vec<Observed>,
}

impl Report {
    /// `observed` begins with the delivery that was left alone.
    pub(super) fn new(observed: Vec<Observed>) -> Self {
        Self { observed }
    }

    /// In how many ways the event was delivered.
    pub fn scenarios(&self) -> usize {
        self.observed.len()
    }

    /// Effects that happened more than once.
    pub fn repeated(&self) -> Vec<Finding> {
        self.findings(|count| count > 1)
    }

    /// Effects that an undisturbed delivery has, and another had not, even after the event came again.
    ///
    /// Not wrong for an effect that is sent at most once: an interrupted one waits for somebody to resolve it.
    pub fn lost(&self) -> Vec<Finding> {
        self.findings(|count| count == 0)
    }

    fn findings(&self, is_finding: impl Fn(u32) -> bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        for Observed { scenario, counts } in &self.observed {
            // Effects of the undisturbed delivery that are missing here count as 0.
            let mut counts = counts.clone();
            for effect in self.effects() {
                counts.entry(effect.clone()).or_insert(0);
            }
            let wrong = counts.into_iter().filter(|(_, count)| is_finding(*count));
            findings.extend(wrong.map(|(effect, count)| Finding { scenario: *scenario, effect, count }));
        }
        findings
    }

    fn effects(&self) -> impl Iterator<Item = &String> {
        self.observed.iter().take(1).flat_map(|it| it.counts.keys())
    }

    /// Panics with the whole list if an effect happened more than once, or if there was none to begin with.
    pub fn assert_once(&self) {
        assert!(self.effects().next().is_some(), "the handler recorded no effect: nothing was checked");
        assert!(self.repeated().is_empty(), "{self}");
    }

    /// As [`Report::assert_once`], and every effect happened in the end, however the event was delivered.
    pub fn assert_exactly_once(&self) {
        self.assert_once();
        assert!(self.lost().is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (repeated, lost) = (self.repeated(), self.lost());
        let ways = self.scenarios();
        writeln!(f, "delivered in {ways} ways: {} repeated effects, {} lost", repeated.len(), lost.len())?;
        repeated.iter().chain(&lost).try_for_each(|it| writeln!(f, "  {it}"))
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
