//! A node that stands still for longer than its leases, and goes on as if nothing had happened.

use super::super::{nodes::sums, senders::Line};
use crate::support::{Answer, Asked, Gate, PATIENCE, Proxy, Upstream, answer};
use semel_testkit::servers;
use std::{collections::HashMap, net::SocketAddr, path::Path, process::Command, time::Instant};

const EVENTS: usize = 20;

fn spawn(directory: &Path, store: &str) -> Proxy {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["serve", "--config", "semel.toml", "--dev", "--listen", "127.0.0.1:0", "--log", "json"]);
    command.args(["--store", store]).current_dir(directory);
    tokio::task::block_in_place(|| Proxy::spawn(&mut command))
}

async fn counted(line: &Line, to: SocketAddr) -> HashMap<String, u64> {
    let (_, page) = line.get(to, "/metrics").await.unwrap();
    sums(std::str::from_utf8(&page).unwrap(), "")
}

/// Until a node counts so many.
async fn counts(line: &Line, to: SocketAddr, name: &str, wanted: usize) {
    let since = Instant::now();
    loop {
        let counted = counted(line, to).await;
        if counted[name] >= wanted as u64 {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{name} does not come: {counted:?}");
    }
}

/// Keeps first attempts waiting, and takes all others.
async fn second_time_lucky(gate: Gate, asked: Asked) -> Answer {
    if asked.header("semel-attempt") == ["1"] {
        gate.pass().await;
    }
    answer(200, "")
}

/// F12: what it did meanwhile is refused by its fence, and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_frozen_for_longer_than_its_leases_writes_nothing_over_what_another_did() {
    let gate = Gate::closed();
    let held = gate.clone();
    let target = Upstream::start(move |asked| second_time_lucky(held.clone(), asked)).await;
    let (database, directory) = (servers::postgres().await, tempfile::tempdir().unwrap());
    // Long enough for all of them to be sent before the first is given up.
    let file = format!(
        "[[function]]\nname = \"orders\"\nurl = \"http://{}/\"\nretry = \"immediate\"\ntimeout = \"5s\"\n",
        target.address
    );
    std::fs::write(directory.path().join("semel.toml"), file).unwrap();
    let frozen = spawn(directory.path(), &database.url);
    let line = Line::new();
    for id in 0..EVENTS {
        let (status, _) = line.event(frozen.address, "order", &id.to_string()).await.unwrap();
        assert_eq!(status, 202);
    }
    target.heard(EVENTS).await;
    frozen.freeze();
    // Answered with success, which it will read when it goes on.
    gate.open(EVENTS);
    let other = spawn(directory.path(), &database.url);
    counts(&line, other.address, "semel_function_completed_total", EVENTS).await;
    let fences = fences(&target.heard(2 * EVENTS).await);
    frozen.signal("CONT");
    counts(&line, frozen.address, "semel_function_superseded_total", EVENTS).await;
    for node in [&frozen, &other] {
        let counted = counted(&line, node.address).await;
        assert_eq!(counted["semel_executions COMPLETED"], EVENTS as u64, "{counted:?}");
        assert_eq!(counted["semel_executions PENDING"] + counted["semel_executions IN_PROGRESS"], 0);
    }
    assert_eq!(counted(&line, frozen.address).await["semel_function_completed_total"], 0, "it wrote nothing");
    assert_eq!(target.calls(), 2 * EVENTS, "nobody is called a third time");
    assert!(
        fences.values().all(|it| it.len() == 2 && it[0] < it[1]),
        "the second has the newer fence: {fences:?}"
    );
    for id in 0..EVENTS {
        let (status, body) = line.event(frozen.address, "order", &id.to_string()).await.unwrap();
        let receipt: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status.as_u16(), &receipt["functions"][0]["status"]), (200, &"COMPLETED".into()));
    }
}

/// The fences of each event, in the order of its calls.
fn fences(calls: &[Asked]) -> HashMap<String, Vec<u64>> {
    let mut fences = HashMap::<String, Vec<u64>>::new();
    for call in calls {
        let fence = call.header("semel-fence").join("").parse().unwrap();
        fences.entry(call.header("ce-id").join("")).or_default().push(fence);
    }
    fences
}
