//! The program itself, started and ended.

use super::PATIENCE;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// What a command that ended said.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program to its end.
pub(crate) fn semel(directory: &Path, arguments: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_semel"))
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A proxy that runs until this is dropped.
pub(crate) struct Proxy {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    lines: Arc<Mutex<Vec<String>>>,
    news: Mutex<Receiver<()>>,
}

impl Proxy {
    /// In front of this upstream, with records in memory.
    pub(crate) fn before(upstream: SocketAddr) -> Self {
        Self::with(upstream, "")
    }

    /// In front of this upstream, with records in memory, and this in its file.
    pub(crate) fn with(upstream: SocketAddr, config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::start(directory.path(), upstream, config, &["--store", "memory:"])
    }

    /// In front of this upstream, in this directory, with this in its file and these arguments.
    pub(crate) fn start(directory: &Path, upstream: SocketAddr, config: &str, arguments: &[&str]) -> Self {
        std::fs::write(directory.join("semel.toml"), config).unwrap();
        let upstream = format!("http://{upstream}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
        command.args(["proxy", "--config", "semel.toml", "--log", "json"]);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(["--upstream", &upstream]).args(arguments).current_dir(directory);
        Self::spawn(&mut command)
    }

    /// As this command says.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (told, news) = channel();
        let kept = Arc::clone(&lines);
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
                // Nobody may be listening any more.
                let _ = told.send(());
            }
        });
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut proxy = Self { child, address: nowhere, admin: None, lines, news: Mutex::new(news) };
        let listening = proxy.event("listening");
        proxy.address = listening["address"].as_str().unwrap().parse().unwrap();
        proxy.admin = listening["admin"].as_str().map(|it| it.parse().unwrap());
        proxy
    }

    /// The first event of this name, when it comes.
    pub(crate) fn event(&self, name: &str) -> Value {
        self.events_when(|events| events.iter().any(|it| it["event"] == name))
            .into_iter()
            .find(|it| it["event"] == name)
            .unwrap()
    }

    /// All events of this name, when there are so many.
    pub(crate) fn events(&self, name: &str, count: usize) -> Vec<Value> {
        let named =
            |events: &[Value]| events.iter().filter(|it| it["event"] == name).cloned().collect::<Vec<_>>();
        named(&self.events_when(|events| named(events).len() >= count))
    }

    fn events_when(&self, is_enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let since = Instant::now();
        let news = self.news.lock().unwrap();
        loop {
            let text = self.log();
            let events: Vec<_> = text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
            if is_enough(&events) {
                return events;
            }
            assert!(since.elapsed() < PATIENCE, "it does not say so; it said:\n{text}");
            if let Err(error) = news.recv_timeout(Duration::from_secs(1)) {
                let is_over = error == std::sync::mpsc::RecvTimeoutError::Disconnected;
                assert!(!is_over, "it ended; it said:\n{}", self.log());
            }
        }
    }

    /// Everything that it has written so far.
    pub(crate) fn log(&self) -> String {
        let lines = self.lines.lock().unwrap();
        lines.iter().flat_map(|it| [it.as_str(), "\n"]).collect()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Freezes it. The signal only asks for that: each of its threads stops when it sees it.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
        let since = Instant::now();
        while !is_frozen(self.id()) {
            assert!(since.elapsed() < PATIENCE, "it does not stand still");
            thread::yield_now();
        }
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// How it ended, when it has.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "it does not end; it said:\n{}", self.log());
            thread::yield_now();
            // Another process's end cannot be waited for and given up at once.
            thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether all threads of a process stand still.
fn is_frozen(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.map(|it| it.unwrap().path().join("stat")).all(|stat| {
        // `12 (a name) T …`, and the name may have anything in it. A thread that ended meanwhile is no trouble.
        let text = std::fs::read_to_string(stat).unwrap_or_default();
        text.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}
