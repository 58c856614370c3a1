//! The fault proxy does to a connection what it is told, and to no other.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use semel_testkit::{Fault, FaultProxy};
use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// A server that gives back what it reads, and a proxy before it.
struct World {
    proxy: FaultProxy,
    served: Arc<AtomicU64>,
}

impl World {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = FaultProxy::before(&listener.local_addr().unwrap().to_string()).await;
        let served = Arc::<AtomicU64>::default();
        let count = served.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(echo(stream, count.clone()));
            }
        });
        Self { proxy, served }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy.address()).await.unwrap()
    }

    fn served(&self) -> u64 {
        self.served.load(Ordering::SeqCst)
    }
}

async fn echo(mut stream: TcpStream, served: Arc<AtomicU64>) {
    let mut bytes = [0; 64];
    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
        served.fetch_add(1, Ordering::SeqCst);
        if stream.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

/// Sends a message, and gives what comes back: `None` if the connection was closed.
async fn ask(client: &mut TcpStream, message: &str) -> std::io::Result<Option<String>> {
    client.write_all(message.as_bytes()).await?;
    let mut bytes = [0; 64];
    let read = client.read(&mut bytes).await?;
    Ok((read > 0).then(|| String::from_utf8_lossy(&bytes[..read]).into_owned()))
}

async fn expect_reply(client: &mut TcpStream, message: &str) {
    assert_eq!(ask(client, message).await.unwrap().as_deref(), Some(message));
}

/// Whether nothing comes back for as long as anything would need to.
async fn is_silent(client: &mut TcpStream, message: &str) -> bool {
    tokio::time::timeout(Duration::from_millis(100), ask(client, message)).await.is_err()
}

#[tokio::test]
async fn without_a_fault_everything_passes_and_is_counted() {
    let world = World::new().await;
    let mut client = world.connect().await;
    expect_reply(&mut client, "one").await;
    expect_reply(&mut client, "two").await;
    let traffic = world.proxy.traffic();
    assert_eq!((traffic.connections, traffic.requests, traffic.replies, traffic.troubled), (1, 2, 2, 0));
}

#[tokio::test]
async fn refusing_closes_what_there_is_and_what_comes() {
    let world = World::new().await;
    let mut client = world.connect().await;
    expect_reply(&mut client, "one").await;
    world.proxy.set(Fault::Refuse);
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
    assert_eq!(world.connect().await.read(&mut [0; 8]).await.unwrap(), 0);
    world.proxy.heal();
    expect_reply(&mut world.connect().await, "two").await;
    assert_eq!(world.served(), 2);
}

#[tokio::test]
async fn resetting_is_not_closing_in_good_order() {
    let world = World::new().await;
    let mut client = world.connect().await;
    expect_reply(&mut client, "one").await;
    world.proxy.strike(1, Fault::Reset);
    assert_eq!(ask(&mut client, "two").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(world.served(), 1, "what is reset was not passed on");
}

#[tokio::test]
async fn delays_pass_everything_on_late() {
    const DELAY: Duration = Duration::from_millis(20);
    let world = World::new().await;
    let mut client = world.connect().await;
    expect_reply(&mut client, "one").await;
    world.proxy.set(Fault::Delay(DELAY));
    let start = Instant::now();
    expect_reply(&mut client, "two").await;
    assert!(start.elapsed() >= 2 * DELAY, "late there, and late back");
}

#[tokio::test]
async fn a_black_hole_stays_silent_and_does_not_close() {
    let world = World::new().await;
    let mut client = world.connect().await;
    expect_reply(&mut client, "one").await;
    world.proxy.set(Fault::BlackHole);
    assert!(is_silent(&mut client, "two").await);
    assert!(is_silent(&mut world.connect().await, "three").await);
    world.proxy.heal();
    assert!(is_silent(&mut client, "four").await, "what is silent stays so");
    expect_reply(&mut world.connect().await, "five").await;
    assert_eq!(world.served(), 2);
}

#[tokio::test]
async fn a_cut_reply_was_carried_out() {
    let world = World::new().await;
    let mut client = world.connect().await;
    world.proxy.strike(1, Fault::CutReply);
    assert_eq!(ask(&mut client, "one").await.unwrap(), None);
    assert_eq!(world.served(), 1);
    assert_eq!(world.proxy.traffic().replies, 0);
}

#[tokio::test]
async fn a_strike_hits_one_message_of_all_connections() {
    let world = World::new().await;
    let (mut one, mut other) = (world.connect().await, world.connect().await);
    world.proxy.strike(3, Fault::Refuse);
    expect_reply(&mut one, "one").await;
    expect_reply(&mut other, "two").await;
    assert_eq!(ask(&mut one, "three").await.unwrap(), None);
    expect_reply(&mut other, "four").await;
    assert!(!world.proxy.heal(), "it has struck");
    assert_eq!(world.proxy.traffic().troubled, 1);
}

#[tokio::test]
async fn a_strike_that_is_healed_never_comes() {
    let world = World::new().await;
    let mut client = world.connect().await;
    world.proxy.strike(1, Fault::Refuse);
    assert!(world.proxy.heal());
    expect_reply(&mut client, "one").await;
}

#[tokio::test]
async fn dropping_the_proxy_closes_every_connection() {
    let world = World::new().await;
    let mut client = world.connect().await;
    expect_reply(&mut client, "one").await;
    drop(world.proxy);
    assert_eq!(client.read(&mut [0; 8]).await.unwrap_or(0), 0);
}
