//! Nodes that are killed, told to stop, and started again; and what they say in the end.

use super::{
    oracle::{Figures, Manners, Oracle},
    senders::{Door, Line, Senders},
};
use crate::support::{PATIENCE, Proxy, Upstream};
use std::{
    collections::HashMap,
    net::SocketAddr,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::sync::watch;

/// How long a stop may take: `shutdown` below, and what a crowded machine adds.
const STOP_MAX: Duration = Duration::from_secs(15);
/// How long it may take until everything is settled when the kills are over: a lease, and what a crowded machine adds.
const DRAIN_MAX: Duration = Duration::from_mins(2);

struct Node {
    /// Nothing while it is started again.
    program: Option<Proxy>,
    door: watch::Sender<Option<SocketAddr>>,
}

/// A function, the nodes before it, and those who send.
pub(super) struct World {
    pub(super) oracle: Arc<Oracle>,
    directory: TempDir,
    store: String,
    nodes: Vec<Node>,
    _target: Upstream,
    /// Nobody, when it is over.
    senders: Option<Senders>,
    pub(super) random: fastrand::Rng,
    stops: usize,
    /// How many acknowledgements were waited for between two ends.
    awaited: usize,
}

/// What a world begins with.
pub(super) struct Plan<'a> {
    /// Chooses everything.
    pub(super) seed: u64,
    /// As `--store` has it.
    pub(super) store: &'a str,
    /// How many nodes.
    pub(super) nodes: usize,
    /// How many send at once.
    pub(super) senders: usize,
}

impl World {
    pub(super) async fn start(plan: Plan<'_>) -> Self {
        let oracle = Oracle::new(plan.seed, Manners { failing: 15, held: 2 });
        let calls = Arc::clone(&oracle);
        let target = Upstream::start(move |asked| Arc::clone(&calls).call(asked)).await;
        let directory = tempfile::tempdir().unwrap();
        let file = format!(
            "[server.timeouts]\nshutdown = \"5s\"\n\
             [[function]]\nname = \"orders\"\nurl = \"http://{}/\"\nretry = \"immediate\"\ntimeout = \"3s\"\n",
            target.address
        );
        std::fs::write(directory.path().join("semel.toml"), file).unwrap();
        let mut world = Self {
            oracle,
            directory,
            store: plan.store.to_owned(),
            nodes: Vec::new(),
            _target: target,
            senders: None,
            random: fastrand::Rng::with_seed(plan.seed),
            stops: 0,
            awaited: 0,
        };
        for _ in 0..plan.nodes {
            let program = world.program();
            let door = watch::Sender::new(Some(program.address));
            world.nodes.push(Node { program: Some(program), door });
        }
        let doors: Vec<Door> = world.nodes.iter().map(|it| it.door.subscribe()).collect();
        world.senders = Some(Senders::start(plan.senders, plan.seed, &doors, &world.oracle));
        world
    }

    /// Starts the program, and waits until it listens.
    fn program(&self) -> Proxy {
        let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
        command.args([
            "serve",
            "--config",
            "semel.toml",
            "--dev",
            "--listen",
            "127.0.0.1:0",
            "--log",
            "json",
        ]);
        command.args(["--store", &self.store]).current_dir(self.directory.path());
        tokio::task::block_in_place(|| Proxy::spawn(&mut command))
    }

    /// Waits for so many acknowledgements.
    async fn goes_on(&mut self, acknowledgements: usize) {
        self.oracle.more(acknowledgements).await;
        self.awaited += acknowledgements;
    }

    /// Kills one of the nodes after so many acknowledgements, and starts it again.
    pub(super) async fn kill_after(&mut self, acknowledgements: usize) {
        self.goes_on(acknowledgements).await;
        let number = self.random.usize(..self.nodes.len());
        let program = self.nodes[number].program.take().expect("it runs between two kills");
        tokio::task::block_in_place(|| program.kill());
        self.begin_again(number);
    }

    /// Tells one of the nodes to stop after so many acknowledgements, and starts it again when it has.
    pub(super) async fn stop_after(&mut self, acknowledgements: usize) {
        self.goes_on(acknowledgements).await;
        let number = self.random.usize(..self.nodes.len());
        let mut program = self.nodes[number].program.take().expect("it runs between two kills");
        let since = Instant::now();
        program.signal("TERM");
        let status = tokio::task::block_in_place(|| program.ended());
        assert!(status.success(), "{status}: {}", program.log());
        assert!(since.elapsed() < STOP_MAX, "it took {:?}", since.elapsed());
        if self.nodes.len() == 1 && program.log().contains("\"event\":\"stopped\"") {
            self.oracle.settled();
            self.stops += 1;
        }
        self.begin_again(number);
    }

    fn begin_again(&mut self, number: usize) {
        self.nodes[number].door.send_replace(None);
        self.oracle.ended();
        let program = self.program();
        self.nodes[number].door.send_replace(Some(program.address));
        self.nodes[number].program = Some(program);
    }

    /// Where the first node is.
    pub(super) fn address(&self) -> SocketAddr {
        self.nodes[0].program.as_ref().expect("it runs").address
    }

    /// How many stops settled everything that was under way.
    pub(super) const fn stops(&self) -> usize {
        self.stops
    }

    /// The ends met with work: there were as many acknowledgements as were waited for, some events came again, and some calls
    /// were made again.
    pub(super) fn was_under_load(&self) {
        let figures = self.oracle.figures();
        assert!(figures.acknowledgements >= self.awaited, "{} were awaited: {figures:?}", self.awaited);
        assert!(figures.acknowledgements > figures.acknowledged, "duplicates were sent: {figures:?}");
        assert!(figures.calls > figures.called, "some were called again: {figures:?}");
    }

    /// The kills are over, and nobody sends: everything is settled, and every count agrees.
    pub(super) async fn settles(&mut self) {
        self.settles_or_says_so(false).await;
    }

    /// The same after trouble on the line to the store: a node whose answer was swallowed does not know yet that its write was
    /// written, and says that it is at it. It is asked until it knows.
    pub(super) async fn settles_after_trouble(&mut self) {
        self.settles_or_says_so(true).await;
    }

    async fn settles_or_says_so(&mut self, had_trouble: bool) {
        let senders = self.senders.take().expect("it is settled once");
        senders.stop().await;
        let line = Line::new();
        let since = Instant::now();
        self.drained(&line, since).await;
        let mut asked_for = self.oracle.all_acknowledged();
        while !asked_for.is_empty() {
            for id in &asked_for {
                let (status, body) =
                    line.event(self.address(), "order", id).await.expect("nobody kills it now");
                assert_eq!(status, 200, "{id} was acknowledged: {}", String::from_utf8_lossy(&body));
                self.oracle.acknowledged(id, &serde_json::from_slice(&body).unwrap());
            }
            asked_for = self.oracle.not_completed();
            let may_ask_again = had_trouble && since.elapsed() < DRAIN_MAX;
            assert!(asked_for.is_empty() || may_ask_again, "not said to be completed: {asked_for:?}");
        }
        let (ledger, figures) = self.drained(&line, since).await;
        self.oracle.check();
        println!("{figures:?}; {ledger:?}; {} clean stops; drained in {:?}", self.stops, since.elapsed());
        assert_eq!(ledger.accepted, ledger.completed, "{ledger:?}");
        assert_eq!(ledger.failed, 0, "{ledger:?}");
        assert_eq!(figures.called, figures.done, "{figures:?}");
        assert!(figures.acknowledged <= figures.called, "{figures:?}");
    }

    /// Waits until everything is settled, and all that the function was called for is completed. What a sender has given up on
    /// may arrive late at a slow store, so both are looked at until they agree.
    async fn drained(&self, line: &Line, since: Instant) -> (Ledger, Figures) {
        loop {
            let figures = self.oracle.figures();
            let ledger = Ledger::read(line, self.address()).await;
            let is_settled = ledger.pending + ledger.in_progress == 0;
            if is_settled && ledger.completed == figures.called as u64 {
                return (ledger, figures);
            }
            assert!(since.elapsed() < DRAIN_MAX, "it does not drain: {ledger:?}, {figures:?}");
            self.oracle.ended();
            // Another process cannot be waited for.
            let _news = tokio::time::timeout(Duration::from_millis(100), self.oracle.news.notified()).await;
        }
    }
}

/// What the program counts.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) accepted: u64,
    pub(super) pending: u64,
    pub(super) in_progress: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
}

impl Ledger {
    /// Of all functions together.
    pub(super) async fn read(line: &Line, address: SocketAddr) -> Self {
        let since = Instant::now();
        loop {
            let (_, page) = line.get(address, "/metrics").await.expect("it runs");
            let sums = sums(std::str::from_utf8(&page).unwrap(), "");
            if sums.get("semel_up") == Some(&1) {
                return Self::of(&sums);
            }
            assert!(since.elapsed() < PATIENCE, "the store does not answer");
        }
    }

    fn of(sums: &HashMap<String, u64>) -> Self {
        let sum = |name: &str| sums.get(name).copied().unwrap_or_default();
        Self {
            accepted: sum("semel_executions_accepted_total"),
            pending: sum("semel_executions PENDING"),
            in_progress: sum("semel_executions IN_PROGRESS"),
            completed: sum("semel_executions COMPLETED"),
            failed: sum("semel_executions_failed"),
        }
    }
}

/// The metrics whose labels contain this, summed by name, and by status where there is one.
pub(super) fn sums(page: &str, label: &str) -> HashMap<String, u64> {
    let mut sums = HashMap::new();
    for line in page.lines().filter(|it| !it.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        if !labels.contains(label) {
            continue;
        }
        let status = labels.split_once("status=\"").map(|(_, it)| it.split('"').next().unwrap());
        let name = status.map_or_else(|| name.to_owned(), |it| format!("{name} {it}"));
        *sums.entry(name).or_default() += value.parse::<f64>().unwrap() as u64;
    }
    sums
}
