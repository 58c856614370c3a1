//! The servers that tests of the stores need: found or installed, started, and stopped again.
//!
//! 1. Each listens on a free port of loopback and keeps its data in a temporary directory.
//! 2. They are set up as tier A asks: what a server acknowledges is on disk.
//! 3. They end with this program, however it ends: see [`guard`].
//! 4. A server that cannot be had is a failure, unless it was left out by name. Google's Firestore emulator cannot
//!    be installed everywhere; where it is missing, it is left out, and that is said at the end.
//! 5. A server whose variable is set already is used as it is.
//!
//! It does not isolate tests from each other: that is the test kit's.

mod guard;
mod install;
mod kind;

use crate::shell::{Failure, run as run_command};
use guard::Guarded;
use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

pub(crate) use install::pip;
pub(crate) use kind::Kind;

/// How long a server may take until it answers; a Java machine beside a compiler is slow.
const START_MAX: Duration = Duration::from_secs(90);

/// Servers that run until this is dropped.
pub(crate) struct Servers {
    running: Vec<Running>,
    missing: Vec<Kind>,
}

struct Running {
    kind: Kind,
    url: String,
    /// Nothing if somebody else started it.
    guarded: Option<Guarded>,
}

impl Servers {
    /// Starts all but these, and waits until they answer.
    pub(crate) fn start(without: &[Kind]) -> Result<Self, Failure> {
        let directory = std::env::temp_dir().join(format!("semel-servers-{}", std::process::id()));
        let mut servers = Self { running: Vec::new(), missing: Vec::new() };
        for kind in Kind::ALL.into_iter().filter(|it| !without.contains(it)) {
            if let Ok(url) = std::env::var(kind.variable()) {
                eprintln!("    {}: {url}, as `{}` says", kind.name(), kind.variable());
                servers.running.push(Running { kind, url, guarded: None });
                continue;
            }
            match install::find(kind)? {
                Some(program) => servers.running.push(start(kind, &program, directory.join(kind.name()))?),
                None => servers.missing.push(kind),
            }
        }
        for server in &servers.running {
            server.await_answer()?;
        }
        Ok(servers)
    }

    /// What tests read to find the servers.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.running.iter().map(|it| (it.kind.variable(), it.url.as_str()))
    }

    /// What cannot be had on this machine.
    pub(crate) fn missing(&self) -> &[Kind] {
        &self.missing
    }
}

fn start(kind: Kind, program: &std::path::Path, directory: PathBuf) -> Result<Running, Failure> {
    let data = directory.join("data");
    fs::create_dir_all(&data)
        .map_err(|error| Failure::usage(format!("cannot make `{}`: {error}", data.display())))?;
    let port = free_port()?;
    let (command, url) = kind.command(program, &data, port)?;
    let guarded = Guarded::start(&command, kind.stop_signal(), directory)?;
    Ok(Running { kind, url, guarded: Some(guarded) })
}

fn free_port() -> Result<u16, Failure> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    bound.map(|it| it.port()).map_err(|error| Failure::usage(format!("no port is left on loopback: {error}")))
}

impl Running {
    fn await_answer(&self) -> Result<(), Failure> {
        let start = Instant::now();
        while !self.kind.answers(&self.url) {
            if start.elapsed() > START_MAX {
                let said = self.guarded.as_ref().map_or_else(String::new, Guarded::last_words);
                let name = self.kind.name();
                return Err(Failure::usage(format!("{name} does not answer at {}\n{said}", self.url)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// `cargo xtask servers`: runs a command beside the servers, or keeps them until it is interrupted.
pub(crate) fn run(without: &[Kind], command: &[&str]) -> Result<(), Failure> {
    let servers = Servers::start(without)?;
    for kind in servers.missing().iter().chain(without) {
        eprintln!("LEFT OUT: {}", kind.name());
    }
    if let [program, arguments @ ..] = command {
        return run_command(Command::new(program).args(arguments).envs(servers.variables()));
    }
    for (name, url) in servers.variables() {
        println!("export {name}='{url}'");
    }
    eprintln!("running until this is interrupted (Ctrl-C)");
    loop {
        std::thread::park();
    }
}
