//! Programs that are not ours.

use crate::support::{Client, PATIENCE, soon};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tokio::task::JoinHandle;

/// Where Python finds its packages; set by `cargo xtask`, as `SEMEL_TEST_NODE_PATH` for Node.
const PYTHON_PATH: &str = "SEMEL_TEST_PYTHONPATH";

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients").join(name)
}

/// The interpreter of a script.
fn interpreter(name: &str) -> Command {
    if let Some((_, "mjs")) = name.rsplit_once('.') {
        return Command::new("node");
    }
    let mut python = Command::new("python3");
    let path = std::env::var_os(PYTHON_PATH);
    let path = path.unwrap_or_else(|| panic!("`{PYTHON_PATH}` is not set: run `cargo xtask clients`"));
    python.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

/// A service that runs until this is dropped.
pub(super) struct Service {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Service {
    pub(super) fn start(name: &str) -> Self {
        let mut command = interpreter(name);
        let mut child =
            command.arg(script(name)).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().unwrap();
        Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// Resolves when so many POSTs came.
    pub(super) async fn counts(&self, count: u64) {
        let came = async {
            while self.count().await < count {
                tokio::task::yield_now().await;
            }
        };
        soon("the service is called", came).await;
    }

    /// How many POSTs came.
    pub(super) async fn count(&self) -> u64 {
        let got = Client::new().get(&format!("http://{}/count", self.address)).await;
        serde_json::from_slice::<Value>(&got.body).unwrap()["count"].as_u64().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a client to its end, and reads what it says.
pub(super) async fn client(name: &'static str, url: &str, key: &str, timeout: &str) -> Value {
    said(name, &[url, key, timeout]).await
}

/// Runs a script to its end, and reads what it says.
pub(super) async fn said(name: &'static str, arguments: &[&str]) -> Value {
    let mut command = interpreter(name);
    command.arg(script(name)).args(arguments).stdin(Stdio::null());
    let running = tokio::task::spawn_blocking(move || output(&mut command));
    let said = soon("the client's end", running).await.unwrap();
    serde_json::from_str(said.trim()).unwrap()
}

/// Many requests at once, and what each was answered; however long that takes.
pub(super) fn crowd(name: &'static str, url: &str, key: &str, count: usize) -> JoinHandle<Vec<Value>> {
    let mut command = interpreter(name);
    command.arg(script(name)).args([url, key, &count.to_string()]).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || serde_json::from_str(&output(&mut command)).unwrap())
}

/// Many requests at once by curl, and what each was answered.
pub(super) fn crowd_of_curl(url: &str, key: &str, count: usize) -> JoinHandle<Vec<Value>> {
    let one = format!(
        "url = \"{url}\"\ndata = \"{{\\\"amount\\\":100}}\"\nheader = \"Content-Type: application/json\"\n\
         header = \"Idempotency-Key: \\\"{key}\\\"\"\nheader = \"Authorization: Bearer ann\"\nsilent\nshow-error\nfail\n\
         retry = 60\nretry-all-errors\n"
    );
    tokio::task::spawn_blocking(move || {
        let directory = tempfile::tempdir().unwrap();
        let each = |n| format!("{one}output = \"{n}\"\ndump-header = \"{n}.head\"\n");
        std::fs::write(directory.path().join("all"), (0..count).map(each).collect::<Vec<_>>().join("next\n"))
            .unwrap();
        let mut command = Command::new("curl");
        let parallel =
            ["--parallel", "--parallel-immediate", "--parallel-max", &count.to_string(), "-K", "all"];
        output(command.args(parallel).current_dir(directory.path()));
        let answer = |n: usize| {
            let read = |name: String| std::fs::read_to_string(directory.path().join(name)).unwrap();
            let head = read(format!("{n}.head")).to_ascii_lowercase();
            let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
            let replayed = head.contains("\r\nidempotency-replayed: true\r\n").then_some("true");
            json!({"status": status, "body": read(n.to_string()), "replayed": replayed})
        };
        (0..count).map(answer).collect()
    })
}

/// What a command prints that ends well.
fn output(command: &mut Command) -> String {
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}: {said}{complaint}", command.get_program().display());
    said
}

/// What curl prints.
pub(super) fn curl(arguments: &[&str]) -> String {
    let patience = PATIENCE.as_secs().to_string();
    let ended = Command::new("curl").args(["-sS", "--max-time", &patience]).args(arguments).output().unwrap();
    assert!(ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}
