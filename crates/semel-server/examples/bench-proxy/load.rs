//! Clients that ask, read the answer, and ask again.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

/// What is asked.
pub(crate) struct Load {
    pub(crate) name: String,
    request: Vec<u8>,
}

impl Load {
    pub(crate) fn get() -> Self {
        let request = "GET /pets/7?verbose=1 HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\
                       Authorization: Bearer 0123456789abcdef\r\nAccept-Encoding: gzip\r\n\r\n";
        Self { name: "GET".to_owned(), request: request.as_bytes().to_vec() }
    }

    pub(crate) fn post(bytes: usize) -> Self {
        let head = format!(
            "POST /pets HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\
             Authorization: Bearer 0123456789abcdef\r\nContent-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n"
        );
        let request = [head.as_bytes(), &vec![b'x'; bytes]].concat();
        Self { name: format!("POST of {} KiB", bytes / 1024), request }
    }
}

/// How many requests a second are answered.
pub(crate) async fn measure(
    load: &Load,
    address: SocketAddr,
    connections: usize,
    turn: Duration,
) -> io::Result<f64> {
    let (count, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let request: Arc<[u8]> = load.request.as_slice().into();
    let mut clients = JoinSet::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        clients.spawn(ask(stream, Arc::clone(&request), Arc::clone(&count), Arc::clone(&is_over)));
    }
    let since = Instant::now();
    tokio::time::sleep(turn).await;
    let (answered, took) = (count.load(Ordering::Relaxed), since.elapsed());
    is_over.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(answered as f64 / took.as_secs_f64())
}

async fn ask(
    mut stream: TcpStream,
    request: Arc<[u8]>,
    count: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
) -> io::Result<()> {
    let mut read = Vec::with_capacity(4096);
    // Every answer is as long as the first one.
    let mut length = None;
    while !is_over.load(Ordering::Relaxed) {
        stream.write_all(&request).await?;
        read.clear();
        loop {
            if stream.read_buf(&mut read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            length = length.or_else(|| whole(&read));
            if length.is_some_and(|it| read.len() >= it) {
                break;
            }
        }
        if !read.starts_with(b"HTTP/1.1 200") {
            return Err(io::Error::other(String::from_utf8_lossy(&read).into_owned()));
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// How long an answer is that begins so.
fn whole(read: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(read).ok()?;
    let (head, _) = text.split_once("\r\n\r\n")?;
    let length = head
        .lines()
        .find_map(|it| it.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok())?;
    Some(head.len() + 4 + length)
}
