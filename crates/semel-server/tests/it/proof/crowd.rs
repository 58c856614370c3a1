//! Many who deliver the same events at once, to a function that often fails.

use super::{
    nodes::{Ledger, sums},
    oracle::{Manners, Oracle},
    seed,
    senders::Line,
};
use crate::support::{Proxy, Upstream, soon};
use std::{process::Command, sync::Arc};
use tokio::task::JoinSet;

const EVENTS: usize = 1_000;
const CONNECTIONS: usize = 50;
/// By each connection.
const DELIVERIES: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_deliveries_of_a_thousand_events_are_a_thousand_effects_although_a_third_of_the_calls_fail()
 {
    let seed = seed();
    let oracle = Oracle::new(seed, Manners { failing: 30, held: 0 });
    let calls = Arc::clone(&oracle);
    let target = Upstream::start(move |asked| Arc::clone(&calls).call(asked)).await;
    let directory = tempfile::tempdir().unwrap();
    let file = format!(
        "[[function]]\nname = \"orders\"\nurl = \"http://{}/\"\nretry = \"immediate\"\n",
        target.address
    );
    std::fs::write(directory.path().join("semel.toml"), file).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["serve", "--config", "semel.toml", "--dev", "--listen", "127.0.0.1:0", "--log", "json"]);
    let program = Proxy::spawn(command.current_dir(directory.path()));
    let mut all = JoinSet::new();
    for number in 0..CONNECTIONS {
        let (oracle, address) = (Arc::clone(&oracle), program.address);
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(number as u64));
        all.spawn(async move {
            let line = Line::new();
            let mut fresh = 0;
            for delivery in 0..DELIVERIES {
                // Each event comes at least once: the events are dealt out, and the rest is chance.
                let event = number + delivery * CONNECTIONS;
                let event = if event < EVENTS { event } else { random.usize(..EVENTS) };
                let (status, body) = line.event(address, "order", &event.to_string()).await.unwrap();
                assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
                let receipt: serde_json::Value = serde_json::from_slice(&body).unwrap();
                fresh += usize::from(status == 202);
                assert_eq!(receipt["duplicate"], status == 200, "{receipt}");
                assert_ne!(receipt["functions"][0]["status"], "FAILED", "{receipt}");
            }
            oracle.news.notify_waiters();
            fresh
        });
    }
    let fresh: usize = all.join_all().await.iter().sum();
    assert_eq!(fresh, EVENTS, "each is new once");
    let line = Line::new();
    let ledger = soon("the end of it", async {
        loop {
            let ledger = Ledger::read(&line, program.address).await;
            if ledger.pending + ledger.in_progress == 0 {
                return ledger;
            }
        }
    })
    .await;
    oracle.check();
    let figures = oracle.figures();
    println!("{figures:?}, {ledger:?}");
    assert_eq!((figures.called, figures.done, figures.done_again), (EVENTS, EVENTS, 0), "{figures:?}");
    assert_eq!((ledger.accepted, ledger.completed, ledger.failed), (EVENTS as u64, EVENTS as u64, 0));
    assert!(figures.calls > EVENTS * 12 / 10, "calls failed: {figures:?}");
    let (_, page) = line.get(program.address, "/metrics").await.unwrap();
    let counted = sums(std::str::from_utf8(&page).unwrap(), "");
    assert_eq!(counted["semel_function_attempts_total"], figures.calls as u64, "one attempt is one call");
    assert_eq!(counted["semel_function_duplicate_total"], (CONNECTIONS * DELIVERIES - EVENTS) as u64);
}
