//! Responses that commit with the service's own rows, on SQLite.

use crate::support::{Answer, call};
use axum::{
    Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
    routing::post,
};
use http::{Request, StatusCode};
use semel::{BoxError, ErrorKind, Once, axum::CallLease, http::IdempotencyLayer, store::sqlite::SqliteStore};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// How the handler ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Commits,
    /// It returns the response as if it had.
    ForgetsToCommit,
    RollsBackAndFails,
    RollsBackAndRefuses,
    /// It does not know that its commit went through.
    CommitsAndFails,
    CommitsTwice,
}

#[derive(Clone)]
struct Shop {
    store: SqliteStore,
    once: Once,
    ending: Arc<Mutex<Ending>>,
    calls: Arc<AtomicUsize>,
    _directory: Arc<tempfile::TempDir>,
}

impl Shop {
    async fn open(ending: Ending) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::builder().create().connect(directory.path().join("shop.db")).await.unwrap();
        sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
            .execute(store.pool())
            .await
            .unwrap();
        Self {
            once: Once::new(store.clone()),
            store,
            ending: Arc::new(Mutex::new(ending)),
            calls: Arc::default(),
            _directory: Arc::new(directory),
        }
    }

    fn app(&self) -> Router {
        let layer = IdempotencyLayer::new(self.once.clone());
        Router::new().route("/orders", post(create)).layer(layer).with_state(self.clone())
    }

    async fn orders(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(self.store.pool()).await.unwrap()
    }

    fn set(&self, ending: Ending) {
        *self.ending.lock().unwrap() = ending;
    }
}

async fn create(State(shop): State<Shop>, lease: CallLease) -> Response {
    let number = shop.calls.fetch_add(1, Ordering::SeqCst) + 1;
    let ending = *shop.ending.lock().unwrap();
    match book(&shop, lease, number, ending).await {
        Ok(response) => response,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn book(shop: &Shop, lease: CallLease, number: usize, ending: Ending) -> Result<Response, BoxError> {
    let again = lease.clone();
    let mut tx = shop.store.begin().await?;
    sqlx::query("INSERT INTO orders (item) VALUES ('book')").execute(&mut *tx).await?;
    let response = (StatusCode::CREATED, [("set-cookie", "a=b")], format!("order {number}"));
    let response = lease.complete_in(&mut tx, response.into_response()).await?;
    match ending {
        Ending::Commits => tx.commit().await?,
        Ending::ForgetsToCommit => drop(tx),
        Ending::RollsBackAndFails => {
            tx.rollback().await?;
            return Err("sold out for now".into());
        }
        Ending::RollsBackAndRefuses => {
            tx.rollback().await?;
            return Ok((StatusCode::CONFLICT, "sold out").into_response());
        }
        Ending::CommitsAndFails => {
            tx.commit().await?;
            return Err("the line broke while it committed".into());
        }
        Ending::CommitsTwice => {
            tx.commit().await?;
            let mut tx = shop.store.begin().await?;
            let second = again.complete_in(&mut tx, "twice".into_response()).await;
            assert_eq!(second.map(|_| ()).unwrap_err().kind(), ErrorKind::Superseded);
            return Ok(response.into_response());
        }
    }
    Ok(response.into_response())
}

async fn send(app: &Router) -> Answer {
    let request = Request::post("/orders").header("authorization", "ann").header("idempotency-key", "k");
    Answer::of(call(app, request.body(Body::empty()).unwrap()).await).await
}

#[tokio::test]
async fn the_response_is_stored_with_the_rows() {
    let shop = Shop::open(Ending::Commits).await;
    let app = shop.app();
    let first = send(&app).await;
    assert_eq!((first.status, first.text()), (StatusCode::CREATED, "order 1"));
    assert!(first.headers.contains_key("set-cookie"), "its own client gets all of it");
    for _ in 0..2 {
        let replay = send(&app).await;
        assert_eq!(
            (replay.status, replay.text(), replay.is_replay()),
            (StatusCode::CREATED, "order 1", true)
        );
        assert!(!replay.headers.contains_key("set-cookie"));
    }
    assert_eq!((shop.orders().await, shop.calls.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn what_was_not_committed_did_not_happen_whatever_the_handler_says() {
    let shop = Shop::open(Ending::ForgetsToCommit).await;
    let app = shop.app();
    send(&app).await.is_problem(500, "internal");
    assert_eq!(shop.orders().await, 0);
    shop.set(Ending::Commits);
    assert_eq!(send(&app).await.text(), "order 2", "the next try runs at once");
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn what_was_rolled_back_can_be_answered_otherwise() {
    let shop = Shop::open(Ending::RollsBackAndFails).await;
    let app = shop.app();
    assert_eq!(send(&app).await.text(), "sold out for now");
    shop.set(Ending::RollsBackAndRefuses);
    assert_eq!(send(&app).await.status, StatusCode::CONFLICT);
    let replay = send(&app).await;
    assert_eq!((replay.status, replay.text(), replay.is_replay()), (StatusCode::CONFLICT, "sold out", true));
    assert_eq!(shop.orders().await, 0);
}

#[tokio::test]
async fn what_was_committed_is_told_even_if_the_handler_does_not_know() {
    let shop = Shop::open(Ending::CommitsAndFails).await;
    let app = shop.app();
    let first = send(&app).await;
    assert_eq!((first.status, first.text(), first.is_replay()), (StatusCode::CREATED, "order 1", false));
    assert_eq!(send(&app).await.text(), "order 1");
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn a_response_is_committed_once() {
    let shop = Shop::open(Ending::CommitsTwice).await;
    let app = shop.app();
    assert_eq!(send(&app).await.text(), "order 1");
    assert_eq!(send(&app).await.text(), "order 1");
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_a_commit() {
    let shop = Shop::open(Ending::Commits).await;
    let layer = IdempotencyLayer::new(shop.once.clone());
    let app = Router::new().route("/orders", post(create)).layer(layer.clone()).with_state(shop.clone());
    let mut response = Box::pin(send(&app));
    // As far as the claim, which waits for the disk.
    crate::support::poll_pending(&mut response);
    drop(response);
    layer.idle().await;
    assert_eq!(shop.orders().await, 1);
    assert!(send(&app).await.is_replay());
}
