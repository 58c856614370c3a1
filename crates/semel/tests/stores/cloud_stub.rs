//! An HTTP server that answers as it is told, for what an emulator cannot be made to do.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

/// A server on a loopback port, until the tests end.
pub(crate) struct Stub {
    /// Where it listens: `127.0.0.1:port`.
    pub(crate) address: String,
    requests: Arc<AtomicU32>,
}

impl Stub {
    /// Answers every request with this status and body.
    pub(crate) fn answering(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::deciding(move |_| (status, body.clone()))
    }

    /// Answers every request with the status and the body that are chosen for it.
    pub(crate) fn deciding(choose: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> Self {
        Self::listening(move |request| {
            let (status, body) = choose(&String::from_utf8_lossy(request));
            Some(response(status, "", &body))
        })
    }

    /// Answers every request with this body, at this time.
    #[cfg(feature = "dynamodb")]
    pub(crate) fn dated(date: &str, body: &'static str) -> Self {
        let date = format!("date: {date}\r\n");
        Self::listening(move |_| Some(response(200, &date, body)))
    }

    /// Passes every request on, and hangs up instead of passing back the reply to the first so many whose head or
    /// body contains this.
    pub(crate) fn losing_replies(target: &str, count: u32, containing: &'static str) -> Self {
        let (target, lost) = (target.to_owned(), AtomicU32::new(0));
        Self::listening(move |request| {
            let mut server = TcpStream::connect(&target).unwrap();
            server.write_all(request).unwrap();
            let reply = message(&mut BufReader::new(server)).unwrap();
            let is_one = String::from_utf8_lossy(request).contains(containing);
            if is_one && lost.fetch_add(1, Ordering::SeqCst) < count { None } else { Some(reply) }
        })
    }

    fn listening(answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(AtomicU32::new(0));
        let (counted, answer) = (Arc::clone(&requests), Arc::new(answer));
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (counted, answer) = (Arc::clone(&counted), Arc::clone(&answer));
                thread::spawn(move || serve(&connection.unwrap(), &counted, &*answer));
            }
        });
        Self { address, requests }
    }

    /// How many requests came.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }
}

fn response(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}"
    );
    format!("{head}connection: close\r\n\r\n{body}").into_bytes()
}

/// Posts JSON to a server, and gives the body of its reply.
#[cfg(feature = "firestore")]
pub(crate) fn post(host: &str, path: &str, body: &str) -> String {
    let mut server = TcpStream::connect(host).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n");
    // The emulator asks nobody who has this token.
    let head = format!("{head}authorization: Bearer owner\r\ncontent-length: {}\r\n\r\n", body.len());
    server.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let reply = String::from_utf8(message(&mut BufReader::new(server)).unwrap()).unwrap();
    reply.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Answers what comes over one connection, until one side has enough.
fn serve(connection: &TcpStream, counted: &AtomicU32, answer: &dyn Fn(&[u8]) -> Option<Vec<u8>>) {
    let mut reader = BufReader::new(connection);
    while let Some(request) = message(&mut reader) {
        counted.fetch_add(1, Ordering::SeqCst);
        let Some(reply) = answer(&request) else { return };
        let mut writer = connection;
        if writer.write_all(&reply).is_err() {
            return;
        }
    }
}

/// Reads one message, head and body; `None` if the other side hung up.
fn message(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    loop {
        let start = bytes.len();
        reader.read_until(b'\n', &mut bytes).ok()?;
        let line = String::from_utf8_lossy(&bytes[start..]).to_ascii_lowercase();
        match line.strip_prefix("content-length:") {
            Some(it) => length = it.trim().parse().unwrap(),
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    if bytes.is_empty() {
        return None;
    }
    reader.take(length).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
