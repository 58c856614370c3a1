//! A server, a function, and somebody who sends.

use crate::support::{Client, Got, Proxy, Upstream};
use bytes::Bytes;
use http::{Request, request::Builder};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use serde_json::Value;
use std::{convert::Infallible, path::Path, process::Command};
use tempfile::TempDir;

pub(super) type Sent = Request<BoxBody<Bytes, Infallible>>;

/// A server that runs until this is dropped, with its directory.
pub(super) struct Server {
    pub(super) program: Proxy,
    pub(super) directory: TempDir,
    client: Client,
}

impl Server {
    /// With this file, and its events in memory.
    pub(super) fn with(config: &str) -> Self {
        Self::start(tempfile::tempdir().unwrap(), config, &["--store", "memory:"])
    }

    /// Before one function, `orders`, that takes everything.
    pub(super) fn before(function: &Upstream) -> Self {
        Self::with(&orders(function, ""))
    }

    /// In this directory, with this file and these arguments.
    pub(super) fn start(directory: TempDir, config: &str, arguments: &[&str]) -> Self {
        std::fs::write(directory.path().join("semel.toml"), config).unwrap();
        let program = Proxy::spawn(&mut command(directory.path(), arguments));
        Self::of(directory, program)
    }

    /// Of one that was started in this directory.
    pub(super) fn of(directory: TempDir, program: Proxy) -> Self {
        Self { program, directory, client: Client::new() }
    }

    /// Ends as a power cut would, and begins again.
    pub(super) fn killed(self, arguments: &[&str]) -> Self {
        let Self { program, directory, client } = self;
        program.kill();
        Self { program: Proxy::spawn(&mut command(directory.path(), arguments)), directory, client }
    }

    pub(super) async fn send(&self, request: Sent) -> Got {
        self.client.send(request).await
    }

    pub(super) async fn get(&self, path: &str) -> Got {
        self.client.get(&self.program.url(path)).await
    }

    /// Sends an event with this id and data to `/events`.
    pub(super) async fn event(&self, id: &str, data: &str) -> Got {
        self.send(event(&self.program, id).body(full(data.to_owned())).unwrap()).await
    }

    /// Sends JSON to a source.
    pub(super) async fn json(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Got {
        let mut request = Request::post(self.program.url(path)).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(full(body)).unwrap()).await
    }
}

/// As `semel serve` is typed here.
pub(super) fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["serve", "--config", "semel.toml", "--dev", "--listen", "127.0.0.1:0", "--log", "json"]);
    command.args(arguments).current_dir(directory);
    command
}

/// A file with one function, `orders`, and more of it.
pub(super) fn orders(function: &Upstream, more: &str) -> String {
    format!("[[function]]\nname = \"orders\"\nurl = \"http://{}/orders\"\n{more}", function.address)
}

/// An event in binary mode, without its body.
pub(super) fn event(program: &Proxy, id: &str) -> Builder {
    Request::post(program.url("/events"))
        .header("ce-specversion", "1.0")
        .header("ce-id", id)
        .header("ce-source", "/shop")
        .header("ce-type", "order.created")
        .header("content-type", "application/json")
}

pub(super) fn full(body: impl Into<Bytes>) -> BoxBody<Bytes, Infallible> {
    Full::new(body.into()).boxed()
}

/// An answer as JSON.
pub(super) fn read(got: &Got) -> Value {
    serde_json::from_slice(&got.body).unwrap_or_else(|_| panic!("{got:?}"))
}

/// The last part of the `type` of a problem, which must be one.
pub(super) fn problem(got: &Got) -> String {
    assert_eq!(got.header("content-type"), Some("application/problem+json"), "{got:?}");
    let problem = read(got);
    assert_eq!(problem["status"], got.status.as_u16(), "{got:?}");
    for member in ["type", "title", "detail"] {
        assert!(problem[member].is_string(), "{got:?}");
    }
    problem["type"].as_str().unwrap().rsplit(['#', '/']).next().unwrap().to_owned()
}

/// The status, and the problem if it is one.
pub(super) fn told(got: &Got) -> (u16, String) {
    let is_problem = got.header("content-type") == Some("application/problem+json");
    (got.status.as_u16(), if is_problem { problem(got) } else { String::new() })
}
