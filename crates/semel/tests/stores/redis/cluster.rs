//! Three primaries on loopback.

use super::server::Server;
use crate::end_to_end;
use semel::{Key, Once, StoreErrorKind, store::redis::RedisStore};
use semel_testkit::conformance;
use std::sync::Arc;

/// The slots of a cluster, divided by three.
const SLOTS: [(u16, u16); 3] = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)];

/// Three nodes that know each other and serve every slot.
async fn cluster() -> Vec<Server> {
    let options = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "yes"];
    let nodes: Vec<Server> = SLOTS.iter().map(|_| Server::start(&options)).collect();
    for (node, (from, to)) in nodes.iter().zip(SLOTS) {
        node.ask::<()>(&format!("CLUSTER ADDSLOTSRANGE {from} {to}")).await.unwrap();
        node.ask::<()>(&format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port)).await.unwrap();
    }
    for node in &nodes {
        let is_whole =
            |said: &str| said.contains("cluster_state:ok") && said.contains("cluster_known_nodes:3");
        node.until("CLUSTER INFO", is_whole).await;
    }
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_every_rule() {
    let nodes = cluster().await;
    let store = RedisStore::connect_cluster([nodes[0].url()]).await.unwrap();
    conformance::all(&store).await;
    conformance::contended(Arc::new(store.clone()), |task| drop(tokio::spawn(task))).await;
    end_to_end::check(Arc::new(store.clone())).await;

    let report = store.doctor().await.unwrap().accepted().unwrap();
    let roles = report.findings.iter().filter(|it| it.what.starts_with("role of ")).count();
    assert_eq!(roles, 3, "each node is looked at: {report}");
    for node in &nodes {
        let held: u64 = node.ask("DBSIZE").await.unwrap();
        assert!(held > 0, "a node holds nothing: the names do not spread over the slots");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moved_is_followed_and_one_server_alone_is_told_of_the_cluster() {
    let nodes = cluster().await;
    let store = RedisStore::connect_cluster([nodes[0].url()]).await.unwrap();
    let once = Once::new(store.clone());
    // A key of the first node's slots.
    let mut id = 0;
    let slot = loop {
        let name = store.name(&Key::new("moved", id).unwrap());
        let slot: u16 = nodes[0].ask(&format!("CLUSTER KEYSLOT {name}")).await.unwrap();
        if slot <= SLOTS[0].1 {
            break slot;
        }
        id += 1;
    };
    let new_owner: String = nodes[1].ask("CLUSTER MYID").await.unwrap();
    for node in &nodes {
        node.ask::<()>(&format!("CLUSTER SETSLOT {slot} NODE {new_owner}")).await.unwrap();
    }
    assert_eq!(once.call("moved", id).run(async |_| Ok(1)).await.unwrap(), 1);
    assert_eq!(once.call("moved", id).run(async |_| Ok(2)).await.unwrap(), 1);

    let alone = RedisStore::connect(&nodes[0].url()).await.unwrap();
    let error = semel::Store::load(&alone, &Key::new("moved", id).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("connect_cluster"), "{error}");
}
