//! Callers on one thread, whose turns, crashes and clock follow from a seed.
//!
//! 1. Whoever was woken may be next; the seed says who is. A caller that was not woken gets no turn.
//! 2. When nobody was woken, time passes up to the next deadline; where the seed says so, also before. The
//!    wall clock may be set, forwards and backwards, without any time passing.
//! 3. A caller that crashes is dropped between two turns, wherever it stands.
//! 4. Callers that wait with nobody to wake them, and callers that never end, are errors.

use semel::Clock;
use semel_testkit::ManualClock;
use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// Most turns of one run.
const TURNS_MAX: u32 = 50_000;

/// Dice that all of a run share.
#[derive(Clone)]
pub(crate) struct Dice(Rc<RefCell<fastrand::Rng>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(fastrand::Rng::with_seed(seed))))
    }

    /// A number below this.
    pub(crate) fn below(&self, sides: u32) -> u32 {
        self.0.borrow_mut().u32(0..sides)
    }

    pub(crate) fn one_in(&self, sides: u32) -> bool {
        self.below(sides) == 0
    }

    /// Gives others up to so many turns.
    pub(crate) async fn dawdle(&self, turns_max: u32) {
        for _ in 0..self.below(turns_max + 1) {
            yield_now().await;
        }
    }
}

async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A caller, and when it dies.
struct Caller<'a> {
    work: Pin<Box<dyn Future<Output = ()> + 'a>>,
    woken: Arc<Woken>,
    waker: Waker,
    turns_left: Option<u32>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The most that the clock does between two turns, besides what sleepers wait for.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// So much time passes.
    pub(crate) tick: Duration,
    /// So much passes now and then, as when the whole machine stands still.
    pub(crate) pause: Duration,
    /// So far is the wall clock set, forwards or backwards.
    pub(crate) jump: Duration,
}

impl Pace {
    /// Nothing: time passes only when everybody waits.
    pub(crate) const STILL: Self = Self { tick: Duration::ZERO, pause: Duration::ZERO, jump: Duration::ZERO };
}

/// A run of callers.
pub(crate) struct Simulation<'a> {
    clock: ManualClock,
    dice: Dice,
    callers: Vec<Caller<'a>>,
    pace: Pace,
    /// How many callers died before they ended.
    pub(crate) crashes: u64,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(clock: ManualClock, dice: Dice, pace: Pace) -> Self {
        Self { clock, dice, callers: Vec::new(), pace, crashes: 0 }
    }

    /// Adds a caller, which dies after so many turns if it has not ended by then.
    pub(crate) fn spawn(&mut self, turns_left: Option<u32>, work: impl Future<Output = ()> + 'a) {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        self.callers.push(Caller { work: Box::pin(work), woken, waker, turns_left });
    }

    /// Gives turns until every caller has ended or died.
    pub(crate) fn run(&mut self) -> Result<(), &'static str> {
        for _ in 0..TURNS_MAX {
            if self.callers.is_empty() {
                return Ok(());
            }
            self.pass_time();
            match self.next() {
                Some(index) => self.turn(index),
                None if self.clock.advance_to_next() => {}
                None => return Err("everybody waits, and nobody will wake them"),
            }
        }
        Err("the callers do not come to an end")
    }

    fn pass_time(&self) {
        if self.dice.one_in(3) {
            self.clock.advance(self.up_to(self.pace.tick));
        }
        if self.dice.one_in(40) {
            self.clock.advance(self.up_to(self.pace.pause));
        }
        if self.dice.one_in(10) {
            let (now, far) = (self.clock.now(), self.up_to(self.pace.jump));
            self.clock.jump(if self.dice.one_in(2) { now + far } else { now - far });
        }
    }

    fn up_to(&self, max: Duration) -> Duration {
        let micros = u32::try_from(max.as_micros()).unwrap_or(u32::MAX);
        Duration::from_micros(self.dice.below(micros.saturating_add(1)).into())
    }

    fn next(&self) -> Option<usize> {
        let is_woken = |index: &usize| self.callers[*index].woken.0.load(Ordering::Relaxed);
        let woken = (0..self.callers.len()).filter(is_woken).count() as u32;
        let chosen = (woken > 0).then(|| self.dice.below(woken))?;
        (0..self.callers.len()).filter(is_woken).nth(chosen as usize)
    }

    fn turn(&mut self, index: usize) {
        let caller = &mut self.callers[index];
        if caller.turns_left == Some(0) {
            self.crashes += 1;
            self.callers.swap_remove(index);
            return;
        }
        caller.turns_left = caller.turns_left.map(|it| it - 1);
        caller.woken.0.store(false, Ordering::Relaxed);
        let polled = caller.work.as_mut().poll(&mut Context::from_waker(&caller.waker));
        if polled.is_ready() {
            self.callers.swap_remove(index);
        }
    }
}
