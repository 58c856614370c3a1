//! Doubts: how they show, and how both resolutions end them.

use crate::support::{DAY, World, crash, never};
use semel::{Error, ErrorKind, HandlerError, Key, Lease, OnLapse, Reason, Resolution, Status};
use std::cell::Cell;

/// An order that charges (keyed elsewhere) and mails (at most once).
struct Order {
    world: World,
    mails: Cell<u32>,
}

impl Order {
    fn new() -> Self {
        Self { world: World::new(), mails: Cell::new(0) }
    }

    async fn handle(&self, lease: &Lease, crashes: bool) -> Result<String, HandlerError> {
        let mail = lease.effect("email").at_most_once().run(async || {
            self.mails.set(self.mails.get() + 1);
            if crashes { never().await } else { Ok::<_, HandlerError>(()) }
        });
        mail.await?;
        Ok("shipped".to_owned())
    }

    /// Crashes in the mail, lets the lease lapse, and tries again: now it is in doubt.
    async fn in_doubt() -> Self {
        let order = Self::new();
        crash(order.world.call().run(async |lease| order.handle(lease, true).await));
        order.world.lapse();
        assert_eq!(order.run().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        order
    }

    async fn run(&self) -> Result<String, Error> {
        self.world.call().run(async |lease| self.handle(lease, false).await).await
    }

    fn email(&self) -> Key {
        self.world.key().effect("email").unwrap()
    }
}

#[tokio::test]
async fn a_doubt_shows_in_the_call_and_in_the_effect() {
    let order = Order::in_doubt().await;
    let call = order.world.once.get("pay", "evt-1").await.unwrap().unwrap();
    assert_eq!((call.status(), call.reason()), (Status::Failed, Some(Reason::OutcomeUnknown)));
    assert_eq!(call.error(), Some("effect `email`: it was interrupted after it was begun"));
    let effect = order.world.once.get_key(&order.email()).await.unwrap().unwrap();
    assert_eq!((effect.status(), effect.reason()), (Status::Failed, Some(Reason::OutcomeUnknown)));
    assert_eq!(
        effect.to_string(),
        "pay/evt-1#email FAILED, attempts 1, outcome_unknown: it was interrupted after it was begun"
    );
}

#[tokio::test]
async fn a_doubt_does_not_go_away_by_waiting() {
    let order = Order::in_doubt().await;
    order.world.clock.advance(DAY * 365);
    assert_eq!(order.run().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(order.mails.get(), 1);
}

#[tokio::test]
async fn an_effect_that_happened_is_not_run_and_its_call_goes_on() {
    let order = Order::in_doubt().await;
    let once = &order.world.once;
    let receipt =
        once.resolve(&order.email(), Resolution::happened(), "ann", "saw it in the outbox").await.unwrap();
    assert_eq!(receipt.released, Some(order.world.key()));
    assert_eq!((receipt.before, receipt.after), (Status::Failed, Some(Status::Completed)));
    assert_eq!(order.run().await.unwrap(), "shipped");
    assert_eq!(order.mails.get(), 1, "it was mailed twice");
}

#[tokio::test]
async fn an_effect_that_did_not_happen_is_run_when_its_call_goes_on() {
    let order = Order::in_doubt().await;
    let once = &order.world.once;
    let receipt =
        once.resolve(&order.email(), Resolution::did_not_happen(), "ann", "it is not there").await.unwrap();
    assert_eq!(receipt.after, Some(Status::Pending));
    assert_eq!(order.run().await.unwrap(), "shipped");
    assert_eq!(order.mails.get(), 2);
    assert_eq!(order.run().await.unwrap(), "shipped");
    assert_eq!(order.mails.get(), 2);
}

#[tokio::test]
async fn a_result_that_somebody_found_is_replayed() {
    let world = World::new();
    let charge = async |lease: &Lease, crashes: bool| {
        let charge = lease
            .effect("charge")
            .at_most_once()
            .run(async || if crashes { never().await } else { Ok::<_, HandlerError>("ch_new".to_owned()) });
        Ok(charge.await?)
    };
    crash(world.call().run(async |lease| charge(lease, true).await));
    world.lapse();
    world.call().run(async |lease| charge(lease, false).await).await.unwrap_err();
    let key = world.key().effect("charge").unwrap();
    let found = Resolution::happened_with("ch_found").unwrap();
    world.once.resolve(&key, found, "ann", "found it at the provider").await.unwrap();
    world.clock.advance(DAY * 3);
    assert_eq!(world.call().run(async |lease| charge(lease, false).await).await.unwrap(), "ch_found");
}

#[tokio::test]
async fn a_result_that_nobody_has_and_the_handler_needs_is_not_kept() {
    let world = World::new();
    let charge = async |lease: &Lease, crashes: bool| {
        let charge = lease
            .effect("charge")
            .at_most_once()
            .run(async || if crashes { never().await } else { Ok::<_, HandlerError>(7_u32) });
        Ok(charge.await?)
    };
    crash(world.call().run(async |lease| charge(lease, true).await));
    world.lapse();
    world.call().run(async |lease| charge(lease, false).await).await.unwrap_err();
    let key = world.key().effect("charge").unwrap();
    world.once.resolve(&key, Resolution::happened(), "ann", "found it").await.unwrap();
    let error = world.call().run(async |lease| charge(lease, false).await).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotKept);
}

#[tokio::test]
async fn resolving_the_call_alone_does_not_run_an_effect_in_doubt() {
    let order = Order::in_doubt().await;
    let once = &order.world.once;
    once.resolve(&order.world.key(), Resolution::did_not_happen(), "ann", "try again").await.unwrap();
    assert_eq!(order.run().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(order.mails.get(), 1);
    let given = Resolution::happened_with("shipped by hand").unwrap();
    once.resolve(&order.world.key(), given, "ann", "did it by hand").await.unwrap();
    assert_eq!(order.run().await.unwrap(), "shipped by hand");
}

#[tokio::test]
async fn resolving_an_effect_does_not_release_a_call_that_is_in_doubt_itself() {
    let world = World::new();
    let mail = async |lease: &Lease| {
        lease.effect("email").at_most_once().run(async || never::<Result<(), HandlerError>>().await).await?;
        Ok(())
    };
    crash(world.call().on_lapse(OnLapse::Report).run(async |lease| mail(lease).await));
    world.lapse();
    let reported = world.call().run(async |lease| mail(lease).await).await.unwrap_err();
    assert_eq!(reported.kind(), ErrorKind::OutcomeUnknown);
    let refused =
        world.once.resolve(&world.key().effect("email").unwrap(), Resolution::happened(), "ann", "?").await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused, "nobody found it interrupted yet");
    assert_eq!(world.once.get("pay", "evt-1").await.unwrap().unwrap().reason(), Some(Reason::OutcomeUnknown));
}

#[tokio::test]
async fn a_keyed_effect_past_retention_begins_anew_when_it_did_not_happen() {
    let world = World::new();
    let sends = Cell::new(0);
    let run = async |lease: &Lease, crashes: bool| {
        let send = async |_| {
            sends.set(sends.get() + 1);
            if crashes { never().await } else { Ok::<_, HandlerError>(1) }
        };
        Ok(lease.effect("charge").keyed(semel::Provider::STRIPE).run(send).await?)
    };
    crash(world.call().run(async |lease| run(lease, true).await));
    world.clock.advance(DAY * 2);
    world.call().run(async |lease| run(lease, false).await).await.unwrap_err();
    let key = world.key().effect("charge").unwrap();
    world.once.resolve(&key, Resolution::did_not_happen(), "ann", "not at the provider").await.unwrap();
    assert_eq!(world.call().run(async |lease| run(lease, false).await).await.unwrap(), 1);
    assert_eq!(sends.get(), 2);
}

#[tokio::test]
async fn a_resolution_that_was_cut_off_can_be_made_again() {
    use crate::support::Fault;
    let order = Order::in_doubt().await;
    let once = &order.world.once;
    // The effect's record is written, the call's is not.
    order.world.store.script([Fault::None, Fault::Before, Fault::Before, Fault::Before, Fault::Before]);
    let cut_off = once.resolve(&order.email(), Resolution::happened(), "ann", "saw it").await.unwrap_err();
    assert_eq!(cut_off.kind(), ErrorKind::Store);
    assert_eq!(order.run().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let receipt = once.resolve(&order.email(), Resolution::happened(), "ann", "saw it").await.unwrap();
    assert_eq!(receipt.released, Some(order.world.key()));
    assert_eq!(order.run().await.unwrap(), "shipped");
}
