//! What an operator can see and do.

use crate::support::{MINUTE, World, crash, never};
use semel::{ErrorKind, HandlerError, How, Key, Resolution, Status, Timestamp};

#[tokio::test]
async fn a_snapshot_shows_every_status() {
    let world = World::new();
    assert!(world.once.get("pay", "evt-1").await.unwrap().is_none());
    crash(world.call().run(async |_| never::<Result<u32, HandlerError>>().await));
    let snapshot = async || world.once.get("pay", "evt-1").await.unwrap().unwrap();
    assert_eq!(snapshot().await.to_string(), "pay/evt-1 IN_PROGRESS, attempts 1");
    assert_eq!(snapshot().await.expires_at(), Timestamp::NEVER);
    assert_eq!(snapshot().await.lease_until(), Some(snapshot().await.created_at() + MINUTE));
    world.lapse();
    world.call().run(async |_| Err::<u32, _>(HandlerError::from("busy"))).await.unwrap_err();
    assert_eq!(snapshot().await.to_string(), "pay/evt-1 PENDING, attempts 2: busy");
    world.call().run(async |_| Ok(7)).await.unwrap();
    assert_eq!(snapshot().await.to_string(), "pay/evt-1 COMPLETED, attempts 3");
    assert_eq!(snapshot().await.value::<u32>().unwrap().unwrap(), 7);
    let other = world.once.call("pay", "evt-2");
    other.run(async |_| Err::<u32, _>(HandlerError::fatal("no"))).await.unwrap_err();
    let failed = world.once.get("pay", "evt-2").await.unwrap().unwrap();
    assert_eq!(failed.to_string(), "pay/evt-2 FAILED, attempts 1, fatal: no");
}

#[tokio::test]
async fn a_forgotten_call_is_fresh_again_under_a_higher_fence() {
    let world = World::new();
    let first = world.call().run_outcome(async |_| Ok(1)).await.unwrap();
    let receipt = world.once.forget(&world.key(), "ann", "wrong amount").await.unwrap();
    assert_eq!((receipt.by.as_str(), receipt.why.as_str()), ("ann", "wrong amount"));
    assert_eq!((receipt.before, receipt.after), (Status::Completed, None));
    assert!(world.once.get("pay", "evt-1").await.unwrap().is_none());
    let second = world.call().run_outcome(async |_| Ok(2)).await.unwrap();
    assert_eq!((second.value, second.how), (2, How::Fresh));
    assert!(second.fence > receipt.fence && receipt.fence > first.fence);
}

#[tokio::test]
async fn forgetting_a_call_does_not_forget_its_effects() {
    let world = World::new();
    let mut charges = 0;
    let mut run = async || {
        let call = world.call().run(async |lease| {
            let charge = lease.effect("charge").at_most_once().run(async || {
                charges += 1;
                Ok::<_, HandlerError>(charges)
            });
            Ok(charge.await?)
        });
        call.await.unwrap()
    };
    assert_eq!(run().await, 1);
    world.once.forget(&world.key(), "ann", "run it again").await.unwrap();
    assert_eq!(run().await, 1, "what was charged stays charged");
    world.once.forget(&world.key(), "ann", "run it again").await.unwrap();
    world.once.forget(&world.key().effect("charge").unwrap(), "ann", "it was refunded").await.unwrap();
    assert_eq!(run().await, 2);
}

#[tokio::test]
async fn a_call_in_progress_is_not_forgotten() {
    let world = World::new();
    crash(world.call().run(async |_| never::<Result<u32, HandlerError>>().await));
    let refused = world.once.forget(&world.key(), "ann", "hurry").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    world.lapse();
    world.once.forget(&world.key(), "ann", "it crashed").await.unwrap();
}

#[tokio::test]
async fn only_a_doubt_is_resolved() {
    let world = World::new();
    let key = world.key();
    let resolve =
        async || world.once.resolve(&key, Resolution::happened(), "ann", "why").await.unwrap_err().kind();
    assert_eq!(resolve().await, ErrorKind::NotFound);
    world.call().run(async |_| Ok(1)).await.unwrap();
    assert_eq!(resolve().await, ErrorKind::Refused);
    let absent = Key::new("pay", "evt-9").unwrap();
    assert_eq!(world.once.forget(&absent, "ann", "why").await.unwrap_err().kind(), ErrorKind::NotFound);
}
