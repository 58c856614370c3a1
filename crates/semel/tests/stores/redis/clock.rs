//! Leases are judged by the server's clock, which may be far from ours.

use super::server::Server;
use semel::{Once, Store, store::redis::RedisStore};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
};

const HOUR: Duration = Duration::from_hours(1);
/// How the answer to `TIME` begins, before the ten digits of its seconds.
const TIME: &[u8] = b"*2\r\n$10\r\n";

/// How far the store's clock is from the server's.
async fn error(store: &RedisStore, server: &Server) -> Duration {
    let (seconds, micros): (u64, u64) = server.ask("TIME").await.unwrap();
    let theirs = Duration::from_secs(seconds) + Duration::from_micros(micros);
    Duration::from_millis(store.clock().now().as_millis()).abs_diff(theirs)
}

#[tokio::test]
async fn the_clock_is_the_servers() {
    let server = Server::start(&[]);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    assert!(error(&store, &server).await < Duration::from_secs(1));
}

/// Passes everything on, but for the first answer to `TIME`: that is an hour behind.
async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut has_lied: bool) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let message = &mut bytes[..length];
        if !has_lied && let Some(at) = message.windows(TIME.len()).position(|it| it == TIME) {
            let seconds = &mut message[at + TIME.len()..][..10];
            let true_time: u64 = std::str::from_utf8(seconds).unwrap().parse().unwrap();
            seconds.copy_from_slice(format!("{:010}", true_time - HOUR.as_secs()).as_bytes());
            has_lied = true;
        }
        if to.write_all(message).await.is_err() {
            return;
        }
    }
}

/// As after a failover to a server whose clock is another.
#[tokio::test]
async fn what_was_believed_of_the_servers_time_is_set_right_by_the_next_swap() {
    let server = Server::start(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let port = server.port;
    tokio::spawn(async move {
        let (ours, _) = listener.accept().await.unwrap();
        let (from_us, to_us) = ours.into_split();
        let (from_it, to_it) = TcpStream::connect(("127.0.0.1", port)).await.unwrap().into_split();
        tokio::join!(pass_on(from_us, to_it, true), pass_on(from_it, to_us, false));
    });
    let store = RedisStore::connect(&url).await.unwrap();
    let wrong = error(&store, &server).await;
    assert!(wrong.abs_diff(HOUR) < Duration::from_secs(1), "the line does not lie: {wrong:?}");
    Once::new(store.clone()).call("clock", 1).run(async |_| Ok(())).await.unwrap();
    let right = error(&store, &server).await;
    assert!(right < Duration::from_secs(1), "still {right:?} off");
}
