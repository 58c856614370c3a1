//! Servers of a test's own: a primary, and a standby that streams from it.
//!
//! PostgreSQL refuses to run as root; there they belong to the user `postgres`.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// A server that lives as long as the test.
pub(crate) struct Server {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Server {
    /// A fresh server that can be written to, and lets everybody in.
    pub(crate) fn primary() -> Self {
        let directory = directory();
        let data = directory.path().join("data");
        let setup = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"];
        run(command("initdb", &directory).arg("--pgdata").arg(&data).args(setup));
        Self::start(directory, &data, "primary")
    }

    /// A copy of this server which follows it, and is called so.
    pub(crate) fn standby(&self, name: &str) -> Self {
        let directory = directory();
        let data = directory.path().join("data");
        let mut copy = command("pg_basebackup", &directory);
        copy.arg("--dbname").arg(self.url()).arg("--pgdata").arg(&data);
        run(copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]));
        Self::start(directory, &data, name)
    }

    fn start(directory: TempDir, data: &Path, name: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = command("postgres", &directory);
        server.arg("-D").arg(data);
        for setting in [
            "listen_addresses=127.0.0.1",
            &format!("port={port}"),
            &format!("cluster_name={name}"),
            "unix_socket_directories=",
        ] {
            server.args(["-c", setting]);
        }
        let mut process = server.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("ready to accept") {
            let length = log.read_line(&mut said).unwrap();
            assert!(length > 0, "the server ended: {said}");
        }
        // What it says from now on goes nowhere, but must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { process, port, _directory: directory }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Server {
    /// At once, as if it had crashed; but it takes its own processes with it.
    fn drop(&mut self) {
        drop(Command::new("kill").args(["-QUIT", &self.process.id().to_string()]).status());
        drop(self.process.wait());
    }
}

/// A directory that the server may use.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    if is_root() {
        run(Command::new("chown").arg("postgres").arg(directory.path()));
    }
    directory
}

/// What one makes belongs to oneself.
fn is_root() -> bool {
    tempfile::tempfile().and_then(|it| it.metadata()).unwrap().uid() == 0
}

/// One of PostgreSQL's programs, as the user that may run it.
fn command(name: &str, directory: &TempDir) -> Command {
    let mut command = Command::new(program(name));
    if is_root() {
        command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program(name));
    }
    command.current_dir(directory.path()).stdout(Stdio::null());
    command
}

/// Debian keeps PostgreSQL's own programs off the path, a directory for each version.
fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|it| it.path().join("bin").join(name)).filter(|it| it.exists());
    programs.max().unwrap_or_else(|| PathBuf::from(name))
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
