//! What a person sees who sets it up wrongly, and servers that will not or cannot.

use super::{
    context,
    server::{Server, free_port},
};
use async_nats::jetstream::{kv, stream};
use semel::{
    ErrorKind, Key, Once, Store, StoreError, StoreErrorKind,
    store::nats::{Bucket, NatsStore, Storage},
};
use semel_testkit::servers;
use std::{
    error::Error as _,
    time::{Duration, Instant},
};

async fn refused(url: &str, bucket: &str) -> StoreError {
    NatsStore::connect(url, bucket).await.err().unwrap_or_else(|| panic!("`{bucket}` at `{url}` works"))
}

#[tokio::test]
async fn a_wrong_url_is_named_as_such() {
    for url in ["", "http://127.0.0.1:4222", "nats://[::1", "nats://host:port"] {
        let error = refused(url, "semel").await;
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}: {error}");
        assert!(error.to_string().contains("nats://user:password@host:4222"), "{error}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told_in_bounded_time() {
    let begun = Instant::now();
    let error = refused(&format!("nats://127.0.0.1:{}", free_port()), "semel").await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.source().is_some());
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_server_that_never_speaks_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = refused(&format!("nats://{}", silent.local_addr().unwrap()), "semel").await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_misconfigured() {
    let server =
        Server::start("authorization { user: ann, password: right }\njetstream { store_dir: \"DIRECTORY\" }");
    let with = |password: &str| server.url.replace("nats://", &format!("nats://ann:{password}@"));
    for url in [with("wrong"), server.url.clone()] {
        let error = refused(&url, "semel").await;
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}: {error}");
        assert!(error.to_string().contains("password"), "{error}");
    }
    NatsStore::connect_or_create(&with("right"), &Bucket::new("semel")).await.unwrap();
}

#[tokio::test]
async fn a_server_without_jetstream_is_misconfigured() {
    let server = Server::start("");
    let error = refused(&server.url, "semel").await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("-js"), "{error}");
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_misconfigured() {
    let place = servers::nats();
    let error = refused(&place.url, &place.bucket).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("make it with `Bucket::create`"), "{error}");
}

#[tokio::test]
async fn a_name_that_is_no_buckets_is_misconfigured() {
    let place = servers::nats();
    for name in ["", "a.b", "a b", "*", ">", "a\r\nb", "ä"] {
        let error = refused(&place.url, name).await;
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{name:?}: {error}");
        let made = NatsStore::connect_or_create(&place.url, &Bucket::new(name)).await;
        assert_eq!(made.err().unwrap().kind(), StoreErrorKind::Misconfigured, "{name:?}");
    }
}

#[tokio::test]
async fn more_replicas_than_servers_are_misconfigured() {
    let place = servers::nats();
    let made = NatsStore::connect_or_create(&place.url, &Bucket::new(place.bucket).replicas(3)).await;
    let error = made.err().unwrap();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("fewer servers"), "{error}");
}

/// Buckets that would lose records, bring old ones back, or start their fences again.
#[tokio::test]
async fn a_bucket_that_cannot_be_right_is_refused() {
    let place = servers::nats();
    let admin = context(&place.url).await;
    let sound = kv::Config { history: 1, limit_markers: Some(Duration::from_mins(1)), ..Default::default() };
    let faults = [
        ("history", kv::Config { history: 5, ..sound.clone() }),
        ("max_age", kv::Config { max_age: Duration::from_hours(1), ..sound.clone() }),
        ("allow_msg_ttl", kv::Config { limit_markers: None, ..sound.clone() }),
        ("first_seq", sound),
    ];
    for (fault, config) in faults {
        let bucket = format!("{}-{fault}", place.bucket);
        admin.create_key_value(kv::Config { bucket: bucket.clone(), ..config }).await.unwrap();
        let error = refused(&place.url, &bucket).await;
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains(fault), "{fault}: {error}");
    }
    // A stream that happens to have such a name.
    let name = format!("KV_{}", place.bucket);
    let config = stream::Config { name, subjects: vec![place.bucket.clone()], ..Default::default() };
    admin.create_stream(config).await.unwrap();
    assert_eq!(refused(&place.url, &place.bucket).await.kind(), StoreErrorKind::Misconfigured);
}

/// What a claim is told; nothing runs.
async fn claim(store: &NatsStore, id: u32) -> Option<(StoreErrorKind, String)> {
    let error = Once::new(store.clone()).call("claim", id).begin().await.err()?;
    assert_eq!(error.kind(), ErrorKind::Store);
    let source = error.source().and_then(|it| it.downcast_ref::<StoreError>()).unwrap();
    Some((source.kind(), source.to_string()))
}

#[tokio::test]
async fn a_full_bucket_refuses_claims_and_keeps_what_it_has() {
    let place = servers::nats();
    let bucket = Bucket::new(place.bucket).bytes_max(4_096).storage(Storage::Memory);
    let store = NatsStore::connect_or_create(&place.url, &bucket).await.unwrap();
    let mut id = 0;
    let (kind, text) = loop {
        match claim(&store, id).await {
            Some(trouble) => break trouble,
            None => id += 1,
        }
        assert!(id < 1_000, "the bucket is never full");
    };
    assert_eq!(kind, StoreErrorKind::Refused, "{text}");
    assert!(text.contains("full"), "{text}");
    for id in 0..id {
        assert!(
            store.load(&Key::new("claim", id).unwrap()).await.unwrap().is_some(),
            "record {id} was dropped"
        );
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_for_the_server_is_left_out_and_the_call_is_done() {
    let server = Server::start("max_payload: 2000\njetstream { store_dir: \"DIRECTORY\" }");
    let store = NatsStore::connect_or_create(&server.url, &Bucket::new("semel")).await.unwrap();
    let once = Once::new(store);
    let noise: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(10_000).collect();
    let result = once.call("large", 1).run(async |_| Ok(noise.clone())).await.unwrap();
    assert!(result == noise, "whoever ran it gets the result");
    let again = once.call("large", 1).run(async |_| Ok(Vec::<u8>::new())).await;
    assert!(matches!(again, Err(error) if error.kind() == ErrorKind::NotKept), "it is not run again");
}

#[tokio::test]
async fn hostile_keys_reach_the_server_as_digits() {
    let place = servers::nats();
    let store = NatsStore::connect_or_create(&place.url, &Bucket::new(&place.bucket)).await.unwrap();
    let once = Once::new(store.clone());
    let hostile: &[&[u8]] =
        &[b"{}", b"*", b">", b"a.b", b".", b"'\"`", b"a\r\nPUB x 0\r\n", b"\0", b"\xff\xfe", b" "];
    for (number, id) in hostile.iter().enumerate() {
        let call = || once.call_key(Key::new("hostile", id.to_vec()).unwrap());
        assert_eq!(call().run(async |_| Ok(number)).await.unwrap(), number);
        assert_eq!(call().run(async |_| Ok(99)).await.unwrap(), number, "{id:?}");
    }
    let stream = context(&place.url).await.get_stream(format!("KV_{}", place.bucket)).await.unwrap();
    assert_eq!(stream.get_info().await.unwrap().state.messages, hostile.len() as u64);
}

#[tokio::test]
async fn what_others_wrote_under_our_names_is_reported_and_left_alone() {
    let place = servers::nats();
    let store = NatsStore::connect_or_create(&place.url, &Bucket::new(&place.bucket)).await.unwrap();
    let bucket = context(&place.url).await.get_key_value(&place.bucket).await.unwrap();
    let key = Key::new("foreign", 1).unwrap();
    bucket.put(key.identity().to_string(), "no record".into()).await.unwrap();
    assert_eq!(store.load(&key).await.unwrap_err().kind(), StoreErrorKind::Corrupt);
    let error = Once::new(store).call_key(key).run(async |_| Ok(())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
}
