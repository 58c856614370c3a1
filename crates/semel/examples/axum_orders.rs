//! A shop with one route, `POST /orders`, behind which are a payment provider, a mail server and a database.
//!
//! The layer carries each `Idempotency-Key` out once. The handler gives its charge and its mail records of their own, and
//! commits the order together with the response. The program starts the shop on loopback and is its worst customer: it
//! sends orders twice, ten at once, changed under the same key, hangs up half way, and lets the provider fail. Then it
//! checks the books.
//!
//! Run it: `cargo run --example axum_orders --features axum,sqlite`

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use semel::{
    HandlerError, Once, Provider, axum::CallLease, http::IdempotencyLayer, store::sqlite::SqliteStore,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    error::Error,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};
use tokio::{net::TcpListener, task::JoinSet};

type Trouble = Box<dyn Error + Send + Sync>;

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    item: String,
    cents: u32,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    order: i64,
    charge: String,
}

/// What the shop works with. The provider and the mail server are doubles, the database is real.
#[derive(Clone)]
struct Shop {
    database: SqliteStore,
    provider: Arc<Mutex<HashMap<String, u32>>>,
    provider_fails: Arc<AtomicU32>,
    mails: Arc<AtomicU32>,
}

/// The handler. What it does before an error is not done again by the next try.
async fn create(
    State(shop): State<Shop>,
    lease: CallLease,
    Json(order): Json<Order>,
) -> Result<Response, Refusal> {
    let charge: String = lease
        .effect("charge")
        .keyed(Provider::STRIPE)
        .run(async |key| shop.charge(key.as_str(), order.cents).await)
        .await?;
    lease.effect("mail").at_most_once().run(async || shop.mail().await).await?;
    // The order and the response commit together.
    let mut tx = shop.database.begin().await?;
    let insert = sqlx::query_scalar("INSERT INTO orders (item, cents) VALUES ($1, $2) RETURNING id");
    let id: i64 = insert.bind(order.item).bind(order.cents).fetch_one(&mut *tx).await?;
    let response = (StatusCode::CREATED, Json(Receipt { order: id, charge })).into_response();
    let response = lease.complete_in(&mut tx, response).await?;
    tx.commit().await?;
    Ok(response.into_response())
}

impl Shop {
    async fn open(path: &std::path::Path) -> Result<Self, Trouble> {
        let database = SqliteStore::builder().create().connect(path).await?;
        sqlx::query(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, cents INTEGER NOT NULL)",
        )
        .execute(database.pool())
        .await?;
        let (provider, provider_fails, mails) = (Arc::default(), Arc::default(), Arc::default());
        Ok(Self { database, provider, provider_fails, mails })
    }

    fn router(&self, layer: &IdempotencyLayer) -> Router {
        Router::new().route("/orders", post(create)).layer(layer.clone()).with_state(self.clone())
    }

    async fn charge(&self, key: &str, cents: u32) -> Result<String, HandlerError> {
        tokio::task::yield_now().await;
        let fails = self.provider_fails.load(Ordering::SeqCst);
        if fails > 0 {
            self.provider_fails.store(fails - 1, Ordering::SeqCst);
            return Err("the provider is away".into());
        }
        self.provider.lock().expect("no code panics while it holds the books").insert(key.to_owned(), cents);
        Ok(format!("ch_{}", &key[..8]))
    }

    async fn mail(&self) -> Result<(), HandlerError> {
        tokio::task::yield_now().await;
        self.mails.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn orders(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(self.database.pool()).await
    }
}

/// Whatever went wrong, as a response: Semel's own errors say what they mean, the rest is a plain 500.
enum Refusal {
    Semel(semel::Error),
    Other(Trouble),
}

impl From<semel::Error> for Refusal {
    fn from(error: semel::Error) -> Self {
        Self::Semel(error)
    }
}

impl From<semel::StoreError> for Refusal {
    fn from(error: semel::StoreError) -> Self {
        Self::Other(error.into())
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::Other(error.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Semel(error) => error.into_response(),
            Self::Other(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

/// A customer that cannot leave it.
#[derive(Clone)]
struct Customer {
    client: Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

impl Customer {
    async fn order(&self, key: &str, cents: u32) -> Result<(StatusCode, bool, String), Trouble> {
        let order = Order { item: "book".to_owned(), cents };
        let request = Request::post(format!("http://{}/orders", self.address))
            .header("authorization", "Bearer ann")
            .header("idempotency-key", format!("\"{key}\""))
            .header("content-type", "application/json")
            .body(Full::from(serde_json::to_vec(&order)?))?;
        let response = self.client.request(request).await?;
        let (status, is_replay) =
            (response.status(), response.headers().contains_key("idempotency-replayed"));
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, is_replay, String::from_utf8_lossy(&body).into_owned()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let directory = tempfile::tempdir()?;
    let shop = Shop::open(&directory.path().join("shop.db")).await?;
    let layer = IdempotencyLayer::new(Once::new(shop.database.clone())).service_name("shop").required();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(axum::serve(listener, shop.router(&layer)).into_future());
    let ann = Customer { client: Client::builder(TokioExecutor::new()).build_http(), address };

    let (status, is_replay, first) = ann.order("order-1", 1200).await?;
    assert_eq!((status, is_replay), (StatusCode::CREATED, false), "{first}");
    let (status, is_replay, again) = ann.order("order-1", 1200).await?;
    assert_eq!((status, is_replay, &again), (StatusCode::CREATED, true, &first));
    println!("twice:      one order, one receipt: {first}");

    let (status, _, refused) = ann.order("order-1", 9900).await?;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
    println!("changed:    refused: {refused}");

    let mut crowd = JoinSet::new();
    for _ in 0..10 {
        let ann = ann.clone();
        crowd.spawn(async move { ann.order("order-2", 500).await });
    }
    let mut fresh = 0;
    while let Some(answer) = crowd.join_next().await {
        let (status, is_replay, body) = answer??;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        fresh += u32::from(!is_replay);
    }
    assert_eq!(fresh, 1);
    println!("ten at once: one order, ten receipts");

    let hung_up = ann.clone();
    let request = tokio::spawn(async move { hung_up.order("order-3", 700).await.is_ok() });
    while shop.provider.lock().expect("no code panics while it holds the books").len() < 3 {
        tokio::task::yield_now().await;
    }
    request.abort();
    layer.idle().await;
    let (status, _, body) = ann.order("order-3", 700).await?;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    println!("hung up:    finished all the same, and here is the receipt: {body}");

    shop.provider_fails.store(2, Ordering::SeqCst);
    let mut failures = 0;
    let body = loop {
        match ann.order("order-4", 100).await? {
            (StatusCode::CREATED, _, body) => break body,
            (status, ..) => assert!(status.is_server_error(), "{status}"),
        }
        failures += 1;
    };
    println!("failing:    after {failures} failures: {body}");

    let charged: u32 = shop.provider.lock().expect("no code panics while it holds the books").values().sum();
    let (orders, mails) = (shop.orders().await?, shop.mails.load(Ordering::SeqCst));
    println!("the books:  {orders} orders, {mails} mails, {charged} cents charged");
    assert_eq!((orders, mails, charged, failures), (4, 4, 1200 + 500 + 700 + 100, 2));
    server.abort();
    Ok(())
}
