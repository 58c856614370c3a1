//! Stores that are servers, as URLs name them: several proxies on one are one.

use super::support::{Asked, Client, Gate, Proxy, Upstream, answer, post, soon};
use semel_testkit::servers;
use std::{
    net::SocketAddr,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

/// A proxy whose records are kept there, with these variables.
fn proxy(upstream: SocketAddr, store: &str, variables: &[(&str, &str)]) -> Proxy {
    let upstream = format!("http://{upstream}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["proxy", "--upstream", &upstream, "--listen", "127.0.0.1:0", "--log", "json"]);
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("semel.toml");
    std::fs::write(&config, "[defaults]\nwait = \"20s\"\nper_host = false\n").unwrap();
    // Read before it listens, so that the directory may go.
    command.args(["--store", store, "--config"]).arg(&config).envs(variables.iter().copied());
    Proxy::spawn(&mut command)
}

/// An upstream that says how often it was called; `/held` is answered when it is let.
async fn counting(gate: &Gate) -> Upstream {
    let (count, gate) = (AtomicUsize::new(0), gate.clone());
    Upstream::start(move |asked: Asked| {
        let (n, gate) = (count.fetch_add(1, Ordering::SeqCst) + 1, gate.clone());
        async move {
            if asked.uri.path() == "/held" {
                gate.pass().await;
            }
            answer(201, format!("{n}: {}", String::from_utf8_lossy(&asked.body)))
        }
    })
    .await
}

/// Two proxies on this store: what one has sent, the other replays, waits for, and has when the first is no more.
async fn two_are_one(store: &str, variables: &[(&str, &str)]) {
    let gate = Gate::closed();
    let upstream = counting(&gate).await;
    let start = || proxy(upstream.address, store, variables);
    let (one, other) = (start(), start());
    let client = Client::new();
    let send = async |proxy: &Proxy, path: &str, key: &str, body: &'static str| {
        client.send(post(&proxy.url(path), key, body)).await
    };
    let first = send(&one, "/pay", "k", "10").await;
    assert_eq!((first.status.as_u16(), first.text(), first.is_replayed()), (201, "1: 10", false));
    let again = send(&other, "/pay", "k", "10").await;
    assert_eq!((again.status.as_u16(), again.text(), again.is_replayed()), (201, "1: 10", true));
    assert_eq!(send(&other, "/pay", "k", "11").await.problem(), "mismatch");
    assert_eq!(upstream.calls(), 1);

    let held = tokio::spawn({
        let (client, url) = (client.clone(), one.url("/held"));
        async move { client.send(post(&url, "k", "20")).await }
    });
    upstream.called(2).await;
    let waiting = tokio::spawn({
        let (client, url) = (client.clone(), other.url("/held"));
        async move { client.send(post(&url, "k", "20")).await }
    });
    gate.open(1);
    let (held, waited) =
        (soon("the answer", held).await.unwrap(), soon("its replay", waiting).await.unwrap());
    assert_eq!((held.text(), held.is_replayed()), ("2: 20", false));
    assert_eq!((waited.text(), waited.is_replayed()), ("2: 20", true));

    one.kill();
    let after = start();
    for survivor in [&other, &after] {
        let again = send(survivor, "/pay", "k", "10").await;
        assert_eq!((again.text(), again.is_replayed()), ("1: 10", true));
    }
    assert_eq!(upstream.calls(), 2, "each key is sent once");
    let fresh = send(&after, "/pay", "k2", "30").await;
    assert_eq!((fresh.text(), fresh.is_replayed()), ("3: 30", false));
    assert!(send(&other, "/pay", "k2", "30").await.is_replayed());
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn two_proxies_on_one_database_are_one() {
        let database = servers::postgres().await;
        let options = "table=kept&schema=public&connections_max=4";
        two_are_one(&format!("{}?{options}", database.url), &[]).await;
    }
}

#[cfg(feature = "redis")]
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn two_proxies_on_one_prefix_are_one() {
        let servers::Redis { url, prefix } = servers::redis();
        two_are_one(&format!("{url}?prefix={prefix}"), &[]).await;
    }
}

#[cfg(feature = "redis")]
mod valkey {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn two_proxies_on_one_prefix_are_one() {
        let servers::Redis { url, prefix } = servers::valkey();
        two_are_one(&format!("{url}?prefix={prefix}"), &[]).await;
    }
}

#[cfg(feature = "nats")]
mod nats {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn two_proxies_on_one_bucket_are_one() {
        let servers::Nats { url, bucket } = servers::nats();
        two_are_one(&format!("{url}?bucket={bucket}&replicas=1"), &[]).await;
    }

    /// Its clients cannot see it, and would be warned of it at every start.
    #[tokio::test(flavor = "multi_thread")]
    async fn that_its_servers_sync_always_is_vouched_for_in_the_url() {
        let upstream = Upstream::echo().await;
        let servers::Nats { url, bucket } = servers::nats();
        for (more, is_warned) in [("", true), ("&syncs_always=false", true), ("&syncs_always=true", false)] {
            let proxy = proxy(upstream.address, &format!("{url}?bucket={bucket}{more}"), &[]);
            let warnings = proxy.events("the store promises less than it could", 1);
            let has = |what: &str| warnings.iter().any(|it| it["finding"].as_str().unwrap().contains(what));
            assert!(has("replicas"), "there is one: {warnings:?}");
            assert_eq!(has("sync_interval"), is_warned, "{more}: {warnings:?}");
        }
    }
}

#[cfg(feature = "dynamodb")]
mod dynamodb {
    use super::*;
    use aws_sdk_dynamodb::{
        Client,
        config::{BehaviorVersion, Config, Credentials, Region},
    };
    use semel::store::dynamodb::DynamoStore;

    const REGION: &str = "eu-central-1";

    #[tokio::test(flavor = "multi_thread")]
    async fn two_proxies_on_one_table_are_one() {
        let servers::DynamoDb { endpoint, table } = servers::dynamodb();
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
            .endpoint_url(&endpoint)
            .build();
        DynamoStore::new(Client::from_conf(config), &table).create_table().await.unwrap();
        let url = format!("dynamodb://{table}?region={REGION}&endpoint={endpoint}");
        two_are_one(&url, &[("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")]).await;
    }
}

#[cfg(feature = "firestore")]
mod firestore {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn two_proxies_on_one_collection_are_one() {
        let servers::Firestore { host, project } = servers::firestore();
        let url = format!("firestore://{project}/(default)?collection=kept");
        two_are_one(&url, &[("FIRESTORE_EMULATOR_HOST", &host)]).await;
    }
}
