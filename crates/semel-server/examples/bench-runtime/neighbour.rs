//! Another process of this program.

use crate::Result;
use semel_server::bench::{client::Client, traffic::get};
use std::{
    future::Future,
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long the server may take until it is ready.
const START_MAX: Duration = Duration::from_secs(10);

/// Another process of this program, until it is dropped.
pub(crate) struct Neighbour {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// What a process that says its address does: for ever.
pub(crate) async fn own(start: impl Future<Output = Result<SocketAddr>>) -> Result<()> {
    println!("{}", start.await?);
    std::future::pending().await
}

impl Neighbour {
    /// One that says its address.
    pub(crate) fn start(arguments: &[&str]) -> Result<Self> {
        let mut child =
            Command::new(std::env::current_exe()?).args(arguments).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line)?;
        Ok(Self { child, address: line.trim().parse()? })
    }

    /// `semel serve`, with a function that is called, and one that is not.
    pub(crate) async fn serve(directory: &Path, function: SocketAddr, has_log: bool) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = directory.join("semel.toml");
        let log = if has_log { "text" } else { "off" };
        let text = format!(
            "[server]\nlisten = \"{address}\"\nstore = \"{}\"\nlog = \"{log}\"\n\n\
             [[function]]\nname = \"noop\"\nurl = \"http://{function}/\"\nfilter = {{ type = \"bench.now\" }}\nretry = \"gen2\"\n\n\
             [[function]]\nname = \"later\"\nurl = \"http://{function}/\"\nfilter = {{ type = \"bench.later\" }}\n\
             rate = \"1/h\"\n",
            directory.join("data").display()
        );
        std::fs::write(&config, text)?;
        let child = Command::new(std::env::current_exe()?)
            .args(["serve", "--dev", "--config"])
            .arg(config)
            .stderr(if has_log { Stdio::null() } else { Stdio::inherit() })
            .spawn()?;
        let server = Self { child, address };
        let since = Instant::now();
        while server.ask("/ready").await.is_err() {
            if since.elapsed() > START_MAX {
                return Err("the server does not start".into());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(server)
    }

    /// What this process has worked so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<f64>().ok()).unwrap_or_default();
        // In hundredths of a second, on every machine that there is.
        (ticks(11) + ticks(12)) / 100.0
    }

    /// The most memory that it had so far, in MB.
    pub(crate) fn peak_mb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak.and_then(|it| it.parse::<u64>().ok()).unwrap_or_default() / 1_000
    }

    /// How many executions of the function are completed.
    pub(crate) async fn completed(&self) -> Result<u64> {
        let text = self.ask("/metrics").await?;
        let line = text
            .lines()
            .find_map(|it| it.strip_prefix("semel_executions{function=\"noop\",status=\"COMPLETED\"} "));
        Ok(line.map_or(Ok(0), str::parse)?)
    }

    /// How long events took to the function, in microseconds: the one in the middle, and the slowest in a hundred.
    pub(crate) async fn times(&self) -> Result<(u64, u64)> {
        let text = self.ask("/").await?;
        let numbers: Vec<u64> = text.split(' ').filter_map(|it| it.parse().ok()).collect();
        let [_calls, _count, p50, p99] = numbers[..] else { return Err("the function says nothing".into()) };
        Ok((p50, p99))
    }

    async fn ask(&self, path: &str) -> Result<String> {
        let mut client = Client::connect(self.address).await?;
        let answer = client.ask(&get(&self.address.to_string(), path)).await?;
        if answer.status != 200 {
            return Err(format!("`{path}` is answered with {}", answer.status).into());
        }
        Ok(String::from_utf8_lossy(answer.body).into_owned())
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
