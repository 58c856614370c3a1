//! A server whose API is asked, and a function that it calls.

use crate::support::{Asked, Client, Got, Proxy, Upstream, answer, soon};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use serde_json::{Value, json};
use std::{convert::Infallible, path::Path, process::Command};
use tempfile::TempDir;

/// A server that runs until this is dropped, with its directory.
pub(crate) struct Server {
    pub(crate) program: Proxy,
    pub(crate) directory: TempDir,
    client: Client,
}

impl Server {
    /// With this file, and its events in memory.
    pub(crate) fn with(config: &str) -> Self {
        Self::start(tempfile::tempdir().unwrap(), config, &["--store", "memory:"])
    }

    /// Before one function, `orders`.
    pub(crate) fn before(function: &Upstream) -> Self {
        Self::with(&orders(function, ""))
    }

    /// In this directory, with this file and these arguments.
    pub(crate) fn start(directory: TempDir, config: &str, arguments: &[&str]) -> Self {
        std::fs::write(directory.path().join("semel.toml"), config).unwrap();
        let program = Proxy::spawn(&mut command(directory.path(), arguments));
        Self::of(directory, program)
    }

    /// Of one that was started in this directory.
    pub(crate) fn of(directory: TempDir, program: Proxy) -> Self {
        Self { program, directory, client: Client::new() }
    }

    /// Ends as a power cut would, and begins again.
    pub(crate) fn killed(self, arguments: &[&str]) -> Self {
        let Self { program, directory, client } = self;
        program.kill();
        Self { program: Proxy::spawn(&mut command(directory.path(), arguments)), directory, client }
    }

    /// Asks with these headers and this body.
    pub(crate) async fn ask_with(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Got {
        let mut request = Request::builder().method(method).uri(self.program.url(path));
        if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let got = self.client.send(request.body(full(body.to_owned())).unwrap()).await;
        // Whatever the API answers, no browser takes it for something else, and nobody keeps it.
        if path.starts_with("/v1/") && self.program.admin.is_none() {
            let headers = ["x-content-type-options", "cache-control"].map(|it| got.header(it));
            assert_eq!(headers, [Some("nosniff"), Some("no-store")], "{method} {path}: {got:?}");
        }
        got
    }

    /// Asks as somebody with this token.
    pub(crate) async fn ask_as(&self, token: &str, method: &Method, path: &str, body: &str) -> Got {
        self.ask_with(method, path, &[("authorization", &format!("Bearer {token}"))], body).await
    }

    /// Asks, and wants it done.
    pub(crate) async fn done(&self, method: Method, path: &str, body: &str) -> Value {
        let got = self.ask_with(&method, path, &[], body).await;
        assert!(got.status.is_success(), "{method} {path}: {got:?}");
        assert_eq!(got.header("cache-control"), Some("no-store"), "{method} {path}");
        serde_json::from_slice(&got.body).unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.done(Method::GET, path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Value {
        self.done(Method::POST, path, body).await
    }

    /// Sends an event with this id and data.
    pub(crate) async fn event(&self, id: &str, data: &str) -> Got {
        let request = Request::post(self.program.url("/events"))
            .header("ce-specversion", "1.0")
            .header("ce-id", id)
            .header("ce-source", "/shop")
            .header("ce-type", "order.created")
            .header("content-type", "application/json");
        self.client.send(request.body(full(data.to_owned())).unwrap()).await
    }

    /// What is told about an event, once it is so.
    pub(crate) async fn why_when(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.when(&format!("/v1/why?q={id}"), |it| it["found"].get(0).is_some_and(&is_so)).await["found"][0]
            .clone()
    }

    /// What is there, once it is so.
    pub(crate) async fn when(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let asking = async {
            loop {
                let found = self.get(path).await;
                if is_so(&found) {
                    return found;
                }
                // Another process's state can only be asked for again; the answer is what is waited for.
            }
        };
        soon(path, asking).await
    }

    /// The first entry of the audit log.
    pub(crate) async fn last_audit(&self) -> (String, String, String) {
        let entry = &self.get("/v1/audit").await["entries"][0];
        let text = |name: &str| entry[name].as_str().unwrap().to_owned();
        (text("who"), text("what"), text("subject"))
    }
}

pub(crate) fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["serve", "--config", "semel.toml", "--dev", "--listen", "127.0.0.1:0", "--log", "json"]);
    command.args(arguments).current_dir(directory);
    command
}

/// A file with one function, `orders`, and more after it.
pub(crate) fn orders(function: &Upstream, more: &str) -> String {
    format!(
        "[[function]]\nname = \"orders\"\nurl = \"http://{}/orders\"\nretry = \"gen2\"\n{more}",
        function.address
    )
}

/// Three tokens, one of each role.
pub(crate) const TOKENS: &str = "
[[token]]
name = \"vera\"
role = \"viewer\"
secret = \"viewer-0123456789\"

[[token]]
name = \"olga\"
role = \"operator\"
secret = \"operator-0123456789\"

[[token]]
name = \"ada\"
role = \"admin\"
secret = \"admin-0123456789\"
";

/// A function that takes what is good (`{\"good\": true}`), says that it never will take the rest, and asks to come again
/// for what is late.
pub(crate) async fn picky() -> Upstream {
    Upstream::start(async |asked: Asked| {
        let data: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        match () {
            () if data["good"] == json!(true) => answer(200, "\"done\""),
            () if data["late"] == json!(true) => answer(503, "later"),
            () => answer(422, "order 17 is bad"),
        }
    })
    .await
}

pub(crate) fn full(body: impl Into<Bytes>) -> BoxBody<Bytes, Infallible> {
    Full::new(body.into()).boxed()
}

/// The status, and the problem if it is one.
pub(crate) fn told(got: &Got) -> (u16, String) {
    if got.header("content-type") != Some("application/problem+json") {
        return (got.status.as_u16(), String::new());
    }
    let problem: Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(problem["status"], got.status.as_u16(), "{got:?}");
    let slug = problem["type"].as_str().unwrap().rsplit('#').next().unwrap().to_owned();
    (got.status.as_u16(), slug)
}
