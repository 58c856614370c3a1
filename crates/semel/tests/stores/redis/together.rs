//! Calls that come at the same time go to the server together.

use super::server::Server;
use semel::{ErrorKind, Key, Once, store::redis::RedisStore};

/// How many scripts the server has run.
async fn scripts(server: &Server) -> u64 {
    let told: String = server.ask("INFO commandstats").await.unwrap();
    let calls = told.lines().filter(|it| it.starts_with("cmdstat_eval")).map(|line| {
        let (_, calls) = line.split_once("calls=").unwrap();
        calls.split(',').next().unwrap().parse::<u64>().unwrap()
    });
    calls.sum()
}

/// So many at once, each with the id that it gives.
async fn call_all(once: &Once, ids: impl Iterator<Item = u64>) -> Vec<Result<u64, semel::Error>> {
    let call = |id| {
        let once = once.clone();
        tokio::spawn(async move { once.call("many", id).run(async |_| Ok(id)).await })
    };
    let calls: Vec<_> = ids.map(call).collect();
    let mut results = Vec::new();
    for call in calls {
        results.push(call.await.unwrap());
    }
    results
}

#[tokio::test]
async fn many_calls_need_few_commands() {
    let server = Server::start(&[]);
    let once = Once::new(RedisStore::connect(&server.url()).await.unwrap());
    call_all(&once, 0..1).await;
    let before = scripts(&server).await;
    let results = call_all(&once, 1..=320).await;
    assert!(results.into_iter().zip(1..).all(|(result, id)| result.unwrap() == id));
    let needed = scripts(&server).await - before;
    assert!(needed <= 2 * 320 / 16, "640 swaps took {needed} commands");
}

#[tokio::test]
async fn many_calls_of_one_key_run_once() {
    let server = Server::start(&[]);
    let once = Once::new(RedisStore::connect(&server.url()).await.unwrap());
    let results = call_all(&once, (0..320).map(|_| 7)).await;
    assert!(results.into_iter().all(|it| it.unwrap() == 7));
    let names: u64 = server.ask("DBSIZE").await.unwrap();
    assert_eq!(names, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_foreign_name_among_many_spoils_no_other_call() {
    let server = Server::start(&[]);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let once = Once::new(store.clone());
    let done = Key::new("many", 1).unwrap();
    once.call_key(done.clone()).run(async |_| Ok(99)).await.unwrap();
    let foreign = store.name(&Key::new("many", 2).unwrap());
    server.ask::<()>(&format!("SADD {foreign} member")).await.unwrap();
    for (id, result) in (0..).zip(call_all(&once, 0..200).await) {
        match (id, result) {
            (1, kept) => assert_eq!(kept.unwrap(), 99, "it was done before"),
            (2, error) => assert_eq!(error.unwrap_err().kind(), ErrorKind::Store),
            (_, value) => assert_eq!(value.unwrap(), id),
        }
    }
    let members: Vec<String> = server.ask(&format!("SMEMBERS {foreign}")).await.unwrap();
    assert_eq!(members, ["member"], "what is foreign is left alone");
}

/// What stands there is a record when it is claimed, and something else when it is completed.
#[tokio::test]
async fn a_name_that_became_foreign_meanwhile_is_reported_and_left_alone() {
    let server = Server::start(&[]);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let name = store.name(&Key::new("meanwhile", 1).unwrap());
    let call = Once::new(store).call("meanwhile", 1).run(async |_| {
        server.ask::<()>(&format!("DEL {name}")).await.unwrap();
        server.ask::<()>(&format!("SADD {name} member")).await.unwrap();
        Ok(())
    });
    assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Unconfirmed);
    let members: Vec<String> = server.ask(&format!("SMEMBERS {name}")).await.unwrap();
    assert_eq!(members, ["member"]);
}
