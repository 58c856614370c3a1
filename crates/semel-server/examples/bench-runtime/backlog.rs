//! What a backlog costs: the time of a start after a kill, and memory while everything that is called hangs.

use crate::{BATCH, BATCHERS, Result, neighbour::Neighbour};
use semel_server::bench::{
    client::Client,
    load::Make,
    traffic::{Traffic, nanos},
};
use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, task::JoinSet};

/// How many events wait when the server is killed.
const WAITING: u64 = 1_000_000;
/// How often it is started after that.
const STARTS: usize = 5;
/// How many events wait while their function hangs, and how large each is.
const LARGE: u64 = 100_000;
const LARGE_BYTES: usize = 64 << 10;
/// How long a sender waits that was told to come again.
const AGAIN: Duration = Duration::from_millis(20);

/// A million events wait, the server is killed, and started again: how long until it acknowledges one more.
pub(crate) async fn start(directory: &Path) -> Result<()> {
    let function = Neighbour::start(&["function"])?;
    let server = Neighbour::serve(directory, function.address, false).await?;
    let traffic = traffic("bench.later");
    let make: Make = Arc::new({
        let traffic = traffic.clone();
        move |number, _| traffic.batch(number * BATCH, BATCH)
    });
    fill(server.address, WAITING / BATCH, &make).await?;
    drop(server);
    println!("{WAITING} events wait, and the server was killed");
    for number in 0..STARTS as u64 {
        let began = Instant::now();
        let server = Neighbour::serve(directory, function.address, false).await?;
        let mut client = Client::connect(server.address).await?;
        let status = client.ask(&traffic.one(WAITING + number, None)).await?.status;
        let took = began.elapsed().as_secs_f64();
        println!(
            "  start to first acknowledgement {took:>6.2} s (wanted < 1), {status}, {} MB",
            server.peak_mb()
        );
    }
    Ok(())
}

/// Many large events wait, and whatever is called hangs: how much memory that takes.
pub(crate) async fn memory(directory: &Path) -> Result<()> {
    let function = Neighbour::start(&["hang"])?;
    let server = Neighbour::serve(directory, function.address, false).await?;
    let Traffic { host, path, source, kind } = traffic("bench.now");
    let body = "x".repeat(LARGE_BYTES);
    let make: Make = Arc::new(move |number, _| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nce-specversion: 1.0\r\nce-id: evt-{number}\r\nce-source: {source}\r\n\
             ce-type: {kind}\r\ncontent-type: text/plain\r\ncontent-length: {LARGE_BYTES}\r\n\r\n"
        );
        [head.as_bytes(), body.as_bytes()].concat()
    });
    fill(server.address, LARGE, &make).await?;
    println!("{LARGE} events of {} KiB wait, and the function hangs", LARGE_BYTES >> 10);
    println!("  memory at the peak {:>6} MB (wanted ≤ 512)", server.peak_mb());
    Ok(())
}

/// A function that takes calls, and answers none.
pub(crate) async fn hang() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            held.push(connection);
        }
    });
    Ok(address)
}

fn traffic(kind: &str) -> Traffic {
    let source = format!("/bench/{}", nanos());
    Traffic { host: "localhost".to_owned(), path: "/events".to_owned(), source, kind: kind.to_owned() }
}

/// Sends so many requests; again where it is told to come again.
async fn fill(address: SocketAddr, requests: u64, make: &Make) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut senders = JoinSet::new();
    for _ in 0..BATCHERS {
        let (next, make) = (Arc::clone(&next), Arc::clone(make));
        senders.spawn(async move {
            let mut client = Client::connect(address).await?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return Ok::<_, std::io::Error>(());
                }
                while client.ask(&make(number, 0)).await?.status >= 300 {
                    tokio::time::sleep(AGAIN).await;
                }
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    Ok(())
}
