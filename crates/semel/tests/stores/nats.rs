//! The NATS store.

mod cluster;
mod server;
mod trouble;

use crate::end_to_end;
use async_nats::jetstream::{self, Context};
use semel::{
    Begin, How, Key, Once, Store,
    doctor::{Severity, Tier},
    store::nats::{Bucket, NatsStore},
};
use semel_testkit::{conformance, servers};
use std::{sync::Arc, time::Duration};

/// A bucket of this test's own.
async fn nats() -> NatsStore {
    let place = servers::nats();
    NatsStore::connect_or_create(&place.url, &Bucket::new(place.bucket)).await.unwrap()
}

/// A second connection, to do what the store does not.
async fn context(url: &str) -> Context {
    jetstream::new(async_nats::connect(url).await.unwrap())
}

#[tokio::test]
async fn nats_keeps_every_rule() {
    conformance::all(&nats().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_at_once_keep_the_rules() {
    conformance::contended(Arc::new(nats().await), |task| drop(tokio::spawn(task))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_works_over_it() {
    end_to_end::check(Arc::new(nats().await)).await;
}

#[tokio::test]
async fn the_server_expires_finished_records_and_no_others() {
    let place = servers::nats();
    let store = NatsStore::connect_or_create(&place.url, &Bucket::new(&place.bucket)).await.unwrap();
    let stream = context(&place.url).await.get_stream(format!("KV_{}", place.bucket)).await.unwrap();
    let once = Once::builder().retention(Duration::from_hours(1)).store(store.clone());
    let key = Key::new("expiry", 1).unwrap();
    let life = async || {
        let message = stream.get_last_raw_message_by_subject(&store.subject(&key)).await.unwrap();
        message.headers.get("Nats-TTL").map(|it| it.as_str().parse::<u64>().unwrap())
    };
    let Begin::Run(lease) = once.call_key(key.clone()).begin().await.unwrap() else { panic!("it is fresh") };
    assert_eq!(life().await, None, "an unfinished record never expires");
    lease.complete("done").await.unwrap();
    let (hour, margin) = (3_600, 600);
    let left = life().await.unwrap();
    assert!((hour + margin - 5..=hour + margin + 5).contains(&left), "expires in {left} s");
    once.forget(&key, "ann", "a test").await.unwrap();
    assert!(life().await.is_some_and(|it| it <= margin + 5), "what is forgotten stays for the margin");
}

/// A key that others deleted or purged, which leaves a message that says so, is as good as fresh.
#[tokio::test]
async fn a_key_that_was_deleted_by_other_means_is_fresh_with_a_higher_fence() {
    let place = servers::nats();
    let store = NatsStore::connect_or_create(&place.url, &Bucket::new(&place.bucket)).await.unwrap();
    let bucket = context(&place.url).await.get_key_value(&place.bucket).await.unwrap();
    let once = Once::new(store.clone());
    let key = Key::new("deleted", 1).unwrap();
    let name = key.identity().to_string();
    let mut last = once.call_key(key.clone()).run_outcome(async |_| Ok(0)).await.unwrap().fence;
    for round in 1..=3 {
        if round % 2 == 0 {
            bucket.delete(&name).await.unwrap();
        } else {
            bucket.purge(&name).await.unwrap();
        }
        assert_eq!(store.load(&key).await.unwrap(), None);
        let again = once.call_key(key.clone()).run_outcome(async |_| Ok(round)).await.unwrap();
        assert_eq!((again.how, again.value), (How::Fresh, round));
        assert!(again.fence > last, "{last} was followed by {}", again.fence);
        last = again.fence;
    }
}

#[tokio::test]
async fn fences_grow_over_a_purge_of_everything_and_over_a_bucket_made_again() {
    let place = servers::nats();
    let bucket = Bucket::new(&place.bucket);
    let stream = format!("KV_{}", place.bucket);
    let admin = context(&place.url).await;
    let mut last = None;
    for round in 0..4 {
        let store = NatsStore::connect_or_create(&place.url, &bucket).await.unwrap();
        let outcome = Once::new(store).call("again", 1).run_outcome(async |_| Ok(())).await.unwrap();
        assert_eq!(outcome.how, How::Fresh);
        assert!(last < Some(outcome.fence), "{last:?} was followed by {}", outcome.fence);
        last = Some(outcome.fence);
        if round % 2 == 0 {
            admin.get_stream(&stream).await.unwrap().purge().await.unwrap();
        } else {
            admin.delete_stream(&stream).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_bucket_that_is_there_is_left_as_it_is() {
    let place = servers::nats();
    let bucket = Bucket::new(&place.bucket);
    let first = NatsStore::connect_or_create(&place.url, &bucket).await.unwrap();
    Once::new(first).call("kept", 1).run(async |_| Ok(1)).await.unwrap();
    let second = NatsStore::connect_or_create(&place.url, &bucket.bytes_max(1_000_000)).await.unwrap();
    assert_eq!(Once::new(second).call("kept", 1).run(async |_| Ok(2)).await.unwrap(), 1);
    let third = NatsStore::new(context(&place.url).await, &place.bucket).await.unwrap();
    assert_eq!(Once::new(third).call("kept", 1).run(async |_| Ok(3)).await.unwrap(), 1);
}

#[tokio::test]
async fn one_server_is_tier_c_and_what_cannot_be_seen_is_said() {
    let report = nats().await.doctor().await.unwrap().accepted().unwrap();
    assert_eq!(report.tier, Tier::C);
    let severity = |what: &str| report.findings.iter().find(|it| it.what == what).map(|it| it.severity);
    assert_eq!(severity("replicas"), Some(Severity::Warning), "{report}");
    assert_eq!(severity("storage"), Some(Severity::Fine), "{report}");
    assert_eq!(severity("sync_interval"), Some(Severity::Warning), "{report}");
}

/// Leases are judged by the server's clock.
#[tokio::test]
async fn the_clock_is_the_servers() {
    let store = nats().await;
    let ours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert!(u128::from(store.clock().now().as_millis()).abs_diff(ours) < 1_000);
}
