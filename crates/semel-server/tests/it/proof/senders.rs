//! Those who send: many at once, each event until it was acknowledged, and then now and again.

use super::oracle::Oracle;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use std::{net::SocketAddr, sync::Arc};
use tokio::{sync::watch, task::JoinSet};

/// Where a node is, while it is there.
pub(super) type Door = watch::Receiver<Option<SocketAddr>>;

/// What is sent to one node.
pub(super) struct Line(Client<HttpConnector, Full<Bytes>>);

impl Line {
    pub(super) fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }

    /// Sends an event; nothing comes back from a node that ends meanwhile.
    pub(super) async fn event(
        &self,
        to: SocketAddr,
        function: &str,
        id: &str,
    ) -> Option<(StatusCode, Bytes)> {
        let request = Request::post(format!("http://{to}/events"))
            .header("ce-specversion", "1.0")
            .header("ce-id", id)
            .header("ce-source", "/shop")
            .header("ce-type", function)
            .header("content-type", "application/json")
            .body(Full::from(format!("{{\"id\":\"{id}\"}}")))
            .unwrap();
        self.ask(request).await
    }

    /// Asks for a page.
    pub(super) async fn get(&self, to: SocketAddr, path: &str) -> Option<(StatusCode, Bytes)> {
        self.ask(Request::get(format!("http://{to}{path}")).body(Full::default()).unwrap()).await
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Option<(StatusCode, Bytes)> {
        let answered = async {
            let answer = self.0.request(request).await.ok()?;
            let status = answer.status();
            Some((status, answer.into_body().collect().await.ok()?.to_bytes()))
        };
        crate::support::soon("an answer, or the end of the connection", answered).await
    }
}

/// Those who send until this is dropped.
pub(super) struct Senders(JoinSet<()>);

impl Senders {
    /// So many, to any of these nodes.
    pub(super) fn start(count: usize, seed: u64, doors: &[Door], oracle: &Arc<Oracle>) -> Self {
        let mut all = JoinSet::new();
        for number in 0..count {
            let random = fastrand::Rng::with_seed(seed.wrapping_add(number as u64 + 1));
            let (doors, oracle) = (doors.to_vec(), Arc::clone(oracle));
            all.spawn(send(number, random, doors, oracle));
        }
        Self(all)
    }

    /// Ends them between two events.
    pub(super) async fn stop(mut self) {
        self.0.shutdown().await;
    }
}

async fn send(number: usize, mut random: fastrand::Rng, mut doors: Vec<Door>, oracle: Arc<Oracle>) {
    let line = Line::new();
    let mut count = 0_u64;
    loop {
        let is_again = count > 0 && random.u8(..100) < 30;
        if !is_again {
            count += 1;
        }
        let event = if is_again { random.u64(..count) } else { count - 1 };
        let id = format!("{number}-{event}");
        // Until somebody has it.
        loop {
            let node = random.usize(..doors.len());
            let door = &mut doors[node];
            let there = *door.wait_for(Option::is_some).await.expect("doors outlive those who send");
            let there = there.expect("it was waited for");
            if let Some(answer) = line.event(there, "order", &id).await
                && is_taken(&oracle, &id, &answer)
            {
                break;
            }
            // It has ended, or is about to: nobody asks there again before it is somewhere else.
            let _elsewhere = tokio::time::timeout(
                std::time::Duration::from_millis(50),
                door.wait_for(|it| it.is_some_and(|it| it != there)),
            )
            .await;
        }
    }
}

/// Whether the event was acknowledged; noted if so.
fn is_taken(oracle: &Oracle, id: &str, (status, body): &(StatusCode, Bytes)) -> bool {
    match status.as_u16() {
        200 | 202 => {
            let receipt: Value = serde_json::from_slice(body).unwrap();
            oracle.acknowledged(id, &receipt);
            true
        }
        429 | 503 => false,
        _ => {
            oracle.breach(format!("{id} was answered with {status}: {}", String::from_utf8_lossy(body)));
            true
        }
    }
}
