//! Senders: they deliver what is planned, and send again whatever was not acknowledged.

use super::plan::cents;
use crate::bench::{client::Client, traffic::with_body};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

/// How many send at once.
const SENDERS: usize = 32;
/// How long one waits before it sends again.
const PAUSE: Duration = Duration::from_millis(20);

/// What the senders share.
#[derive(Debug)]
pub(super) struct Post {
    /// Where the server is now.
    address: Mutex<SocketAddr>,
    /// The next delivery.
    next: AtomicUsize,
    plan: Vec<u32>,
    /// Deliveries that were acknowledged.
    acknowledged: AtomicU64,
    /// Deliveries that were not, and made again.
    again: AtomicU64,
}

impl Post {
    pub(super) fn new(plan: Vec<u32>, address: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            address: Mutex::new(address),
            next: AtomicUsize::new(0),
            plan,
            acknowledged: AtomicU64::new(0),
            again: AtomicU64::new(0),
        })
    }

    /// The server is there now.
    pub(super) fn moved(&self, address: SocketAddr) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub(super) fn again(&self) -> u64 {
        self.again.load(Ordering::Relaxed)
    }

    /// Delivers everything.
    pub(super) async fn deliver(self: Arc<Self>) {
        let mut senders = JoinSet::new();
        for _ in 0..SENDERS {
            senders.spawn(Arc::clone(&self).send());
        }
        senders.join_all().await;
    }

    async fn send(self: Arc<Self>) {
        let mut client = None;
        while let Some(event) = self.plan.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            while !self.is_acknowledged(&mut client, *event).await {
                client = None;
                self.again.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(PAUSE).await;
            }
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn is_acknowledged(&self, client: &mut Option<Client>, event: u32) -> bool {
        let address = *self.address.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = async {
            let client = match client {
                Some(client) => client,
                None => client.insert(Client::connect(address).await?),
            };
            Ok::<_, io::Error>(client.ask(&request(address, event)).await?.status)
        };
        matches!(answer.await, Ok(200..300))
    }
}

fn request(address: SocketAddr, event: u32) -> Vec<u8> {
    let head = format!(
        "POST /events HTTP/1.1\r\nHost: {address}\r\nce-specversion: 1.0\r\nce-id: order-{event}\r\n\
         ce-source: /semel/demo\r\nce-type: order.created\r\ncontent-type: application/json\r\n"
    );
    with_body(head, &format!(r#"{{"order":{event},"cents":{}}}"#, cents(event)))
}
