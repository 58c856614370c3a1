//! One way of delivery has one world, whose time passes only when everybody in it waits.

use super::{Probe, paced::Paced};
use crate::{
    ManualClock,
    join::{caught, yield_now},
};
use semel::{MemoryStore, Once};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// How often tasks that a handler started get a turn before time passes.
const IDLE_ROUNDS: u32 = 16;

/// Most turns in one way of delivery: a handler that never ends is a finding of its own.
const TURNS_MAX: usize = 100_000;

/// A handler at work.
pub(super) type Work<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(super) struct World {
    clock: ManualClock,
    once: Once,
    probe: Probe,
}

impl World {
    pub(super) fn new() -> Self {
        let clock = ManualClock::new();
        let once = Once::new(Paced(MemoryStore::with_clock(clock.arc())));
        Self { clock, once, probe: Probe::new() }
    }

    pub(super) fn once(&self) -> Once {
        self.once.clone()
    }

    pub(super) fn probe(&self) -> Probe {
        self.probe.clone()
    }

    /// Lets time pass while nobody is at work.
    pub(super) fn pass(&self, duration: Duration) {
        self.clock.advance(duration);
    }

    /// Runs a delivery to its end, and says how many await points it had.
    pub(super) async fn finish(&self, delivery: Work<'_>) -> usize {
        let mut first = Delivery::new(delivery);
        self.run(&mut [&mut first], |_| false).await;
        first.points
    }

    /// Runs a delivery up to this await point, and then lets its process die.
    pub(super) async fn crash(&self, delivery: Work<'_>, point: usize) -> usize {
        let mut first = Delivery::new(delivery);
        self.run(&mut [&mut first], |points| points >= point).await;
        first.points
    }

    /// Runs a delivery up to this await point, then both to their ends.
    pub(super) async fn overlap(&self, first: Work<'_>, point: usize, second: Work<'_>) -> usize {
        let (mut first, mut second) = (Delivery::new(first), Delivery::new(second));
        self.run(&mut [&mut first], |points| points >= point).await;
        self.run(&mut [&mut first, &mut second], |_| false).await;
        first.points
    }

    /// Runs a delivery up to this await point, lets it stand for so long and another be handled, then goes on.
    pub(super) async fn freeze(
        &self,
        first: Work<'_>,
        point: usize,
        length: Duration,
        second: Work<'_>,
    ) -> usize {
        let (mut first, mut second) = (Delivery::new(first), Delivery::new(second));
        self.run(&mut [&mut first], |points| points >= point).await;
        self.pass(length);
        self.run(&mut [&mut second], |_| false).await;
        self.run(&mut [&mut first], |_| false).await;
        first.points
    }

    /// Gives turns to whoever was woken until all are over, or one has come as far as this.
    /// When nobody was woken for a while, time passes up to the next deadline.
    async fn run(&self, deliveries: &mut [&mut Delivery<'_>], is_far_enough: impl Fn(usize) -> bool) {
        let mut idle = 0;
        for _ in 0..TURNS_MAX {
            if deliveries.iter().all(|it| it.is_over())
                || deliveries.iter().any(|it| is_far_enough(it.points))
            {
                return;
            }
            let mut has_moved = false;
            for delivery in deliveries.iter_mut() {
                has_moved |= delivery.turn();
            }
            yield_now().await;
            idle = if has_moved { 0 } else { idle + 1 };
            if idle >= IDLE_ROUNDS {
                idle = 0;
                self.clock.advance_to_next();
            }
        }
        panic!("the handler did not end within {TURNS_MAX} turns: does it wait for something real?");
    }
}

/// A handler at work on one delivery.
struct Delivery<'a> {
    /// Gone when it is over.
    work: Option<Work<'a>>,
    woken: Arc<Woken>,
    /// How many await points it has come to.
    points: usize,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl<'a> Delivery<'a> {
    fn new(work: Work<'a>) -> Self {
        // A handler that panics has crashed; the other deliveries go on.
        let work: Work<'a> = Box::pin(async move { drop(caught(work).await) });
        Self { work: Some(work), woken: Arc::new(Woken(AtomicBool::new(true))), points: 0 }
    }

    fn is_over(&self) -> bool {
        self.work.is_none()
    }

    /// Goes on to its next await point if it was woken; says whether it did.
    fn turn(&mut self) -> bool {
        let Some(work) = &mut self.work else { return false };
        if !self.woken.0.swap(false, Ordering::AcqRel) {
            return false;
        }
        let waker = Waker::from(Arc::clone(&self.woken));
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => self.work = None,
            Poll::Pending => self.points += 1,
        }
        true
    }
}
