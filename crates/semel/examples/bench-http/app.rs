//! The route that is measured, with the layer and without.

use crate::Trouble;
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    routing::post,
};
use semel::{Once, http::IdempotencyLayer};
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, path::Path, sync::Arc};
use tokio::{net::TcpListener, sync::Barrier, task::JoinHandle};

/// What stands in front of the route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Plain,
    Memory,
    Embedded,
}

impl Kind {
    /// As another process is told it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Memory => "memory",
            Self::Embedded => "embedded",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Plain, Self::Memory, Self::Embedded].into_iter().find(|it| it.name() == name)
    }
}

#[derive(Deserialize)]
struct Order {
    item: String,
    cents: u64,
}

#[derive(Serialize)]
struct Receipt {
    item: String,
    charged: u64,
    state: &'static str,
}

async fn order(Json(order): Json<Order>) -> Json<Receipt> {
    Json(Receipt { item: order.item, charged: order.cents, state: "accepted" })
}

/// Holds an upload until as many are there as it was told.
async fn upload(State(all): State<Arc<Barrier>>, body: Bytes) -> String {
    all.wait().await;
    body.len().to_string()
}

/// A server that runs until it is stopped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
    /// Removed after the store in it was closed.
    directory: Option<tempfile::TempDir>,
}

impl Served {
    pub(crate) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
        drop(self.directory);
    }
}

/// The router with `POST /orders`. It has its state, as one that is served: otherwise each call would lay the layers anew.
pub(crate) async fn router(kind: Kind, directory: Option<&Path>) -> Result<Router, Trouble> {
    let router = layered(Router::new().route("/orders", post(order)), kind, directory).await?;
    Ok(router.with_state(()))
}

/// Serves `POST /orders`.
pub(crate) async fn serve(kind: Kind) -> Result<Served, Trouble> {
    let directory = (kind == Kind::Embedded).then(tempfile::tempdir).transpose()?;
    let router = router(kind, directory.as_ref().map(tempfile::TempDir::path)).await?;
    start(router, directory).await
}

/// Serves `POST /uploads`, which answers when so many are there.
pub(crate) async fn serve_uploads(kind: Kind, uploads: usize) -> Result<Served, Trouble> {
    let all = Arc::new(Barrier::new(uploads));
    let router = Router::new().route("/uploads", post(upload)).layer(DefaultBodyLimit::disable());
    start(layered(router.with_state(all), kind, None).await?, None).await
}

async fn layered(router: Router, kind: Kind, directory: Option<&Path>) -> Result<Router, Trouble> {
    let once = match (kind, directory) {
        (Kind::Plain, _) => return Ok(router),
        (Kind::Embedded, Some(directory)) => Once::open(directory.join("semel-data")).await?,
        (Kind::Memory | Kind::Embedded, _) => Once::memory(),
    };
    Ok(router.layer(IdempotencyLayer::new(once).required()))
}

async fn start(router: Router, directory: Option<tempfile::TempDir>) -> Result<Served, Trouble> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(async move {
        axum::serve(listener, router).await.expect("it serves until it is stopped");
    });
    Ok(Served { address, task, directory })
}
