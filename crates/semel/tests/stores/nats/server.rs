//! Servers of a test's own, for what the shared one must not suffer.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// A server that lives as long as the test.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
    _directory: TempDir,
}

impl Server {
    /// A server on a free port, with these lines in its configuration. `DIRECTORY` stands for one of its own.
    pub(crate) fn start(settings: &str) -> Self {
        Self::start_on(free_port(), settings)
    }

    pub(crate) fn start_on(port: u16, settings: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings.replace("DIRECTORY", &directory.path().display().to_string());
        let file = directory.path().join("nats.conf");
        std::fs::write(&file, format!("listen: \"127.0.0.1:{port}\"\n{settings}\n")).unwrap();
        let mut process = Command::new(program())
            .arg("--config")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("`nats-server` is there: `cargo xtask servers` installs it");
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("Server is ready") {
            let length = log.read_line(&mut said).unwrap();
            assert!(length > 0, "the server ended: {said}");
        }
        // What it says from now on goes nowhere, but must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { process, url: format!("nats://127.0.0.1:{port}"), _directory: directory }
    }

    /// Three servers that keep everything together.
    pub(crate) fn cluster() -> [Self; 3] {
        let ports = [free_port(), free_port(), free_port()];
        let routes = ports.map(|port| format!("\"nats://127.0.0.1:{port}\"")).join(", ");
        // Each waits for nobody: they find each other once all are there.
        let settings = ports.map(|port| {
            format!(
                "server_name: \"n{port}\"\njetstream {{ store_dir: \"DIRECTORY\", sync_interval: always }}\n\
                 cluster {{ name: \"tests\", listen: \"127.0.0.1:{port}\", routes: [{routes}] }}"
            )
        });
        settings.map(|it| Self::start(&it))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Where `cargo xtask` has put it, or wherever it is found.
fn program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let kept = here.ancestors().filter_map(|it| it.join("servers").read_dir().ok()).flatten().flatten();
    let mut programs = kept.map(|it| it.path().join("bin/nats-server"));
    programs.find(|it| it.is_file()).unwrap_or_else(|| PathBuf::from("nats-server"))
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
