//! Responses that commit with the service's own rows, and renewals that come in between: time is advanced by hand.

use crate::{
    bodies::{data, pieces, whole},
    support::{Answer, App, MINUTE, Spy, World, order, settle},
};
use http::Response;
use semel::{BoxFuture, Fence, Key, Record, Store, StoreError, Stored, Swap, Transaction, http::CallLease};
use std::sync::Arc;
use tokio::sync::Notify;

/// A user's transaction: what it writes is there when it commits.
struct Tx {
    store: Arc<Spy>,
    written: Vec<(Key, Option<Fence>, Record)>,
}

impl Tx {
    fn begin(store: &Arc<Spy>) -> Self {
        Self { store: Arc::clone(store), written: Vec::new() }
    }

    async fn commit(self) {
        for (key, expected, record) in self.written {
            assert!(
                matches!(self.store.commit(&key, expected, &record).await, Swap::Won(_)),
                "it was locked"
            );
        }
    }
}

impl Transaction for Tx {
    fn load<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        self.store.load(key)
    }

    fn swap<'a>(
        &'a mut self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let found = self.store.load(key).await?;
            if found.as_ref().map(|it| it.fence) != expected {
                return Ok(Swap::Lost(found));
            }
            self.written.push((key.clone(), expected, record.clone()));
            Ok(Swap::Won(Fence::new(1).unwrap()))
        })
    }
}

/// A service that stops before it writes, and before it commits, until it is told to go on.
fn stopping(world: &World) -> (App, Arc<Notify>, Arc<Notify>) {
    let (write, commit) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let app = {
        let (write, commit, store) = (Arc::clone(&write), Arc::clone(&commit), Arc::clone(&world.store));
        world.serving(&world.layer(), move |request, number| {
            let (write, commit, store) = (Arc::clone(&write), Arc::clone(&commit), Arc::clone(&store));
            Box::pin(async move {
                let lease = CallLease::of(request.extensions()).unwrap();
                write.notified().await;
                let mut tx = Tx::begin(&store);
                let response = Response::new(whole(format!("call {number}")));
                let response = lease.complete_in(&mut tx, response).await.unwrap();
                commit.notified().await;
                tx.commit().await;
                Ok(response.map(http_body_util::BodyExt::boxed_unsync))
            })
        })
    };
    (app, write, commit)
}

/// A third of a lease, and what comes of it.
async fn pass_a_third(world: &World) {
    world.clock.advance(MINUTE / 3);
    settle().await;
}

#[tokio::test]
async fn nothing_is_renewed_once_the_response_was_written() {
    let world = World::new();
    let (app, write, commit) = stopping(&world);
    let response = tokio::spawn(app.begin(order("k")));
    settle().await;
    world.store.asked();
    pass_a_third(&world).await;
    assert_eq!(world.store.asked(), ["swap IN_PROGRESS"], "a renewal");
    write.notify_one();
    settle().await;
    world.store.asked();
    pass_a_third(&world).await;
    pass_a_third(&world).await;
    assert!(world.store.asked().is_empty(), "the transaction has the record");
    commit.notify_one();
    assert_eq!(Answer::of(response.await.unwrap()).await.text(), "call 1");
    assert_eq!(app.send(order("k")).await.text(), "call 1");
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn a_renewal_that_finds_the_commit_is_not_taken_for_a_loss() {
    let world = World::new();
    let (app, write, commit) = stopping(&world);
    let response = tokio::spawn(app.begin(order("k")));
    settle().await;
    // The renewal is on its way, and waits behind the transaction.
    world.store.holds("IN_PROGRESS");
    pass_a_third(&world).await;
    write.notify_one();
    settle().await;
    commit.notify_one();
    settle().await;
    world.store.let_go();
    assert_eq!(Answer::of(response.await.unwrap()).await.text(), "call 1");
    assert!(app.send(order("k")).await.is_replay());
}

#[tokio::test]
async fn a_renewal_that_landed_first_is_written_over() {
    let world = World::new();
    let (app, write, commit) = stopping(&world);
    let response = tokio::spawn(app.begin(order("k")));
    settle().await;
    for _ in 0..5 {
        pass_a_third(&world).await;
    }
    write.notify_one();
    commit.notify_one();
    assert_eq!(Answer::of(response.await.unwrap()).await.text(), "call 1");
}

#[tokio::test]
async fn a_transaction_that_takes_longer_than_the_lease_is_given_up() {
    let world = World::new();
    let (app, write, commit) = stopping(&world);
    let response = tokio::spawn(app.begin(order("k")));
    settle().await;
    write.notify_one();
    settle().await;
    for _ in 0..4 {
        pass_a_third(&world).await;
    }
    let answer = Answer::of(response.await.unwrap()).await;
    answer.is_problem(503, "interrupted");
    assert_eq!(answer.retry_after(), 5);
    write.notify_one();
    commit.notify_one();
    assert_eq!(app.send(order("k")).await.text(), "call 2", "it was rolled back, so the next one runs");
}

#[tokio::test]
async fn a_store_that_cannot_tell_whether_it_was_committed_is_not_guessed_at() {
    let world = World::new();
    let (app, write, commit) = stopping(&world);
    let response = tokio::spawn(app.begin(order("k")));
    settle().await;
    write.notify_one();
    settle().await;
    world.store.is_down.store(true, std::sync::atomic::Ordering::SeqCst);
    commit.notify_one();
    Answer::of(response.await.unwrap()).await.is_problem(503, "outcome-unconfirmed");
    world.store.is_down.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(app.send(order("k")).await.text(), "call 1", "the same key tells");
}

#[tokio::test]
async fn a_response_that_is_too_large_is_committed_without_its_body() {
    let world = World::new();
    let app = {
        let store = Arc::clone(&world.store);
        world.serving(&world.layer().response_bytes_max(5), move |request, _| {
            let store = Arc::clone(&store);
            Box::pin(async move {
                let lease = CallLease::of(request.extensions()).unwrap();
                let mut tx = Tx::begin(&store);
                let body = pieces([data("much "), data("too "), data("much")]);
                let response = lease.complete_in(&mut tx, Response::new(body)).await.unwrap();
                tx.commit().await;
                Ok(response.map(http_body_util::BodyExt::boxed_unsync))
            })
        })
    };
    assert_eq!(app.send(order("k")).await.text(), "much too much");
    app.send(order("k")).await.is_problem(409, "response-not-retained");
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn an_unprotected_request_commits_its_rows_and_no_record() {
    let world = World::new();
    let app = {
        let world = world.clone();
        let layer = world.layer().fail_open();
        world.clone().serving(&layer, move |request, _| {
            let store = Arc::clone(&world.store);
            Box::pin(async move {
                let lease = CallLease::of(request.extensions()).unwrap();
                let mut tx = Tx::begin(&store);
                let response = lease.complete_in(&mut tx, Response::new(whole("done"))).await.unwrap();
                assert!(tx.written.is_empty());
                Ok(response.map(http_body_util::BodyExt::boxed_unsync))
            })
        })
    };
    world.store.is_down.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(app.send(order("k")).await.text(), "done");
}
