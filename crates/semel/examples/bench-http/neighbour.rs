//! The process that serves.

use crate::{
    Trouble,
    app::{self, Kind},
};
use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// A process that serves `POST /orders`, until this is dropped.
pub(crate) struct Neighbour {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Where it keeps what it keeps.
    _directory: TempDir,
}

impl Neighbour {
    pub(crate) fn start(kind: Kind) -> Result<Self, Trouble> {
        let directory = tempfile::tempdir()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", kind.name()]).env("TMPDIR", directory.path());
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line)?;
        Ok(Self { child, address: line.trim().parse()?, _directory: directory })
    }

    /// For how long its threads were on a processor, in seconds.
    pub(crate) fn busy(&self) -> Result<f64, Trouble> {
        let mut nanos = 0.0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let times = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let of_task: f64 = times.split_whitespace().next().ok_or("`schedstat` is empty")?.parse()?;
            nanos += of_task;
        }
        Ok(nanos / 1e9)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What that process does: it says where it is, and serves for ever.
pub(crate) fn serve(kind: &str) -> Result<(), Trouble> {
    let kind = Kind::named(kind).ok_or("there is no such kind")?;
    // As `#[tokio::main]` has it.
    tokio::runtime::Runtime::new()?.block_on(async {
        let served = app::serve(kind).await?;
        println!("{}", served.address);
        std::future::pending().await
    })
}
