//! PostgreSQL is gone, silent or slow for a while, under load.
//!
//! 1. Whoever sends meanwhile is told `503` and when to come again, or waits; nothing is acknowledged that is not durable.
//! 2. `/ready` says so, and the process lives.
//! 3. When it is back everything goes on, by the same process, and the books agree.

use super::super::{
    nodes::{Plan, World},
    oracle::Oracle,
    seed,
};
use crate::support::{Client, Got, soon};
use http::Request;
use http_body_util::{BodyExt, Full};
use semel_testkit::{Fault, FaultProxy, servers};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

/// Slower than `/ready` waits for, and faster than the queue gives up.
const SLOW: Duration = Duration::from_millis(1_500);

/// How many send at once to a store that is slow.
const CROWD: usize = 300;

/// Somebody who sends beside the others, and looks closely.
struct Watcher {
    client: Client,
    name: String,
    sent: usize,
}

impl Watcher {
    fn new() -> Self {
        Self { client: Client::new(), name: "watched".to_owned(), sent: 0 }
    }

    /// Sends an event that nobody has sent before.
    async fn send(&mut self, world: &World) -> Got {
        self.send_to(world.address()).await
    }

    async fn send_to(&mut self, address: SocketAddr) -> Got {
        self.sent += 1;
        let request = Request::post(format!("http://{address}/events"))
            .header("ce-specversion", "1.0")
            .header("ce-id", self.id())
            .header("ce-source", "/shop")
            .header("ce-type", "order")
            .body(Full::default().boxed());
        self.client.send(request.unwrap()).await
    }

    /// Of what was sent last.
    fn id(&self) -> String {
        format!("{}-{}", self.name, self.sent)
    }

    /// Sends again and again, until it is told that enough wait, or that it is over.
    async fn crowds(
        mut self,
        address: SocketAddr,
        oracle: Arc<Oracle>,
        is_over: Arc<AtomicBool>,
    ) -> Option<Got> {
        while !is_over.load(Ordering::Relaxed) {
            let got = self.send_to(address).await;
            if got.status.is_success() {
                oracle.acknowledged(&self.id(), &serde_json::from_slice(&got.body).unwrap());
            } else if got.problem().ends_with("#busy") {
                return Some(got);
            }
        }
        None
    }

    /// Until `/ready` answers with this status; what it said then.
    async fn ready(&self, world: &World, status: u16) -> String {
        let asking = async {
            loop {
                let got = self.client.get(&format!("http://{}/ready", world.address())).await;
                if got.status == status {
                    return got.text().to_owned();
                }
            }
        };
        soon("the change of `/ready`", asking).await
    }

    /// Until an event is refused.
    async fn refused(&mut self, world: &World) -> Got {
        let sending = async {
            loop {
                let got = self.send(world).await;
                if !got.status.is_success() {
                    return got;
                }
                // It was on its way when the trouble began.
                world.oracle.acknowledged(&self.id(), &serde_json::from_slice(&got.body).unwrap());
            }
        };
        soon("a refusal", sending).await
    }
}

/// Until the trouble was met by so many messages or connections more.
async fn troubled(proxy: &FaultProxy, count: u64) {
    let goal = proxy.traffic().troubled + count;
    let waiting = async {
        while proxy.traffic().troubled < goal {
            tokio::task::yield_now().await;
        }
    };
    soon("the trouble", waiting).await;
}

fn says_when(got: &Got) {
    let seconds: u64 = got.header("retry-after").expect("when to come again").parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
}

/// F6: gone in good order, and gone with a reset.
#[tokio::test(flavor = "multi_thread")]
async fn while_postgresql_is_gone_nothing_is_acknowledged_and_everything_goes_on_when_it_is_back() {
    let database = servers::postgres().await;
    let proxy = FaultProxy::before(&database.url).await;
    let mut world = World::start(Plan { seed: seed(), store: proxy.url(), nodes: 1, senders: 8 }).await;
    let mut watcher = Watcher::new();
    for fault in [Fault::Refuse, Fault::Reset] {
        world.oracle.more(200).await;
        proxy.set(fault);
        let got = watcher.refused(&world).await;
        assert!(got.status == 503 && got.problem().ends_with("#store"), "{got:?}");
        says_when(&got);
        assert!(watcher.ready(&world, 503).await.contains("the store does not answer"));
        // What was answered before the trouble is noted by now.
        let before = world.oracle.figures().acknowledged;
        troubled(&proxy, 20).await;
        assert_eq!(watcher.send(&world).await.status, 503);
        assert_eq!(world.oracle.figures().acknowledged, before, "new ones were acknowledged without a store");
        assert!(proxy.traffic().troubled > 0);
        proxy.heal();
        assert!(watcher.ready(&world, 200).await.contains("ready"));
        assert!(soon("an acknowledgement", watcher.send(&world)).await.status.is_success());
    }
    world.oracle.more(200).await;
    world.settles_after_trouble().await;
}

/// F7: each message takes longer than `/ready` waits for all of them, and then none of them arrives at all.
#[tokio::test(flavor = "multi_thread")]
async fn while_postgresql_is_slow_or_silent_what_is_acknowledged_is_durable_and_nothing_is_done_again() {
    let database = servers::postgres().await;
    let proxy = FaultProxy::before(&database.url).await;
    let mut world = World::start(Plan { seed: seed(), store: proxy.url(), nodes: 1, senders: 8 }).await;
    let watcher = Watcher::new();
    for fault in [Fault::Delay(SLOW), Fault::BlackHole] {
        world.oracle.more(100).await;
        proxy.set(fault);
        assert!(watcher.ready(&world, 503).await.contains("the store does not answer"));
        troubled(&proxy, 5).await;
        proxy.heal();
        watcher.ready(&world, 200).await;
    }
    world.oracle.more(100).await;
    world.settles_after_trouble().await;
}

/// F7: enough wait already, and the others need not.
#[tokio::test(flavor = "multi_thread")]
async fn while_postgresql_is_slow_and_many_wait_others_are_told_early_to_come_again() {
    let database = servers::postgres().await;
    let proxy = FaultProxy::before(&database.url).await;
    let mut world = World::start(Plan { seed: seed(), store: proxy.url(), nodes: 1, senders: 8 }).await;
    world.oracle.more(100).await;
    proxy.set(Fault::Delay(SLOW));
    let (client, is_over) = (Client::new(), Arc::new(AtomicBool::new(false)));
    let mut crowd = JoinSet::new();
    for one in 0..CROWD {
        let watcher = Watcher { client: client.clone(), name: format!("crowd-{one}"), sent: 0 };
        crowd.spawn(watcher.crowds(world.address(), Arc::clone(&world.oracle), Arc::clone(&is_over)));
    }
    let told = soon("a refusal", crowd.join_next()).await.unwrap().unwrap().expect("nobody said it is over");
    assert_eq!(told.status, 503);
    says_when(&told);
    is_over.store(true, Ordering::Relaxed);
    proxy.heal();
    soon("the others", crowd.join_all()).await;
    let mut watcher = Watcher::new();
    assert!(watcher.send(&world).await.status.is_success(), "there is room again");
    world.oracle.more(100).await;
    world.settles_after_trouble().await;
}
