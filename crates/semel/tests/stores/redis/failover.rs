//! What tier C means: a failover forgets a claim that was acknowledged.

use super::server::Server;
use semel::{Begin, ErrorKind, How, Once, store::redis::RedisStore};

/// The primary is cut off from its replica, acknowledges a claim, and is replaced by the replica. The claim is
/// forgotten, so a duplicate runs beside the first holder: its effect may happen twice. What the fence still
/// gives is that the two do not both complete.
#[tokio::test]
async fn a_failover_forgets_a_claim_and_the_call_runs_again() {
    let primary = Server::start(&[]);
    let port = primary.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    replica.until("INFO replication", |said| said.contains("master_link_status:up")).await;
    replica.ask::<()>("REPLICAOF 127.0.0.1 1").await.unwrap();

    let before = Once::new(RedisStore::connect(&primary.url()).await.unwrap());
    let Begin::Run(forgotten) = before.call("pay", "order-7").begin().await.unwrap() else { panic!() };
    drop(primary);
    replica.ask::<()>("REPLICAOF NO ONE").await.unwrap();

    let after = Once::new(RedisStore::connect(&replica.url()).await.unwrap());
    let Begin::Run(second) = after.call("pay", "order-7").begin().await.unwrap() else { panic!() };
    assert_eq!((second.how(), second.attempt()), (How::Fresh, 1), "nothing shows that it had been begun");
    assert!(second.fence() > forgotten.fence(), "the fences go on growing by the clock");
    second.complete("paid").await.unwrap();
}

/// The same over one address, as behind a proxy or a moving name: the first holder's completion is refused.
#[tokio::test]
async fn a_holder_whose_claim_was_forgotten_is_told_so() {
    let server = Server::start(&[]);
    let once = Once::new(RedisStore::connect(&server.url()).await.unwrap());
    let Begin::Run(first) = once.call("pay", "order-8").begin().await.unwrap() else { panic!() };
    server.ask::<()>("FLUSHALL").await.unwrap();
    let Begin::Run(second) = once.call("pay", "order-8").begin().await.unwrap() else { panic!() };
    assert_eq!(first.complete("first").await.unwrap_err().kind(), ErrorKind::Superseded);
    second.complete("second").await.unwrap();
    let again: String = once.call("pay", "order-8").run(async |_| Ok(String::new())).await.unwrap();
    assert_eq!(again, "second");
}
