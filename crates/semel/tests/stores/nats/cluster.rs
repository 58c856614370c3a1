//! Three servers on loopback.

use super::server::Server;
use crate::end_to_end;
use semel::{
    Once,
    doctor::Tier,
    store::nats::{Bucket, NatsStore},
};
use semel_testkit::conformance;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Three replicas, once the servers have found each other.
async fn replicated(servers: &[Server; 3]) -> NatsStore {
    let urls = servers.each_ref().map(|it| it.url.clone()).join(",");
    let bucket = Bucket::new("semel").replicas(3);
    let mut last = None;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_mins(1) {
        match NatsStore::connect_or_create(&urls, &bucket).await {
            Ok(store) => return store,
            Err(error) => last = Some(error),
        }
    }
    panic!("the servers did not find each other: {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_keep_every_rule_and_are_tier_b_if_somebody_vouches_for_their_disks() {
    let servers = Server::cluster();
    let store = replicated(&servers).await;
    assert_eq!(store.doctor().await.unwrap().accepted().unwrap().tier, Tier::C);
    assert_eq!(store.clone().syncs_always().doctor().await.unwrap().accepted().unwrap().tier, Tier::B);
    conformance::all(&store).await;
    conformance::contended(Arc::new(store.clone()), |task| drop(tokio::spawn(task))).await;
    end_to_end::check(Arc::new(store)).await;
}

/// Whichever server it is that dies, what was acknowledged is there, and claims go on.
#[tokio::test(flavor = "multi_thread")]
async fn one_server_of_three_dies_and_nothing_is_forgotten() {
    let servers = Server::cluster();
    let once = Once::new(replicated(&servers).await);
    for id in 0..20 {
        once.call("survives", id).run(async |_| Ok(id)).await.unwrap();
    }
    let [first, _second, _third] = servers;
    drop(first);
    for id in 0..20 {
        let begun = Instant::now();
        let kept = loop {
            match once.call("survives", id).run(async |_| Ok(99)).await {
                Ok(kept) => break kept,
                // Another leader is being chosen.
                Err(error) => assert!(begun.elapsed() < Duration::from_mins(1), "{error:?}"),
            }
        };
        assert_eq!(kept, id, "it ran again");
    }
    assert_eq!(once.call("survives", 20).run(async |_| Ok(20)).await.unwrap(), 20);
}
