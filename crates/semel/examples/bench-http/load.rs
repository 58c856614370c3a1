//! Asking, with as little work as possible: plain sockets, requests in a buffer, answers looked at for their length.

use crate::Trouble;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

/// Which keys are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keys {
    /// Each a new one.
    Fresh,
    /// The same few again and again, after they were carried out.
    Known,
}

/// So many connections, each of which asks as soon as it was answered.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) keys: Keys,
}

pub(crate) const BODY: &str =
    r#"{"item":"The Art of Doing Things Once, second edition","cents":4200,"note":"a gift, please wrap it"}"#;

/// What came of it.
pub(crate) struct Asked {
    /// Requests per second, after warming up.
    pub(crate) rate: f64,
    /// All requests.
    pub(crate) answered: u64,
}

impl Load {
    pub(crate) async fn run(self, time: Duration) -> Result<Asked, Trouble> {
        let next = Arc::new(AtomicU64::new(0));
        let mut connections = JoinSet::new();
        let begun = Instant::now();
        // The first fifth is for warming up.
        let (from, until) = (begun + time / 5, begun + time);
        for number in 0..self.connections {
            connections.spawn(self.connection(number, Arc::clone(&next), from, until));
        }
        let (mut warm, mut answered) = (0, 0);
        while let Some(connection) = connections.join_next().await {
            let counted = connection??;
            warm += counted.0;
            answered += counted.1;
        }
        Ok(Asked { rate: warm as f64 / (until - from).as_secs_f64(), answered })
    }

    async fn connection(
        self,
        number: usize,
        next: Arc<AtomicU64>,
        from: Instant,
        until: Instant,
    ) -> Result<(u64, u64), Trouble> {
        let mut line = Line::connect(self.address).await?;
        let (mut warm, mut answered) = (0, 0);
        loop {
            let key = match self.keys {
                Keys::Fresh => next.fetch_add(1, Ordering::Relaxed),
                Keys::Known => number as u64,
            };
            let status = line.ask("/orders", "ann", key, BODY.as_bytes()).await?;
            if status != 200 {
                return Err(format!("answered with {status}").into());
            }
            answered += 1;
            let now = Instant::now();
            if now >= until {
                return Ok((warm, answered));
            }
            warm += u64::from(now >= from);
        }
    }
}

/// A connection.
pub(crate) struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Line {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self, Trouble> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a request, reads the answer, and gives its status.
    pub(crate) async fn ask(
        &mut self,
        path: &str,
        caller: &str,
        key: u64,
        body: &[u8],
    ) -> Result<u16, Trouble> {
        use std::io::Write as _;
        self.buffer.clear();
        write!(
            self.buffer,
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {caller}\r\n\
             idempotency-key: \"{key:032x}\"\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )?;
        if body.len() < 4096 {
            self.buffer.extend_from_slice(body);
            self.stream.write_all(&self.buffer).await?;
        } else {
            self.stream.write_all(&self.buffer).await?;
            self.stream.write_all(body).await?;
        }
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server hung up".into());
            }
            if let Some(status) = whole(&self.buffer) {
                return Ok(status);
            }
        }
    }
}

/// The status of an answer that is there as a whole.
fn whole(bytes: &[u8]) -> Option<u16> {
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let length: usize = head.split_once("content-length: ")?.1.split_once("\r\n")?.0.parse().ok()?;
    (bytes.len() >= end + length).then(|| head.get(9..12)?.parse().ok()).flatten()
}
