//! A handler with an effect of each class, under a store that fails, leases that lapse and processes that die.
//!
//! What must hold in every run, repeated by its seed: `SEMEL_SEED=7 cargo nextest run --test proof effects`.
//!
//! 1. The provider sees one idempotency key, however often it is asked.
//! 2. What happens at most once happens at most once; so does what the outside is asked about.
//! 3. When the call completes, each effect has happened.

use crate::simulation::{Dice, Pace, Simulation};
use semel::{ErrorKind, HandlerError, Lease, MemoryStore, OnBusy, Once, Provider};
use semel_testkit::{ChaosStore, ManualClock};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

const CALLERS: u32 = 5;
const SEEDS: u64 = 6_000;
const LEASE: Duration = Duration::from_millis(60);
const PACE: Pace = Pace { tick: Duration::from_millis(5), pause: Duration::from_millis(150), ..Pace::STILL };

/// The outside.
#[derive(Default)]
struct World {
    keys: RefCell<HashSet<String>>,
    charges: Cell<u32>,
    emails: Cell<u32>,
    transfers: Cell<u32>,
}

fn add_one(count: &Cell<u32>) {
    count.set(count.get() + 1);
}

struct Run {
    clock: ManualClock,
    chaos: ChaosStore,
    once: Once,
    dice: Dice,
    world: World,
    ends: RefCell<Vec<Result<(), ErrorKind>>>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let clock = ManualClock::new();
        let chaos = ChaosStore::new(Arc::new(MemoryStore::with_clock(clock.arc())), seed);
        let chaos = chaos.fails_one_in(12).loses_one_in(12);
        let once = Once::builder().lease(LEASE).on_busy(OnBusy::Reject).from_store(Arc::new(chaos.clone()));
        let (dice, world, ends) = (Dice::new(!seed), World::default(), RefCell::default());
        Self { clock, chaos, once, dice, world, ends }
    }

    async fn caller(&self) {
        for _ in 0..3 {
            self.dice.dawdle(12).await;
            let result = self.once.call("order", 1).run(async |lease| self.handle(lease).await).await;
            self.ends.borrow_mut().push(result.map_err(|error| error.kind()));
        }
    }

    async fn handle(&self, lease: &Lease) -> Result<(), HandlerError> {
        let World { keys, charges, emails, transfers } = &self.world;
        let charge = lease.effect("charge").keyed(Provider::STRIPE);
        charge
            .run(async |key| {
                self.happens(charges).await?;
                keys.borrow_mut().insert(key.into());
                Ok::<_, HandlerError>(())
            })
            .await?;
        lease.effect("email").at_most_once().run(async || self.happens(emails).await).await?;
        let query = async || Ok::<_, HandlerError>((transfers.get() > 0).then_some(()));
        let transfer = lease.effect("transfer").reconcile(query);
        transfer.run(async || self.happens(transfers).await).await?;
        if self.dice.one_in(6) { Err("not now".into()) } else { Ok(()) }
    }

    /// Happens after a while, and takes a while to come back; or does not happen, and says so.
    async fn happens(&self, effect: &Cell<u32>) -> Result<(), HandlerError> {
        self.dice.dawdle(3).await;
        if self.dice.one_in(8) {
            return Err("the other side is busy".into());
        }
        add_one(effect);
        self.dice.dawdle(3).await;
        Ok(())
    }

    fn check(&self, seed: u64, ended: Result<(), &str>) {
        let World { keys, charges, emails, transfers } = &self.world;
        let rule = |holds: bool, what: &str| {
            assert!(holds, "SEMEL_SEED={seed}: {what}: {:?}, {:?}", self.ends.borrow(), self.chaos);
        };
        rule(ended.is_ok(), ended.err().unwrap_or_default());
        rule(keys.borrow().len() <= 1, "the provider saw two keys");
        rule(emails.get() <= 1, "two e-mails");
        rule(transfers.get() <= 1, "two transfers");
        if self.ends.borrow().iter().any(Result::is_ok) {
            let happened = [charges, emails, transfers].iter().all(|it| it.get() > 0);
            rule(happened, "completed without every effect");
        }
    }
}

#[test]
fn effects_keep_their_promises_while_everything_fails() {
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    let chosen =
        std::env::var("SEMEL_SEED").ok().map(|it| it.parse::<u64>().expect("SEMEL_SEED is a number"));
    for seed in chosen.map_or(0..SEEDS, |seed| seed..seed + 1) {
        let run = Run::new(seed);
        let mut simulation = Simulation::new(run.clock.clone(), run.dice.clone(), PACE);
        for _ in 0..CALLERS {
            let dies = run.dice.one_in(3).then(|| run.dice.below(80));
            simulation.spawn(dies, run.caller());
        }
        let ended = simulation.run();
        *met.entry("crashes").or_default() += simulation.crashes;
        drop(simulation);
        run.check(seed, ended);
        *met.entry("lost replies").or_default() += run.chaos.injected().lost_after;
        *met.entry("charges sent again").or_default() += u64::from(run.world.charges.get() > 1);
        for end in run.ends.borrow().iter() {
            *met.entry(end.map_or_else(ErrorKind::as_str, |()| "completed")).or_default() += 1;
        }
    }
    println!("{met:?}");
    let floors = ["completed", "outcome_unknown", "lapsed", "crashes", "lost replies", "charges sent again"];
    for name in floors {
        assert!(chosen.is_some() || met.get(name) >= Some(&(SEEDS / 50)), "`{name}` was hardly met: {met:?}");
    }
}
