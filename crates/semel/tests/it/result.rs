//! Results: kept as they are, or not kept and never run again for it.

use crate::support::{DAY, SECOND, World};
use semel::{
    Begin, BoxFuture, Call, Clock, ErrorKind, Fence, HandlerError, How, Key, MemoryStore, Once, OnceBuilder,
    Record, Status, Store, StoreError, StoreErrorKind, Stored, Swap, Timestamp,
};
use semel_testkit::ManualClock;
use serde::{Deserialize, Serialize, Serializer, de::DeserializeOwned};
use std::{cell::Cell, fmt::Debug, sync::Arc};

async fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(id: &str, value: impl Fn() -> T) {
    let world = World::new();
    let first: T = world.once.call("typed", id).run(async |_| Ok(value())).await.unwrap();
    let again =
        world.once.call("typed", id).run_outcome(async |_| -> Result<T, _> { panic!("it ran again") }).await;
    let again = again.unwrap();
    assert_eq!(again.how, How::Replayed);
    assert_eq!((first, again.value), (value(), value()));
}

#[tokio::test]
async fn results_come_back_as_themselves() {
    comes_back("unit", || ()).await;
    comes_back("none", || None::<u32>).await;
    comes_back("some", || Some(0_u32)).await;
    comes_back("zero", || 0_u64).await;
    comes_back("empty text", String::new).await;
    comes_back("empty list", Vec::<u32>::new).await;
    comes_back("largest", || u64::MAX).await;
    comes_back("a float", || 0.1_f64 + 0.2).await;
    comes_back("text", || "grüße 🎉 \u{0} \"".to_owned()).await;
    comes_back("large, and compressible", || "abc".repeat(100_000)).await;
    let mut dice = fastrand::Rng::with_seed(7);
    let noise: String = (0..5_000).map(|_| dice.alphanumeric()).collect();
    comes_back("large, and not compressible", || noise.clone()).await;
}

fn noise(bytes: usize) -> String {
    let mut dice = fastrand::Rng::with_seed(7);
    (0..bytes).map(|_| dice.alphanumeric()).collect()
}

#[tokio::test]
async fn a_result_that_is_too_large_completes_the_call_without_it() {
    let world = World::new();
    let runs = Cell::new(0);
    let run = async || {
        world
            .call()
            .run(async |_| {
                runs.set(runs.get() + 1);
                Ok(noise(100_000))
            })
            .await
    };
    assert_eq!(run().await.unwrap().len(), 100_000, "the first caller gets it");
    let error = run().await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::NotKept, false));
    assert_eq!(runs.get(), 1, "it ran again");
    assert_eq!(world.once.get("pay", "evt-1").await.unwrap().unwrap().status(), Status::Completed);
}

#[tokio::test]
async fn the_limit_counts_the_bytes_that_are_stored() {
    let world = World::new();
    let run = async |id: &str, max: usize, length: usize| {
        let call = || world.once.call("limit", id).body_bytes_max(max);
        call().run(async |_| Ok(noise(length))).await.unwrap();
        call().run(async |_| Ok(String::new())).await.map_err(|error| error.kind())
    };
    // A codec byte, and the quotes of JSON.
    assert!(run("fits", 103, 100).await.is_ok());
    assert_eq!(run("one too many", 102, 100).await, Err(ErrorKind::NotKept));
}

/// Refuses to be serialised.
#[derive(Deserialize, Debug)]
struct Shy;
impl Serialize for Shy {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("shy"))
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_serialised_completes_the_call_without_it() {
    let world = World::new();
    world.call().run(async |_| Ok(Shy)).await.unwrap();
    let error = world.call().run(async |_| -> Result<Shy, _> { panic!("it ran again") }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotKept);
}

#[tokio::test]
async fn a_result_of_another_type_is_not_kept_and_does_not_run_again() {
    let world = World::new();
    world.call().run(async |_| Ok("text".to_owned())).await.unwrap();
    let error = world.call().run(async |_| -> Result<u32, _> { panic!("it ran again") }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotKept);
}

#[tokio::test]
async fn a_result_past_its_retention_is_expired_and_the_call_still_done() {
    let world = World::new();
    world.call().run(async |_| Ok(7)).await.unwrap();
    world.clock.advance(DAY - SECOND);
    assert_eq!(world.call().run(async |_| Ok(8)).await.unwrap(), 7);
    world.clock.advance(SECOND);
    let error = world.call().run(async |_| Ok(8)).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Expired, false));
}

/// Completes a call, and tells what a duplicate gets after so many days.
async fn after(
    days: u32,
    once: Once,
    clock: &ManualClock,
    say: impl Fn(Call) -> Call,
) -> Result<u32, ErrorKind> {
    let call = || say(once.call("pay", "evt-1"));
    call().run(async |_| Ok(7)).await.unwrap();
    clock.advance(DAY * days - SECOND);
    call().run(async |_| Ok(8)).await.map_err(|error| error.kind())
}

#[tokio::test]
async fn a_result_is_kept_for_as_long_as_its_call_is_said_to_be_remembered() {
    let check = async |days, build: fn(OnceBuilder) -> OnceBuilder, say: fn(Call) -> Call, expected| {
        let clock = ManualClock::new();
        let once = build(Once::builder()).store(MemoryStore::with_clock(clock.arc()));
        let found = after(days, once, &clock, say).await;
        assert_eq!(found, expected, "after {days} days");
    };
    let kept = Ok(7);
    let gone = Err(ErrorKind::Expired);
    check(1, |it| it, |it| it, kept).await;
    check(2, |it| it, |it| it, gone).await;
    check(30, |it| it, |it| it.retention(DAY * 30), kept).await;
    check(30, |it| it.retention(DAY * 30), |it| it, kept).await;
    // Whoever says something of results means it, in whichever order and wherever.
    check(30, |it| it, |it| it.retention(DAY * 30).body_retention(DAY * 2), gone).await;
    check(30, |it| it, |it| it.body_retention(DAY * 2).retention(DAY * 30), gone).await;
    check(2, |it| it, |it| it.body_retention(DAY * 2).retention(DAY * 30), kept).await;
    check(30, |it| it.body_retention(DAY * 2), |it| it.retention(DAY * 30), gone).await;
    check(30, |it| it.body_retention(DAY * 2).retention(DAY * 30), |it| it, gone).await;
    check(30, |it| it.retention(DAY * 30), |it| it.body_retention(DAY * 2), gone).await;
    // And past the call itself, it is run again.
    check(31, |it| it, |it| it.retention(DAY * 30), Ok(8)).await;
}

#[tokio::test]
async fn bytes_come_back_as_bytes() {
    let world = World::new();
    for (id, bytes) in [("none", vec![]), ("few", vec![0, 255, 1]), ("many", vec![7; 10_000])] {
        let call = || world.once.call("bytes", id);
        let Begin::Run(lease) = call().begin().await.unwrap() else { panic!("it is fresh") };
        lease.complete_bytes(&bytes).await.unwrap();
        let Begin::Replay(replay) = call().begin().await.unwrap() else { panic!("it is done") };
        assert_eq!(replay.bytes().unwrap(), bytes);
    }
}

/// A store that takes no large records, as DynamoDB does not, and says so.
struct Narrow(MemoryStore, StoreErrorKind);

impl Store for Narrow {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        self.0.load(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        if format!("{record:?}").len() > 10_000 {
            let refused = StoreError::new(self.1, "narrow", "the record is too large");
            return Box::pin(std::future::ready(Err(refused)));
        }
        self.0.swap(key, expected, record)
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        self.0.purge(expired_at, limit)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock()
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_for_the_store_completes_the_call_without_it() {
    let once = Once::new(Narrow(MemoryStore::new(), StoreErrorKind::TooLarge));
    let (runs, charges) = (Cell::new(0), Cell::new(0));
    let run = async || {
        once.call("pay", "evt-1")
            .run(async |lease| {
                runs.set(runs.get() + 1);
                let charge = lease.effect("charge").at_most_once();
                let charged = async || {
                    charges.set(charges.get() + 1);
                    Ok::<_, HandlerError>(noise(20_000))
                };
                charge.run(charged).await.map_err(HandlerError::from)
            })
            .await
    };
    assert_eq!(run().await.unwrap().len(), 20_000, "the first caller gets it");
    let error = run().await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::NotKept, false));
    assert_eq!((runs.get(), charges.get()), (1, 1), "it ran again");
    assert_eq!(once.get("pay", "evt-1").await.unwrap().unwrap().status(), Status::Completed);
}

#[tokio::test]
async fn a_result_that_is_refused_to_the_last_completes_the_call_without_it() {
    let clock = ManualClock::new();
    let once = Once::new(Narrow(MemoryStore::with_clock(clock.arc()), StoreErrorKind::Refused));
    let result = clock.drive(once.call("pay", "evt-1").run(async |_| Ok(noise(20_000)))).await.unwrap();
    assert_eq!(result.len(), 20_000, "the first caller gets it");
    assert!(clock.monotonic() >= SECOND * 58, "it may have passed");
    let again = once.call("pay", "evt-1").run(async |_| Ok(vec![0_u8])).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NotKept);
}
