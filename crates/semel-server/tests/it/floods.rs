//! Floods against what both servers listen with: number 20 of the list of hostile inputs. The proxy has the same limits as
//! `semel serve`, and each of these is tried on both.

use super::support::{Client, Proxy, Raw, Upstream, soon};
use http::StatusCode;
use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

/// How both begin: with a frame that says nothing special.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// `GET /` of `a`: by index, and the last two as literals.
const HEAD: [u8; 6] = [0x82, 0x86, 0x84, 0x41, 0x01, b'a'];
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// One of both servers, and where it tells that it is well.
struct Served {
    program: Proxy,
    health: &'static str,
    /// Behind it.
    _upstream: Upstream,
}

impl Served {
    /// Both of them, with these limits and times.
    async fn both(limits: &str, times: &str) -> [Self; 2] {
        let section = |name: &str| format!("[{name}.limits]\n{limits}\n[{name}.timeouts]\n{times}\n");
        let (upstream, function) = (Upstream::echo().await, Upstream::echo().await);
        let proxy = Proxy::with(upstream.address, &section("proxy"));
        let directory = tempfile::tempdir().unwrap();
        let named = format!("[[function]]\nname = \"orders\"\nurl = \"http://{}/\"\n", function.address);
        std::fs::write(directory.path().join("semel.toml"), section("server") + &named).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_semel"));
        command.args(["serve", "--config", "semel.toml", "--dev", "--listen", "127.0.0.1:0"]);
        command.args(["--log", "json", "--store", "memory:"]).current_dir(directory.path());
        let serve = Proxy::spawn(&mut command);
        [
            Self { program: proxy, health: "/.semel/health", _upstream: upstream },
            Self { program: serve, health: "/health", _upstream: function },
        ]
    }

    fn address(&self) -> SocketAddr {
        self.program.address
    }

    /// Whether it answers somebody new, at once.
    async fn answers_others(&self, when: &str) {
        let got = Client::new().get(&self.program.url(self.health)).await;
        assert_eq!(got.status, StatusCode::OK, "{} {when}: {got:?}", self.health);
    }
}

/// Sends this, and then that again and again, until the other side ends the connection; gives the last bytes that came.
async fn flood(address: SocketAddr, begin: Vec<u8>, again: Vec<u8>) -> Vec<u8> {
    let (mut reader, mut writer) = Raw::connect(address).await.0.into_split();
    let writing = tokio::spawn(async move {
        let many = again.repeat(16 * 1024 / again.len().max(1) + 1);
        if writer.write_all(&begin).await.is_ok() {
            while !again.is_empty() && writer.write_all(&many).await.is_ok() {}
        }
        // Who only waits does not end it either.
        std::future::pending::<()>().await;
        drop(writer);
    });
    let mut last = Vec::new();
    let ended = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            last.extend_from_slice(&buffer[..count]);
            last.drain(..last.len().saturating_sub(1024));
        }
    };
    soon("the end of the flood", ended).await;
    writing.abort();
    last
}

/// Every flood, by its name: what it begins with, and what it goes on with.
fn floods() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let mut resets = PREFACE.to_vec();
    for n in 0..2_000 {
        let stream = 2 * n + 1;
        resets.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &HEAD));
        resets.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    let asked = frame(HEADERS, END_STREAM | END_HEADERS, 1, &HEAD);
    let begun = frame(HEADERS, END_STREAM, 1, &HEAD);
    // A header of one letter, as a literal that nobody keeps.
    let line = [0, 1, b'x', 1, b'y'];
    let after = |frames: &[&[u8]]| [PREFACE, &frames.concat()].concat();
    let ping = frame(PING, 0, 0, &[7; 8]);
    let window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]);
    vec![
        ("rapid reset", resets, Vec::new()),
        ("continuation", after(&[&begun]), frame(CONTINUATION, 0, 1, &line)),
        ("empty continuation", after(&[&begun]), frame(CONTINUATION, 0, 1, &[])),
        ("large continuation", after(&[&begun]), frame(CONTINUATION, 0, 1, &line.repeat(3_000))),
        ("settings", after(&[]), frame(SETTINGS, 0, 0, &[])),
        ("settings that change the window", after(&[&asked]), window),
        ("ping", after(&[]), ping.clone()),
        ("ping after a request", after(&[&asked]), ping),
        ("empty data of a stream that is over", after(&[&asked]), frame(DATA, 0, 1, &[])),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_frames_ends_its_connection_and_nothing_else() {
    let times = "first_byte = \"500ms\"\nhead = \"500ms\"\nidle = \"500ms\"\nwrite = \"500ms\"";
    for served in Served::both("", times).await {
        for (name, begin, again) in floods() {
            let flooding = tokio::spawn(flood(served.address(), begin, again));
            served.answers_others(name).await;
            flooding.await.unwrap();
            served.answers_others(name).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_breaks_the_rules_is_told_to_go_away() {
    // Nobody is sent away for being slow.
    let times = "head = \"1h\"\nidle = \"1h\"";
    for served in Served::both("", times).await {
        for (name, begin, again) in floods() {
            if !(name == "rapid reset" || name.ends_with("continuation")) {
                continue;
            }
            let last = flood(served.address(), begin, again).await;
            let is_goaway = |it: &[u8]| it[3..9] == [7, 0, 0, 0, 0, 0];
            // One that was reset while it wrote may have lost what was said last.
            assert!(last.is_empty() || last.windows(9).any(is_goaway), "{name}: {last:?}");
            served.answers_others(name).await;
        }
    }
}

/// A connection from another address of this machine.
async fn connect_from(n: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, n], 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// Whether the other side has ended it.
fn is_over(stream: &TcpStream) -> bool {
    match stream.try_read(&mut [0]) {
        Ok(0) => true,
        Ok(_) => panic!("nothing is said without being asked"),
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_idle_connections_has_the_places_of_its_addresses_and_no_more() {
    const PLACES: usize = 300;
    const EACH: usize = 400;
    let limits = format!("connections_per_ip_max = {PLACES}");
    for served in Served::both(&limits, "first_byte = \"1h\"").await {
        let mut crowd = JoinSet::new();
        for n in 2..7 {
            let to = served.address();
            crowd.spawn(async move {
                let mut all = Vec::new();
                for _ in 0..EACH {
                    all.push(connect_from(n, to).await);
                }
                // Those that have no place are closed, one after the other.
                let left = async {
                    while all.iter().filter(|it| is_over(it)).count() < EACH - PLACES {
                        tokio::task::yield_now().await;
                    }
                };
                soon("the end of those that have no place", left).await;
                all
            });
        }
        let crowd: Vec<_> = crowd.join_all().await.into_iter().flatten().collect();
        assert_eq!(crowd.len(), 5 * EACH);
        served.answers_others("beside a crowd").await;
        let over = crowd.iter().filter(|it| is_over(it)).count();
        assert_eq!(over, 5 * (EACH - PLACES), "{}: nobody else was sent away", served.health);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_come_and_go_leave_nothing_behind() {
    for served in Served::both("connections_per_ip_max = 64", "").await {
        let mut crowd = JoinSet::new();
        for n in 2..6 {
            let to = served.address();
            crowd.spawn(async move {
                for round in 0..1_000 {
                    let mut stream = connect_from(n, to).await;
                    // Some say something first, and do not wait for the answer.
                    if round % 2 == 0 {
                        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
                    }
                }
            });
        }
        for _ in 0..20 {
            served.answers_others("while others come and go").await;
        }
        crowd.join_all().await;
        // Their places are free again.
        for n in 2..6 {
            let answered = async {
                loop {
                    let mut stream = connect_from(n, served.address()).await;
                    let asked =
                        format!("GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", served.health);
                    let mut got = Vec::new();
                    // One that has no place yet is closed.
                    let _ = stream.write_all(asked.as_bytes()).await;
                    let _ = stream.read_to_end(&mut got).await;
                    if got.starts_with(b"HTTP/1.1 200 OK") {
                        return;
                    }
                }
            };
            soon("a place", answered).await;
        }
    }
}
