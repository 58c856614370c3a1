//! Tens of thousands of runs of six callers under a store that fails, leases that lapse and processes that
//! die; each is repeated by its seed: `SEMEL_SEED=7 cargo nextest run --test proof chaos`.
//!
//! What must hold in every run:
//!
//! 1. At most one caller completes the call; whoever gets a result gets that one; the record holds it.
//! 2. Nothing happens after a completion that was confirmed to somebody.
//! 3. The fences that effects carry only grow: who was superseded never acts again. (2 and 3 presume that
//!    nobody sets the wall clock, and are not asked where somebody does.)
//! 4. While no lease can lapse, the effect happens once at most, whatever the store does.
//! 5. Whose result is stored was told so: no lost reply makes a completion look lost. While no lease can lapse,
//!    every completion is confirmed in the end.
//! 6. When the trouble ends, the next caller gets a result.

use crate::simulation::{Dice, Pace, Simulation};
use semel::{Clock, ErrorKind, Fence, HandlerError, How, MemoryStore, OnBusy, Once, Outcome};
use semel_testkit::{ChaosStore, Injected, ManualClock};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::Arc,
    time::Duration,
};

const CALLERS: u32 = 6;
const PROCESSES: u32 = 3;
/// Seeds of each test; there are five.
const SEEDS: u64 = 10_000;

/// How bad a run is.
#[derive(Clone, Copy)]
struct Weather {
    lease: Duration,
    pace: Pace,
    /// One handler in so many says that its failure is fatal; none if 0.
    fatal_one_in: u32,
}

/// No lease ever lapses.
const STORMY: Weather = Weather { lease: Duration::from_hours(10), pace: Pace::STILL, fatal_one_in: 0 };
/// Time passes so fast, and holders stand still for so long, that leases lapse while they work.
const HASTY: Weather = Weather {
    lease: Duration::from_millis(40),
    pace: Pace { tick: Duration::from_millis(6), pause: Duration::from_millis(120), ..Pace::STILL },
    fatal_one_in: 0,
};
/// Somebody sets the wall clock while the callers work, so leases seem to lapse and to grow.
const JUMPY: Weather = Weather {
    pace: Pace { tick: Duration::from_millis(2), jump: Duration::from_mins(1), ..Pace::STILL },
    ..HASTY
};

/// What was seen in one run, in order.
#[derive(Default)]
struct Seen {
    effects: Vec<Fence>,
    /// Values that callers got from their own handler.
    completed: Vec<u32>,
    /// Values that callers got from somebody else's.
    replayed: Vec<u32>,
    failed_before: u32,
    /// Values whose caller was told that another holder took over.
    disowned: Vec<u32>,
    /// A rule that was broken on the way.
    broken: Option<String>,
}

impl Seen {
    fn is_confirmed(&self) -> bool {
        !self.completed.is_empty() || !self.replayed.is_empty() || self.failed_before > 0
    }

    fn happens(&mut self, fence: Fence) {
        if self.is_confirmed() {
            self.broken = Some(format!("an effect under {fence} after the call was finished"));
        }
        if self.effects.last().is_some_and(|last| *last >= fence) {
            self.broken = Some(format!("an effect under {fence} after one under {:?}", self.effects.last()));
        }
        self.effects.push(fence);
    }

    fn ends(&mut self, result: &Result<Outcome<u32>, semel::Error>) {
        match result {
            Ok(Outcome { how: How::Replayed, value, .. }) => self.replayed.push(*value),
            Ok(Outcome { value, .. }) => self.completed.push(*value),
            Err(error) if matches!(error.kind(), ErrorKind::FailedBefore { .. }) => self.failed_before += 1,
            Err(_) => {}
        }
    }
}

/// What happened over all seeds: a test that met no trouble proved nothing.
#[derive(Default, Debug)]
struct Tally {
    /// Only one seed was played, which need not meet everything.
    is_sample: bool,
    ends: BTreeMap<&'static str, u64>,
    crashes: u64,
    failed_before: u64,
    lost_after: u64,
    effects: u64,
}

impl Tally {
    fn count(&mut self, result: &Result<Outcome<u32>, semel::Error>) {
        let end = match result {
            Ok(outcome) => match outcome.how {
                How::Fresh => "fresh",
                How::Retried => "retried",
                How::TakenOver => "taken over",
                How::Replayed => "replayed",
                How::Reentered | How::Unprotected => "never",
            },
            Err(error) => error.kind().as_str(),
        };
        *self.ends.entry(end).or_default() += 1;
    }

    fn add(&mut self, injected: Injected, crashes: u64, effects: usize) {
        self.crashes += crashes;
        self.failed_before += injected.failed_before;
        self.lost_after += injected.lost_after;
        self.effects += effects as u64;
    }

    /// Demands that each of these was met so often.
    fn demand(&self, floors: &[(&str, u64)]) {
        println!("{self:?}");
        let trouble = [
            ("crashes", self.crashes),
            ("failed before the write", self.failed_before),
            ("lost after the write", self.lost_after),
            ("effects", self.effects),
        ];
        for (name, floor) in floors {
            let met = self
                .ends
                .get(name)
                .copied()
                .or_else(|| trouble.iter().find(|it| it.0 == *name).map(|it| it.1));
            assert!(
                met.unwrap_or(0) >= *floor,
                "`{name}` was met {met:?} times, less than {floor}: {self:?}"
            );
        }
    }
}

/// One run: six callers in three processes, one key.
struct Run {
    seed: u64,
    weather: Weather,
    clock: ManualClock,
    chaos: ChaosStore,
    dice: Dice,
    processes: Vec<Once>,
    seen: RefCell<Seen>,
    last_value: Cell<u32>,
}

impl Run {
    fn new(seed: u64, weather: Weather) -> Self {
        let clock = ManualClock::new();
        let chaos = ChaosStore::new(Arc::new(MemoryStore::with_clock(clock.arc())), seed);
        let process = |_| Once::builder().lease(weather.lease).from_store(Arc::new(chaos.clone()));
        let processes = (0..PROCESSES).map(process).collect();
        let dice = Dice::new(!seed);
        let (seen, last_value) = (RefCell::default(), Cell::default());
        Self { seed, weather, clock, chaos, dice, processes, seen, last_value }
    }

    fn play(&self, tally: &mut Tally) {
        let results = RefCell::new(Vec::new());
        let mut simulation = Simulation::new(self.clock.clone(), self.dice.clone(), self.weather.pace);
        for _ in 0..CALLERS {
            let dies = self.dice.one_in(4).then(|| self.dice.below(40));
            simulation.spawn(dies, self.caller(&results));
        }
        let ended = simulation.run();
        let crashes = simulation.crashes;
        drop(simulation);
        self.check(ended, &results.borrow());
        results.borrow().iter().for_each(|it| tally.count(it));
        tally.add(self.chaos.injected(), crashes, self.seen.borrow().effects.len());
        self.heal();
    }

    async fn caller(&self, results: &RefCell<Vec<Result<Outcome<u32>, semel::Error>>>) {
        self.dice.dawdle(8).await;
        for _ in 0..=self.dice.below(2) {
            let made = Cell::new(None);
            let result = self.call(&made).await;
            self.seen.borrow_mut().ends(&result);
            if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Superseded) {
                self.seen.borrow_mut().disowned.extend(made.get());
            }
            results.borrow_mut().push(result);
            self.dice.dawdle(8).await;
        }
    }

    /// Makes the call; `made` is the value that its handler came to, if it ran to its end.
    async fn call(&self, made: &Cell<Option<u32>>) -> Result<Outcome<u32>, semel::Error> {
        let once = &self.processes[self.dice.below(PROCESSES) as usize];
        let max = Duration::from_millis(self.dice.below(60).into());
        let on_busy = if self.dice.one_in(2) { OnBusy::Reject } else { OnBusy::Wait { max } };
        let call = once.call("simulated", "key").payload_bytes(b"payload").on_busy(on_busy);
        call.run_outcome(async |lease| {
            self.dice.dawdle(4).await;
            if self.dice.one_in(8) {
                return Err(HandlerError::from("not now"));
            }
            if self.weather.fatal_one_in > 0 && self.dice.one_in(self.weather.fatal_one_in) {
                return Err(HandlerError::fatal("never"));
            }
            self.seen.borrow_mut().happens(lease.fence());
            self.dice.dawdle(4).await;
            self.last_value.set(self.last_value.get() + 1);
            made.set(Some(self.last_value.get()));
            Ok(self.last_value.get())
        })
        .await
    }

    fn check(&self, ended: Result<(), &str>, results: &[Result<Outcome<u32>, semel::Error>]) {
        let seen = self.seen.borrow();
        let rule = |holds: bool, what: &str| {
            assert!(holds, "SEMEL_SEED={}: {what}: {results:?}, {:?}", self.seed, self.chaos);
        };
        rule(ended.is_ok(), ended.err().unwrap_or_default());
        // By a wall clock that was set forwards, a lease is over before its holder's own time is.
        let is_judged = self.weather.pace.jump == Duration::ZERO;
        rule(!is_judged || seen.broken.is_none(), seen.broken.as_deref().unwrap_or_default());
        rule(seen.completed.len() <= 1, "two callers completed one call");
        let mut values = seen.completed.iter().chain(&seen.replayed);
        let first = values.next();
        rule(values.all(|it| Some(it) == first), "two callers got different results");
        rule(first.is_none() || seen.failed_before == 0, "a call both failed and took effect");
        let is_doubtful =
            |it: &&semel::Error| matches!(it.kind(), ErrorKind::Unconfirmed | ErrorKind::Lapsed);
        let doubtful = results.iter().filter_map(|it| it.as_ref().err()).find(is_doubtful);
        let lapses = self.weather.pace.tick > Duration::ZERO;
        rule(lapses || seen.effects.len() <= 1, "two effects while no lease could lapse");
        rule(lapses || doubtful.is_none(), "a holder gave up while its lease could not lapse");
    }

    /// The trouble ends, and everybody who died is given up: the next caller gets the result.
    fn heal(&self) {
        self.chaos.calm(true);
        self.clock.advance(self.weather.lease * 2);
        self.clock.jump(self.clock.now() + self.weather.pace.jump * 100);
        let before = self.seen.borrow().completed.iter().chain(&self.seen.borrow().replayed).next().copied();
        let results = RefCell::new(Vec::new());
        let mut simulation = Simulation::new(self.clock.clone(), self.dice.clone(), Pace::STILL);
        simulation.spawn(None, async {
            // A handler may fail a few times by its own dice.
            for _ in 0..20 {
                let result = self.call(&Cell::new(None)).await;
                results.borrow_mut().push(result);
            }
        });
        let ended = simulation.run();
        drop(simulation);
        let results = results.into_inner();
        let last = results.last().expect("twenty calls were made");
        let rule = |holds: bool, what: &str| assert!(holds, "SEMEL_SEED={}: {what}: {last:?}", self.seed);
        rule(ended.is_ok(), "stuck after the trouble ended");
        match last {
            Ok(outcome) => {
                rule(before.is_none_or(|it| it == outcome.value), "the record holds another result");
                rule(self.seen.borrow().failed_before == 0, "a failed call took effect");
                let is_disowned = self.seen.borrow().disowned.contains(&outcome.value);
                rule(!is_disowned, "whose result is stored was told that somebody took over");
            }
            Err(error) => {
                let failed = matches!(error.kind(), ErrorKind::FailedBefore { .. });
                rule(failed && before.is_none(), "no result after the trouble ended");
            }
        }
    }
}

/// Plays all seeds, or the one that the environment names.
fn play(weather: Weather, first_seed: u64) -> Tally {
    let mut tally = Tally::default();
    let chosen =
        std::env::var("SEMEL_SEED").ok().map(|it| it.parse::<u64>().expect("SEMEL_SEED is a number"));
    let seeds = chosen.map_or(first_seed..first_seed + SEEDS, |seed| seed..seed + 1);
    for seed in seeds {
        Run::new(seed, weather).play(&mut tally);
    }
    tally.is_sample = chosen.is_some();
    tally
}

const TROUBLE: [(&str, u64); 4] = [
    ("failed before the write", SEEDS),
    ("lost after the write", SEEDS),
    ("crashes", SEEDS / 4),
    ("effects", SEEDS / 2),
];

#[test]
fn one_effect_at_most_while_no_lease_lapses() {
    let tally = play(STORMY, 0);
    tally.demand(&TROUBLE);
    tally.demand(&[
        ("fresh", SEEDS / 4),
        ("replayed", SEEDS / 2),
        ("in_progress", SEEDS / 4),
        ("retried", SEEDS / 100),
    ]);
}

#[test]
fn lapsing_leases_are_taken_over_and_the_superseded_never_act() {
    let tally = play(HASTY, 1_000_000);
    tally.demand(&TROUBLE);
    tally.demand(&[("taken over", SEEDS / 10), ("replayed", SEEDS / 2), ("lapsed", SEEDS / 20)]);
}

#[test]
fn failures_are_final_for_everybody_while_no_lease_lapses() {
    let tally = play(Weather { fatal_one_in: 2, ..STORMY }, 2_000_000);
    tally.demand(&TROUBLE[..3]);
    tally.demand(&[("failed_before", SEEDS / 4), ("fresh", SEEDS / 10)]);
}

#[test]
fn failures_are_final_for_everybody_while_leases_lapse() {
    let tally = play(Weather { fatal_one_in: 2, ..HASTY }, 3_000_000);
    tally.demand(&TROUBLE[..3]);
    tally.demand(&[("failed_before", SEEDS / 4), ("taken over", SEEDS / 20)]);
}

#[test]
fn a_wall_clock_that_is_set_costs_effects_but_never_the_outcome() {
    let tally = play(JUMPY, 4_000_000);
    tally.demand(&TROUBLE);
    tally.demand(&[("taken over", SEEDS / 10), ("superseded", SEEDS / 100), ("replayed", SEEDS / 2)]);
}
