//! The Redis store, on Redis and Valkey.

mod clock;
mod cluster;
mod failover;
mod server;
mod together;
mod trouble;

use crate::end_to_end;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use semel::{Key, Once, Store, store::redis::RedisStore};
use semel_testkit::{conformance, servers};
use std::{sync::Arc, time::Duration};

async fn at(place: servers::Redis) -> RedisStore {
    RedisStore::connect(&place.url).await.unwrap().with_prefix(&place.prefix).unwrap()
}

async fn redis() -> RedisStore {
    at(servers::redis()).await
}

async fn valkey() -> RedisStore {
    at(servers::valkey()).await
}

#[tokio::test]
async fn redis_keeps_every_rule() {
    conformance::all(&redis().await).await;
}

#[tokio::test]
async fn valkey_keeps_every_rule() {
    conformance::all(&valkey().await).await;
}

async fn many_keep_the_rules(store: RedisStore) {
    conformance::contended(Arc::new(store), |task| drop(tokio::spawn(task))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_at_once_keep_the_rules() {
    many_keep_the_rules(redis().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_at_once_keep_the_rules_on_valkey() {
    many_keep_the_rules(valkey().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_works_over_it() {
    end_to_end::check(Arc::new(redis().await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_works_over_valkey() {
    end_to_end::check(Arc::new(valkey().await)).await;
}

/// What the server itself would do with the record, in milliseconds: -1 is never, -2 is no record.
async fn pttl(url: &str, store: &RedisStore, key: &Key) -> i64 {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd("PTTL").arg(store.name(key)).query_async(&mut connection).await.unwrap()
}

async fn expires_finished_records_and_no_others(place: servers::Redis) {
    let (url, store) = (place.url.clone(), at(place).await);
    let once = Once::builder().retention(Duration::from_hours(1)).store(store.clone());
    let key = Key::new("expiry", fastrand::u64(..)).unwrap();
    assert_eq!(pttl(&url, &store, &key).await, -2);
    let semel::Begin::Run(lease) = once.call_key(key.clone()).begin().await.unwrap() else { panic!() };
    assert_eq!(pttl(&url, &store, &key).await, -1, "an unfinished record never expires");
    lease.complete("done").await.unwrap();
    let left = pttl(&url, &store, &key).await;
    let (hour, margin) = (3_600_000, 600_000);
    assert!((hour..=hour + margin + 1_000).contains(&left), "expires in {left} ms");
    once.forget(&key, "ann", "a test").await.unwrap();
    let left = pttl(&url, &store, &key).await;
    assert!((1..=margin).contains(&left), "what is forgotten stays for the margin, not {left} ms");
    let semel::Begin::Run(_lease) = once.call_key(key.clone()).begin().await.unwrap() else { panic!() };
    assert_eq!(pttl(&url, &store, &key).await, -1, "it is unfinished again");
}

#[tokio::test]
async fn the_server_expires_finished_records_and_no_others() {
    expires_finished_records_and_no_others(servers::redis()).await;
}

#[tokio::test]
async fn valkey_expires_finished_records_and_no_others() {
    expires_finished_records_and_no_others(servers::valkey()).await;
}

#[tokio::test]
async fn a_fence_grows_after_the_record_was_removed() {
    let server = server::Server::start(&[]);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let once = Once::new(store.clone());
    let mut last = None;
    for _ in 0..100 {
        let outcome = once.call("removed", 1).run_outcome(async |_| Ok(())).await.unwrap();
        assert_eq!(outcome.how, semel::How::Fresh);
        assert!(last < Some(outcome.fence), "{last:?} was followed by {}", outcome.fence);
        last = store.load(&Key::new("removed", 1).unwrap()).await.unwrap().map(|it| it.fence);
        server.ask::<()>("FLUSHALL").await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_forgot_the_script_is_sent_it_again() {
    let server = server::Server::start(&[]);
    let once = Once::new(RedisStore::connect(&server.url()).await.unwrap());
    for id in 0..3 {
        server.ask::<()>("SCRIPT FLUSH").await.unwrap();
        assert_eq!(once.call("script", id).run(async |_| Ok(id)).await.unwrap(), id);
    }
}

#[tokio::test]
async fn applications_with_different_prefixes_do_not_meet() {
    let (billing, shipping) = (redis().await, redis().await);
    let shipping = shipping.with_prefix("shipping").unwrap();
    let id = fastrand::u64(..);
    assert_eq!(Once::new(billing).call("prefix", id).run(async |_| Ok(1)).await.unwrap(), 1);
    assert_eq!(Once::new(shipping.clone()).call("prefix", id).run(async |_| Ok(2)).await.unwrap(), 2);
    let key = Key::new("prefix", id).unwrap();
    let identity = shipping.name(&key).strip_prefix("shipping:").map(|it| URL_SAFE_NO_PAD.decode(it));
    assert_eq!(identity, Some(Ok(key.identity().as_bytes().to_vec())));
}
