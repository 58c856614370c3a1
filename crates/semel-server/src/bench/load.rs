//! Many clients at once, for a while.

use super::{client::Client, traffic::nanos};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// How much is sent, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Whom.
    pub address: SocketAddr,
    /// How many connections ask at once.
    pub connections: usize,
    /// How long requests are begun.
    pub turn: Duration,
    /// How many requests a second; as many as are answered, unless this is said.
    pub rate: Option<f64>,
}

/// What a turn came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    /// Requests that were answered, all with 2xx.
    pub requests: u64,
    /// Until the last answer.
    pub took: Duration,
    /// How long each request took, in microseconds, sorted.
    pub micros: Vec<u64>,
}

impl Sent {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }
}

/// Makes the request of a number, which was to be sent at this moment.
pub type Make = Arc<dyn Fn(u64, u64) -> Vec<u8> + Send + Sync>;

/// Sends what is made, numbered from wherever the counter stands.
pub async fn send(load: &Load, next: &Arc<AtomicU64>, make: &Make) -> io::Result<Sent> {
    let mut clients = Vec::new();
    for _ in 0..load.connections {
        clients.push(Client::connect(load.address).await?);
    }
    let began = Instant::now();
    let mut asking = JoinSet::new();
    for (index, client) in clients.into_iter().enumerate() {
        let pace = load.rate.map(|rate| Pace { began, index, connections: load.connections, rate });
        asking.spawn(ask(client, pace, began + load.turn, Arc::clone(next), Arc::clone(make)));
    }
    let mut micros = Vec::new();
    while let Some(asked) = asking.join_next().await {
        micros.extend(asked??);
    }
    let took = began.elapsed();
    micros.sort_unstable();
    Ok(Sent { requests: micros.len() as u64, took, micros })
}

/// When a connection's requests are due.
struct Pace {
    began: Instant,
    index: usize,
    connections: usize,
    rate: f64,
}

impl Pace {
    fn due(&self, request: usize) -> Instant {
        self.began + Duration::from_secs_f64((request * self.connections + self.index) as f64 / self.rate)
    }
}

async fn ask(
    mut client: Client,
    pace: Option<Pace>,
    until: Instant,
    next: Arc<AtomicU64>,
    make: Make,
) -> io::Result<Vec<u64>> {
    let mut micros = Vec::new();
    loop {
        let mut late = Duration::ZERO;
        if let Some(pace) = &pace {
            let due = pace.due(micros.len());
            if due >= until {
                return Ok(micros);
            }
            // Whoever is late because an answer was, waited from when it was due.
            match due.checked_duration_since(Instant::now()) {
                Some(early) => tokio::time::sleep(early).await,
                None => late = due.elapsed(),
            }
        }
        let since = Instant::now();
        if since >= until {
            return Ok(micros);
        }
        let sent = nanos() - late.as_nanos() as u64;
        let request = make(next.fetch_add(1, Ordering::Relaxed), sent);
        let answer = client.ask(&request).await?;
        if !(200..300).contains(&answer.status) {
            return Err(io::Error::other(String::from_utf8_lossy(answer.body).into_owned()));
        }
        micros.push((since.elapsed() + late).as_micros() as u64);
    }
}
