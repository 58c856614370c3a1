//! `kill -9` under load, hundreds of times, with an oracle outside of the process.
//!
//! 1. A child process works on a directory through [`Once`], and tells each start of a handler and each
//!    acknowledged completion through a pipe, as it happens.
//! 2. This process kills it at a random moment, starts the next, and compares: nothing that was acknowledged
//!    runs again or has another result, fences only grow, and no dead handler's lease is in the way.

use semel::{ErrorKind, OnBusy, Once};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

const CHILD: &str = "SEMEL_KILL_CHILD";
const KILLS: u32 = 250;
const CALLERS: u64 = 24;
const KEYS_PER_LIFE: u64 = 400;

/// Does nothing, unless it was started by the test below.
#[test]
fn child() {
    let Ok(life) = std::env::var(CHILD) else { return };
    let (directory, life) = life.split_once('@').expect("a directory and a number");
    let life: u64 = life.parse().expect("a number");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(Path::new(directory), life));
}

async fn work(directory: &Path, life: u64) {
    let once = Once::open(directory).await.expect("a killed process leaves a store that opens");
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let once = once.clone();
        tasks.spawn(async move {
            let mut random = fastrand::Rng::with_seed(life << 8 | caller);
            for _ in 0..KEYS_PER_LIFE {
                // Mostly keys of this life, some of the ones before.
                let back = if random.u8(..4) == 0 { random.u64(..3) } else { 0 };
                one_call(&once, life.saturating_sub(back) * 1_000 + random.u64(..KEYS_PER_LIFE), &mut random)
                    .await;
            }
        });
    }
    tasks.join_all().await;
}

async fn one_call(once: &Once, number: u64, random: &mut fastrand::Rng) {
    let yields = random.u8(..4);
    let call = once.call("kill", number).lease(Duration::from_hours(1)).on_busy(OnBusy::Reject);
    let result: Result<u64, _> = call
        .run(async |lease| {
            tell(&format!("start {number} {}", lease.fence()));
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            Ok(lease.fence().get())
        })
        .await;
    match result {
        Ok(value) => tell(&format!("done {number} {value}")),
        Err(error) if matches!(error.kind(), ErrorKind::InProgress { .. }) => {}
        Err(error) => tell(&format!("error {number} {error}")),
    }
}

/// One write of one line, straight to the pipe: it is told even if the process dies right after.
fn tell(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("the parent listens");
}

fn spawn(directory: &Path, life: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["kill::child", "--exact", "--nocapture"])
        .env(CHILD, format!("{}@{life}", directory.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[derive(Default)]
struct Oracle {
    done: HashMap<u64, u64>,
    fences: HashMap<u64, u64>,
    starts: u64,
    replays: u64,
}

impl Oracle {
    fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (word, number) = (words.next(), words.next().and_then(|it| it.parse::<u64>().ok()));
        let (Some(word @ ("start" | "done")), Some(number)) = (word, number) else {
            panic!("the child said: {line}")
        };
        let value: u64 = words.next().and_then(|it| it.parse().ok()).expect("a number");
        if word == "start" {
            assert!(!self.done.contains_key(&number), "{number} was acknowledged, and runs again");
            let before = self.fences.insert(number, value);
            assert!(before < Some(value), "{number} ran under fence {before:?}, then under {value}");
            self.starts += 1;
        } else if let Some(before) = self.done.insert(number, value) {
            assert_eq!(before, value, "{number} was acknowledged with another result");
            self.replays += 1;
        }
    }
}

#[test]
fn nothing_that_was_acknowledged_runs_again_after_any_kill() {
    let directory = tempfile::tempdir().unwrap();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut oracle = Oracle::default();
    for life in 0..KILLS {
        let mut child = spawn(directory.path(), life);
        let lines = BufReader::new(child.stderr.take().unwrap());
        let (sender, receiver) = mpsc::channel();
        let reader = thread::spawn(move || {
            lines.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        // Some die while they open the store, most under load: after a random number of lines.
        for _ in 0..random.u32(..200) {
            match receiver.recv() {
                Ok(line) => oracle.hear(&line),
                Err(_) => break,
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap();
        for line in receiver.try_iter() {
            oracle.hear(&line);
        }
    }
    let Oracle { done, starts, replays, .. } = &oracle;
    println!("{KILLS} kills, {starts} starts, {} completions, {replays} replays", done.len());
    assert!(*starts > 2_000 && done.len() > 1_000 && *replays > 100, "the load must be worth the name");
    let interrupted = starts - done.len() as u64;
    assert!(interrupted > 100, "kills must hit running handlers, but only {interrupted} did");
}
