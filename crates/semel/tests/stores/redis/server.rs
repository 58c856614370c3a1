//! Servers of a test's own, for what the shared ones must not suffer.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// A server that lives as long as the test.
pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
    _directory: TempDir,
}

impl Server {
    /// A server on a free port, ready for connections.
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_on(free_port(), options)
    }

    pub(crate) fn start_on(port: u16, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--repl-diskless-sync-delay", "0"])
            .args(options)
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`redis-server` is installed: `apt-get install redis-server`");
        let mut log = BufReader::new(process.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("Ready to accept connections") {
            let length = log.read_line(&mut said).unwrap();
            assert!(length > 0, "the server ended: {said}");
        }
        // What it says from now on goes nowhere, but must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { process, port, _directory: directory }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends one command, and gives what the server says.
    pub(crate) async fn ask<T: redis::FromRedisValue>(&self, command: &str) -> redis::RedisResult<T> {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut words = command.split(' ');
        let mut asking = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            asking.arg(word);
        });
        asking.query_async(&mut connection).await
    }

    /// Waits until what the command says pleases.
    pub(crate) async fn until(&self, command: &str, is_enough: impl Fn(&str) -> bool) {
        for _ in 0..100_000 {
            if self.ask::<String>(command).await.is_ok_and(|said| is_enough(&said)) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("`{command}` did not say what was waited for");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A port that was free a moment ago. A cluster's node also takes the port 10,000 above.
pub(crate) fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}
