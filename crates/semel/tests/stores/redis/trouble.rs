//! What a person sees who sets it up wrongly, and servers that will not or cannot.

use super::server::{Server, free_port};
use semel::{
    ErrorKind, Key, Once, Store, StoreError, StoreErrorKind,
    doctor::Severity,
    store::redis::{PREFIX_BYTES_MAX, RedisStore},
};
use std::{error::Error as _, time::Instant};

async fn refused(url: &str) -> StoreError {
    RedisStore::connect(url).await.err().unwrap_or_else(|| panic!("`{url}` works"))
}

#[tokio::test]
async fn a_wrong_url_is_named_as_such() {
    for url in ["", "127.0.0.1:6379", "http://127.0.0.1:6379", "redis://", "redis://[::1", "redis://h/zero"] {
        let error = refused(url).await;
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}: {error}");
        assert!(error.to_string().contains("redis://user:password@host:6379/0"), "{error}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told_in_bounded_time() {
    let begun = Instant::now();
    let error = refused(&format!("redis://127.0.0.1:{}", free_port())).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("check that the server runs"), "{error}");
    assert!(error.source().is_some());
    assert!(begun.elapsed().as_secs() < 10);
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = refused(&format!("redis://{}", silent.local_addr().unwrap())).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
}

#[tokio::test]
async fn a_wrong_password_is_misconfigured() {
    let server = Server::start(&["--requirepass", "right"]);
    let port = server.port;
    for url in [format!("redis://:wrong@127.0.0.1:{port}"), server.url()] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}: {error}");
        assert!(error.to_string().contains("password"), "{error}");
        assert!(!format!("{error} {:?}", error.source()).contains("wrong@"), "a password is shown");
    }
    RedisStore::connect(&format!("redis://:right@127.0.0.1:{port}")).await.unwrap();
}

#[tokio::test]
async fn a_database_that_is_not_there_is_misconfigured() {
    let server = Server::start(&[]);
    let error = refused(&format!("{}/99", server.url())).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
}

/// What a claim is told; nothing runs.
async fn claim(store: &RedisStore) -> (StoreErrorKind, String) {
    let once = Once::new(store.clone());
    let error = once.call("claim", 1).run(async |_| -> Result<(), _> { panic!("ran unprotected") }).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    let source = error.source().and_then(|it| it.downcast_ref::<StoreError>()).unwrap();
    (source.kind(), source.to_string())
}

#[tokio::test]
async fn a_read_only_replica_refuses_claims() {
    let primary = Server::start(&[]);
    let port = primary.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let store = RedisStore::connect(&replica.url()).await.unwrap();
    let (kind, text) = claim(&store).await;
    assert_eq!(kind, StoreErrorKind::Refused, "{text}");
    assert!(text.contains("connect to the primary"), "{text}");
    let report = store.doctor().await.unwrap();
    assert!(report.accepted().unwrap_err().to_string().contains("connect to the primary"));
}

#[tokio::test]
async fn a_full_server_refuses_claims_and_keeps_what_it_has() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let once = Once::new(store.clone());
    once.call("before", 1).run(async |_| Ok(())).await.unwrap();
    server.ask::<()>("CONFIG SET maxmemory 1").await.unwrap();
    let (kind, text) = claim(&store).await;
    assert_eq!(kind, StoreErrorKind::Refused, "{text}");
    assert!(text.contains("maxmemory"), "{text}");
    assert!(store.load(&Key::new("before", 1).unwrap()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_user_without_permission_is_told_which() {
    let server = Server::start(&["--user", "reader", "on", ">secret", "~*", "+get", "+time", "+info"]);
    let url = format!("redis://reader:secret@127.0.0.1:{}", server.port);
    let (kind, text) = claim(&RedisStore::connect(&url).await.unwrap()).await;
    assert_eq!(kind, StoreErrorKind::Refused, "{text}");
    assert!(text.contains("+evalsha"), "{text}");
}

#[tokio::test]
async fn the_permissions_that_are_named_are_enough() {
    let locked = Server::start(&["--user", "locked", "on", ">secret", "~semel:*", "+time"]);
    let url = |server: &Server, user: &str| format!("redis://{user}:secret@127.0.0.1:{}", server.port);
    let (_, text) = claim(&RedisStore::connect(&url(&locked, "locked")).await.unwrap()).await;
    let named = text.split('`').nth(1).unwrap();
    let words = ["--user", "named", "on", ">secret", "~semel:*"].into_iter().chain(named.split(' '));
    let server = Server::start(&words.collect::<Vec<_>>());
    let once = Once::new(RedisStore::connect(&url(&server, "named")).await.unwrap());
    for expected in [1, 1] {
        let call = once.call("permitted", 1).run(async |_| Ok(1));
        assert_eq!(call.await.unwrap(), expected);
    }
    once.forget(&Key::new("permitted", 1).unwrap(), "ann", "a test").await.unwrap();
    let foreign = RedisStore::connect(&url(&server, "named")).await.unwrap().with_prefix("other").unwrap();
    assert_eq!(claim(&foreign).await.0, StoreErrorKind::Refused, "other prefixes are not ours");
}

#[tokio::test]
async fn what_others_wrote_under_our_names_is_reported_and_left_alone() {
    let server = Server::start(&[]);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let key = Key::new("foreign", 1).unwrap();
    for (command, kind) in [
        ("SET name short", StoreErrorKind::Corrupt),
        ("SET name 0000000000000001-and-no-record", StoreErrorKind::Corrupt),
        ("SADD name member", StoreErrorKind::Misconfigured),
    ] {
        server.ask::<()>("FLUSHALL").await.unwrap();
        server.ask::<()>(&command.replace("name", &store.name(&key))).await.unwrap();
        assert_eq!(store.load(&key).await.unwrap_err().kind(), kind, "{command}");
        let error = Once::new(store.clone()).call_key(key.clone()).run(async |_| Ok(())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store, "{command}");
    }
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let server = Server::start(&[]);
    let port = server.port;
    let store = RedisStore::connect(&server.url()).await.unwrap();
    drop(server);
    assert_eq!(claim(&store).await.0, StoreErrorKind::Unavailable);
    let _server = Server::start_on(port, &[]);
    let once = Once::new(store);
    let mut tries = 0;
    while once.call("restarted", 1).run(async |_| Ok(())).await.is_err() {
        tries += 1;
        assert!(tries < 100, "the connection is not made again");
    }
}

#[tokio::test]
async fn hostile_keys_reach_the_server_as_letters_and_digits() {
    let server = Server::start(&[]);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let once = Once::new(store.clone());
    let hostile: &[&[u8]] =
        &[b"{}", b"{tag}", b"*", b">", b"'\"`", b"a\r\nFLUSHALL\r\n", b"\0", b"\xff\xfe", b"${jndi}"];
    for (number, id) in hostile.iter().enumerate() {
        let call = || once.call_key(Key::new("hostile", id.to_vec()).unwrap());
        assert_eq!(call().run(async |_| Ok(number)).await.unwrap(), number);
        assert_eq!(call().run(async |_| Ok(99)).await.unwrap(), number, "{id:?}");
    }
    let names: Vec<String> = server.ask("KEYS *").await.unwrap();
    assert_eq!(names.len(), hostile.len());
    let is_plain = |it: &String| it.bytes().all(|it| it.is_ascii_alphanumeric() || b":-_".contains(&it));
    assert!(names.iter().all(is_plain), "{names:?}");
}

#[tokio::test]
async fn a_prefix_that_would_not_do_is_refused() {
    let server = Server::start(&[]);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let long = "p".repeat(PREFIX_BYTES_MAX + 1);
    for prefix in ["", "{app}", "a b", "a\r\n", "a\0b", "ä", &long] {
        let error = store.clone().with_prefix(prefix).err().unwrap_or_else(|| panic!("{prefix:?} works"));
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    }
    store.with_prefix(&long[1..]).unwrap();
}

#[tokio::test]
async fn the_doctor_sees_eviction_and_the_append_only_file() {
    let evicting = Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let report = RedisStore::connect(&evicting.url()).await.unwrap().doctor().await.unwrap();
    assert!(report.is_refused(), "{report}");
    let sound = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let report = RedisStore::connect(&sound.url()).await.unwrap().doctor().await.unwrap().accepted().unwrap();
    let severity = |what: &str| report.findings.iter().find(|it| it.what == what).map(|it| it.severity);
    for what in ["role", "maxmemory-policy", "appendonly", "appendfsync"] {
        assert_eq!(severity(what), Some(Severity::Fine), "{report}");
    }
    assert_eq!(severity("replication"), Some(Severity::Warning), "{report}");
    assert_eq!(report.tier, semel::doctor::Tier::C);
}
