//! Functions that harm, and what stands beside them.

use super::{nodes::sums, senders::Line};
use crate::support::{Answer, Asked, Proxy, Upstream, answer, soon};
use serde_json::Value;
use std::{
    collections::HashMap,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::sync::mpsc;

fn start(directory: &Path, functions: &[(&str, &Upstream, &str)]) -> Proxy {
    let function = |(name, target, more): &(&str, &Upstream, &str)| {
        format!(
            "[[function]]\nname = \"{name}\"\nurl = \"http://{}/\"\nretry = \"immediate\"\nattempts_max = 5\n\
             filter = {{ type = \"{name}\" }}\n{more}",
            target.address
        )
    };
    let file: String = functions.iter().map(function).collect();
    std::fs::write(directory.join("semel.toml"), file).unwrap();
    spawn(directory)
}

fn spawn(directory: &Path) -> Proxy {
    spawn_with(directory, &["--dev"])
}

fn spawn_with(directory: &Path, more: &[&str]) -> Proxy {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["serve", "--config", "semel.toml", "--listen", "127.0.0.1:0", "--log", "json"]).args(more);
    command.current_dir(directory);
    tokio::task::block_in_place(|| Proxy::spawn(&mut command))
}

/// Where an event stands, by sending it again.
async fn status(line: &Line, to: SocketAddr, function: &str, id: &str) -> String {
    let (status, body) = line.event(to, function, id).await.unwrap();
    assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    let receipt: Value = serde_json::from_slice(&body).unwrap();
    receipt["functions"][0]["status"].as_str().unwrap_or("NEW").to_owned()
}

/// Until an event stands there.
async fn stands(line: &Line, to: SocketAddr, function: &str, id: &str, wanted: &str) {
    soon(wanted, async { while status(line, to, function, id).await != wanted {} }).await;
}

async fn counted(line: &Line, to: SocketAddr, label: &str) -> HashMap<String, u64> {
    let (_, page) = line.get(to, "/metrics").await.unwrap();
    sums(std::str::from_utf8(&page).unwrap(), label)
}

async fn nothing(_: Asked) -> Answer {
    std::future::pending().await
}

/// F15 and invariant 23: a target that hangs keeps its own places, and nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn beside_a_function_that_hangs_all_events_of_another_are_completed() {
    const EVENTS: usize = 500;
    let (hanging, healthy) = (Upstream::start(nothing).await, Upstream::echo().await);
    let directory = tempfile::tempdir().unwrap();
    let program = start(directory.path(), &[("hanging", &hanging, ""), ("healthy", &healthy, "")]);
    let line = Line::new();
    for id in 0..EVENTS {
        let id = id.to_string();
        for function in ["hanging", "healthy"] {
            assert_eq!(line.event(program.address, function, &id).await.unwrap().0, 202);
        }
    }
    for id in 0..EVENTS {
        stands(&line, program.address, "healthy", &id.to_string(), "COMPLETED").await;
    }
    let hanging = counted(&line, program.address, "\"hanging\"").await;
    assert_eq!(hanging["semel_executions COMPLETED"], 0);
    assert!(hanging["semel_function_in_flight"] > 0, "it hangs still: {hanging:?}");
    assert_eq!(healthy.calls(), EVENTS);
}

/// What a function never takes ends as a dead letter after its attempts, and nobody else is touched.
#[tokio::test(flavor = "multi_thread")]
async fn what_always_fails_ends_as_a_dead_letter_after_its_attempts_and_the_server_goes_on() {
    const EVENTS: usize = 50;
    // Somebody who says so often that he is in trouble is left alone for a while: one of them does.
    let failing = Upstream::start(async |asked: Asked| {
        let is_in_trouble = asked.header("ce-id") == ["0"];
        answer(if is_in_trouble { 500 } else { 409 }, "no")
    })
    .await;
    let healthy = Upstream::echo().await;
    let directory = tempfile::tempdir().unwrap();
    let program = start(directory.path(), &[("failing", &failing, ""), ("healthy", &healthy, "")]);
    let line = Line::new();
    for id in 0..EVENTS {
        let id = id.to_string();
        for function in ["failing", "healthy"] {
            assert_eq!(line.event(program.address, function, &id).await.unwrap().0, 202);
        }
    }
    for id in 0..EVENTS {
        stands(&line, program.address, "healthy", &id.to_string(), "COMPLETED").await;
    }
    for id in 0..EVENTS {
        stands(&line, program.address, "failing", &id.to_string(), "FAILED").await;
    }
    assert_eq!(failing.calls(), EVENTS * 5, "five attempts for each, and no more");
    let dead = counted(&line, program.address, "function=\"failing\",reason=\"exhausted\"").await;
    assert_eq!(dead["semel_executions_failed"], EVENTS as u64);
}

/// F14 and invariant 17: an event during whose attempts the server dies. Attempts are counted before they begin.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_kills_the_server_at_every_attempt_is_a_dead_letter_after_five() {
    let (told, mut calls) = mpsc::unbounded_channel();
    let deadly = Upstream::start(move |asked: Asked| {
        told.send(asked.header("semel-attempt").join("")).unwrap();
        nothing(asked)
    })
    .await;
    let healthy = Upstream::echo().await;
    let directory = tempfile::tempdir().unwrap();
    let functions = [("deadly", &deadly, "timeout = \"1s\"\n"), ("healthy", &healthy, "")];
    let mut program = start(directory.path(), &functions);
    let line = Line::new();
    assert_eq!(line.event(program.address, "deadly", "poison").await.unwrap().0, 202);
    let sent = AtomicUsize::new(0);
    for attempt in 1..=5 {
        let call = soon("the attempt, when the lease of the last has lapsed", calls.recv()).await.unwrap();
        assert_eq!(call, attempt.to_string());
        tokio::task::block_in_place(|| program.kill());
        program = spawn(directory.path());
        let id = sent.fetch_add(1, Ordering::Relaxed).to_string();
        assert_eq!(line.event(program.address, "healthy", &id).await.unwrap().0, 202);
        stands(&line, program.address, "healthy", &id, "COMPLETED").await;
    }
    stands(&line, program.address, "deadly", "poison", "FAILED").await;
    assert_eq!(deadly.calls(), 5, "there is no sixth");
    let dead = counted(&line, program.address, "function=\"deadly\",reason=\"exhausted\"").await;
    assert_eq!(dead["semel_executions_failed"], 1);
}

/// F18: a crash uses up an attempt of everything that is held, so a server that keeps crashing holds less each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_again_and_again_holds_less_each_time_and_then_waits() {
    const EVENTS: usize = 30;
    let hanging = Upstream::start(nothing).await;
    let directory = tempfile::tempdir().unwrap();
    let file = format!(
        "[server.limits]\nin_flight_max = 8\n[guard]\nloopback = true\n[[function]]\nname = \"hanging\"\nurl = \"http://{}/\"\n",
        hanging.address
    );
    std::fs::write(directory.path().join("semel.toml"), file).unwrap();
    let mut program = spawn_with(directory.path(), &[]);
    let line = Line::new();
    for id in 0..EVENTS {
        assert_eq!(line.event(program.address, "any", &id.to_string()).await.unwrap().0, 202);
    }
    let mut called = 0;
    // A lone function may not hold all of it: something is left for one that is yet to come.
    for held in [6, 3, 2, 1] {
        called += held;
        hanging.called(called).await;
        let counts = counted(&line, program.address, "\"hanging\"").await;
        assert_eq!((counts["semel_function_in_flight"], hanging.calls()), (held as u64, called));
        tokio::task::block_in_place(|| program.kill());
        program = spawn_with(directory.path(), &[]);
    }
    let waits = program.event("it crashes again and again: it waits before it starts");
    assert_eq!(waits["wait"], "1s", "{waits}");
}
