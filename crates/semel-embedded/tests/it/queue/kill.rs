//! `kill -9` of a process that works on a queue, with an oracle outside of it.
//!
//! 1. A child accepts, claims and completes, and tells each answer through a pipe, as it comes.
//! 2. This process kills it at a random moment, opens the directory itself, and compares: what was accepted is
//!    there, what was completed is and never starts again, each attempt that was handed out is counted, fences
//!    only grow, and the counters are balanced.

use semel::SystemClock;
use semel_core::{
    execution::{Arrival, Execution, Input, Origin, step},
    fingerprint::Fingerprint,
    key::Key,
    queue::{Change, Demand, Queue, Want, Written},
    record::{Body, Holder, Status},
    retry::{Jitter, RetryPolicy},
    time::Timestamp,
};
use semel_embedded::{EmbeddedQueue, Options};
use std::{
    collections::{HashMap, HashSet},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

const CHILD: &str = "SEMEL_QUEUE_KILL_CHILD";
const KILLS: u64 = 60;
const CALLERS: u64 = 12;
const FUNCTION: &str = "killed";

fn open(directory: &Path) -> EmbeddedQueue {
    // So small that executions move through every stage.
    let options = Options { segment_bytes: 32 << 10, flush_segments: 2, backlog_segments_max: 8 };
    let builder = EmbeddedQueue::builder(directory, Arc::new(SystemClock::new())).options(options);
    builder.open().expect("a killed process leaves a queue that opens")
}

fn event(number: u64, now: Timestamp) -> Execution {
    let arrival = Arrival {
        key: Key::new(FUNCTION, number).unwrap(),
        function: FUNCTION.into(),
        origin: Origin { source: "/kill".into(), id: number.to_string().into(), kind: "kill".into() },
        order: number.is_multiple_of(5).then(|| format!("order {}", number % 3).into()),
        fingerprint: Fingerprint::of_bytes(&number.to_le_bytes()),
        event: vec![b'x'; number as usize % 900].into(),
        event_time: None,
        event_expires_at: None,
    };
    Execution::accepted(now, arrival, now)
}

/// Does nothing, unless it was started by the test below.
#[test]
fn child() {
    let Ok(life) = std::env::var(CHILD) else { return };
    let (directory, life) = life.split_once('@').expect("a directory and a number");
    let life: u64 = life.parse().expect("a number");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let queue = Arc::new(open(Path::new(directory)));
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..CALLERS {
            let queue = Arc::clone(&queue);
            tasks.spawn(async move {
                let mut random = fastrand::Rng::with_seed(life << 8 | caller);
                for _ in 0..10_000 {
                    if random.bool() {
                        accept(&queue, life, &mut random).await
                    } else {
                        work(&queue, &mut random).await
                    }
                }
            });
        }
        tasks.join_all().await;
    });
}

/// One write of one line, straight to the pipe: it is told even if the process dies right after.
fn tell(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("the parent listens");
}

async fn accept(queue: &EmbeddedQueue, life: u64, random: &mut fastrand::Rng) {
    let now = queue.clock().now();
    // Mostly events of this life, some of the ones before.
    let life = life.saturating_sub(if random.u8(..4) == 0 { random.u64(..3) } else { 0 });
    let numbers: Vec<u64> = (0..random.u64(1..6)).map(|_| life * 1_000 + random.u64(..1_000)).collect();
    let new: Vec<Execution> = numbers.iter().map(|it| event(*it, now)).collect();
    let answers = queue.accept(&new).await.expect("the queue accepts");
    assert_eq!(answers.len(), new.len());
    numbers.iter().for_each(|it| tell(&format!("accepted {it} 0 0")));
}

async fn work(queue: &EmbeddedQueue, random: &mut fastrand::Rng) {
    // Some leases lapse at once, so that executions are taken over.
    let lease = if random.u8(..4) == 0 { Duration::ZERO } else { Duration::from_hours(1) };
    let want = Want { function: FUNCTION.into(), limit: random.u32(1..4), lease };
    let demand = Demand { holder: Holder(random.u128(..)), wants: vec![want] };
    for held in queue.claim(&demand).await.expect("the queue hands out") {
        let number = &held.value.origin.id;
        tell(&format!("start {number} {} {}", held.value.attempts, held.fence));
        let now = queue.clock().now();
        let body = Body::Kept { bytes: b"done".to_vec(), until: now };
        let after =
            step(now, &held.value, Input::Complete(body), &RetryPolicy::gen2(), Jitter::LEAST).unwrap();
        let change = Change { expected: held.fence, after, causes: Vec::new() };
        match queue.write(&[change]).await.expect("the queue writes")[..] {
            [Written::Won(fence)] => tell(&format!("done {number} 0 {fence}")),
            [Written::Lost] => {}
            ref other => panic!("one change has one answer, not {other:?}"),
        }
    }
}

#[derive(Default)]
struct Oracle {
    accepted: HashSet<u64>,
    done: HashSet<u64>,
    attempts: HashMap<u64, u32>,
    fences: HashMap<u64, u64>,
    starts: u64,
    takeovers: u64,
}

impl Oracle {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [word @ ("accepted" | "start" | "done"), number, attempt, fence] = words[..] else {
            panic!("the child said: {line}")
        };
        let number: u64 = number.parse().expect("a number");
        let (attempt, fence): (u32, u64) =
            (attempt.parse().expect("a number"), fence.parse().expect("a number"));
        match word {
            "accepted" => drop(self.accepted.insert(number)),
            "start" => {
                assert!(!self.done.contains(&number), "{number} was completed, and starts again");
                let before = self.attempts.insert(number, attempt).unwrap_or_default();
                assert!(before < attempt, "attempt {attempt} of {number} came after {before}");
                self.starts += 1;
                self.takeovers += u64::from(attempt > 1);
            }
            _ => drop(self.done.insert(number)),
        }
        if fence > 0 {
            let before = self.fences.insert(number, fence);
            assert!(before < Some(fence), "{number} had fence {before:?}, then {fence}");
        }
    }

    /// Compares with what is in the directory.
    async fn check(&self, queue: &EmbeddedQueue) {
        for number in &self.accepted {
            let id = event(*number, Timestamp::EPOCH).id();
            let found = queue.get(&[id]).await.expect("the queue answers").remove(0);
            let found = found.unwrap_or_else(|| panic!("{number} was accepted, and is lost"));
            let is_done = found.value.status() == Status::Completed;
            assert!(
                is_done || !self.done.contains(number),
                "{number} was completed, and is {:?}",
                found.value.phase
            );
            assert!(
                found.value.attempts >= self.attempts.get(number).copied().unwrap_or_default(),
                "an attempt is lost"
            );
            assert!(
                found.fence.get() >= self.fences.get(number).copied().unwrap_or_default(),
                "a fence is lost"
            );
        }
        let counts = queue.counts().await.expect("the queue counts");
        for counts in &counts {
            assert!(counts.is_balanced(), "{counts:?}");
            assert!(counts.accepted >= self.accepted.len() as u64, "{counts:?}");
            assert!(counts.completed >= self.done.len() as u64, "{counts:?}");
        }
    }
}

fn spawn(directory: &Path, life: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["queue::kill::child", "--exact", "--nocapture"])
        .env(CHILD, format!("{}@{life}", directory.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn nothing_that_was_accepted_claimed_or_completed_is_lost_to_any_kill() {
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
        for _ in 0..random.u32(..300) {
            match receiver.recv() {
                Ok(line) => oracle.hear(&line),
                Err(_) => break,
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap();
        receiver.try_iter().for_each(|line| oracle.hear(&line));
        oracle.check(&open(directory.path())).await;
    }
    let Oracle { accepted, done, starts, takeovers, .. } = &oracle;
    println!(
        "{KILLS} kills: {} accepted, {starts} starts, {} done, {takeovers} takeovers",
        accepted.len(),
        done.len()
    );
    assert!(accepted.len() > 1_000 && done.len() > 500 && *takeovers > 50, "the load must be worth the name");
}
