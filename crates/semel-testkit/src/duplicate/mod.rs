//! Delivers an event to a handler in every way that a source may, and reports effects that happened twice.
//!
//! 1. The event comes twice, one after the other; late, when the lease is long over and shortly before the
//!    record is forgotten; and at once, the second beginning at every await point of the first.
//! 2. The process dies at every await point, once and twice, and the event comes again.
//! 3. The process freezes at every await point until its lease has lapsed, the event comes again and is
//!    handled, and the first goes on where it stood.
//! 4. Every way has a world of its own: an empty store, a clock, and a [`Probe`] that counts effects.
//! 5. Every call of the store and every use of the probe is an await point, before and after it is carried
//!    out; so is every other await of the handler that has to wait.
//!
//! It does not know what an effect is: the handler says so, where the test's stand-in for the outside would
//! have one.
//!
//! ```
//! use semel::{HandlerError, Once, Provider};
//! use semel_testkit::{Probe, duplicate};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let handler = async |once: Once, order: u32, probe: Probe| {
//!     once.call("pay", order)
//!         .run(async |lease| {
//!             let charge = lease.effect("charge").keyed(Provider::STRIPE);
//!             Ok(charge.run(async |key| Ok::<_, HandlerError>(probe.record_keyed("charge", key).await)).await?)
//!         })
//!         .await
//! };
//! duplicate::check(handler, 7).await.assert_once();
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```

mod paced;
mod probe;
mod report;
mod world;

pub use probe::Probe;
pub use report::{Finding, Report, Scenario};

use report::Observed;
use semel::Once;
use std::time::Duration;
use world::{Work, World};

/// Most await points that are looked at, in one delivery.
const POINTS_MAX: usize = 400;

/// Longer than any lease that a handler may ask for without being asked why.
const PAST_THE_LEASE: Duration = Duration::from_hours(1);

/// An hour before the default retention is over.
const BEFORE_RETENTION_ENDS: Duration = Duration::from_hours(7 * 24 - 1);

/// Delivers the event in every way, each in a world of its own, and reports what happened more than once.
///
/// For a handler that keeps nothing outside of what it is given; see [`check_each`] for the others.
pub async fn check<E, T, H>(handler: H, event: E) -> Report
where
    E: Clone,
    H: AsyncFn(Once, E, Probe) -> T,
{
    check_each(|| &handler, event).await
}

/// As [`check`], with a new handler for every way of delivery: for handlers with a table of their own.
pub async fn check_each<E, T, H>(make: impl Fn() -> H, event: E) -> Report
where
    E: Clone,
    H: AsyncFn(Once, E, Probe) -> T,
{
    let deliver = async |scenario: Scenario| {
        let handler = make();
        let world = World::new();
        let handle = || -> Work<'_> {
            let handled = handler(world.once(), event.clone(), world.probe());
            Box::pin(async { drop(handled.await) })
        };
        let points = play(scenario, &world, handle).await;
        (points, Observed::new(scenario, &world.probe()))
    };
    let (points, alone) = deliver(Scenario::Alone).await;
    let mut observed = vec![alone];
    for scenario in Scenario::every(points.min(POINTS_MAX)) {
        observed.push(deliver(scenario).await.1);
    }
    Report::new(observed)
}

/// Plays one way of delivery to its end, and says how many await points the first delivery had.
async fn play<'a>(scenario: Scenario, world: &World, deliver: impl Fn() -> Work<'a>) -> usize {
    match scenario {
        Scenario::Alone => world.finish(deliver()).await,
        Scenario::Twice => {
            world.finish(deliver()).await;
            world.finish(deliver()).await
        }
        Scenario::Late(after) => {
            world.finish(deliver()).await;
            world.pass(after);
            world.finish(deliver()).await
        }
        Scenario::Together(point) => world.overlap(deliver(), point, deliver()).await,
        Scenario::Crash(point) => {
            world.crash(deliver(), point).await;
            world.pass(PAST_THE_LEASE);
            world.finish(deliver()).await;
            world.finish(deliver()).await
        }
        Scenario::CrashTwice(point) => {
            for _ in 0..2 {
                world.crash(deliver(), point).await;
                world.pass(PAST_THE_LEASE);
            }
            world.finish(deliver()).await;
            world.finish(deliver()).await
        }
        Scenario::Freeze(point) => world.freeze(deliver(), point, PAST_THE_LEASE, deliver()).await,
    }
}
