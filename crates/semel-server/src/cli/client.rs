//! Asking a running server.
//!
//! 1. One request at a time, over one connection, with a limit of time.
//! 2. A server that is not there ends with 69; an answer that is no with 1, and says what the server said.
//! 3. A token goes nowhere but into `Authorization`, and is never shown.

use crate::exit::{Code, Failure};
use bytes::Bytes;
use clap::Args;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{io::Write as _, time::Duration};

/// Where servers are, if nobody said otherwise.
const SERVER: &str = "http://127.0.0.1:8787";
/// How long an answer may take: draining waits.
const ANSWER_MAX: Duration = Duration::from_mins(6);
/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Which server, and how answers are printed.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "the flag is called `--server`")]
pub(super) struct Server {
    /// The server to ask; also SEMEL_SERVER [default: http://127.0.0.1:8787]
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// Who asks: a token of the server's file; better SEMEL_TOKEN, which nobody sees in a list of processes
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,

    /// Prints JSON, for programs
    #[arg(long)]
    pub(super) json: bool,
}

/// A server that can be asked.
pub(super) struct Client {
    base: String,
    token: Option<HeaderValue>,
    is_json: bool,
    way: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    /// As was typed, or as the environment says.
    pub(super) fn new(typed: &Server) -> Result<Self, Failure> {
        let said = |typed: &Option<String>, name: &str| {
            typed.clone().or_else(|| std::env::var(name).ok()).filter(|it| !it.is_empty())
        };
        let base = said(&typed.server, "SEMEL_SERVER").unwrap_or_else(|| SERVER.to_owned());
        let base = base.trim_end_matches('/').to_owned();
        let is_url = base.parse::<Uri>().is_ok_and(|it| {
            matches!(it.scheme_str(), Some("http" | "https"))
                && it.authority().is_some_and(|it| !it.as_str().contains('@'))
        });
        if !is_url {
            return Err(Failure::usage("`--server` is no address of a server")
                .hint("such as `http://127.0.0.1:8787`, with no name or password in it"));
        }
        let token =
            said(&typed.token, "SEMEL_TOKEN").map(|it| HeaderValue::from_str(&format!("Bearer {it}")));
        let mut token =
            token.transpose().map_err(|_| Failure::usage("`--token` has characters that no token has"))?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::unavailable("threads cannot be started").because(&error))?;
        Ok(Self { way: way(base.starts_with("https:"))?, base, token, is_json: typed.json, runtime })
    }

    /// The address of the server.
    pub(super) fn address(&self) -> &str {
        &self.base
    }

    /// What is there.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.wanted(Method::GET, path, None, None)
    }

    /// What comes of it.
    pub(super) fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.wanted(Method::POST, path, body, None)
    }

    /// The same of something that may not be there; then this is told.
    pub(super) fn post_to(
        &self,
        path: &str,
        body: Option<&Value>,
        missing: Failure,
    ) -> Result<Value, Failure> {
        self.wanted(Method::POST, path, body, Some(missing))
    }

    fn wanted(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        missing: Option<Failure>,
    ) -> Result<Value, Failure> {
        let body = body.map(|it| ("application/json", Bytes::from(it.to_string())));
        let (status, answer) = self.ask(method, path, body, &[])?;
        if status.is_success() {
            return serde_json::from_slice(&answer).map_err(|_| self.strange(status));
        }
        let refused = self.refused(status, &answer);
        // What is no Semel server has nothing, and is told as that.
        let is_missing = status == StatusCode::NOT_FOUND && refused.code() == Code::No;
        Err(missing.filter(|_| is_missing).unwrap_or(refused))
    }

    /// Asks, and gives whatever was answered.
    pub(super) fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Bytes)>,
        headers: &[(&str, String)],
    ) -> Result<(StatusCode, Bytes), Failure> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        if let Some((content_type, _)) = &body {
            request = request.header(header::CONTENT_TYPE, *content_type);
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(body.map(|(_, it)| it).unwrap_or_default()));
        let request = request.map_err(|error| Failure::usage("this cannot be sent").because(&error))?;
        let asking = async {
            let answer = self.way.request(request).await.map_err(|error| self.absent().because(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| self.absent().because(error.as_ref()))?;
            Ok((status, body.to_bytes()))
        };
        let in_time = async { tokio::time::timeout(ANSWER_MAX, asking).await };
        self.runtime.block_on(in_time).unwrap_or_else(|_| Err(self.late()))
    }

    /// What a refusal means for whoever typed.
    pub(super) fn refused(&self, status: StatusCode, answer: &[u8]) -> Failure {
        let problem: Value = serde_json::from_slice(answer).unwrap_or_default();
        let (Some(title), Some(detail)) = (problem["title"].as_str(), problem["detail"].as_str()) else {
            return self.strange(status);
        };
        let what = uncapitalized(title);
        match status.as_u16() {
            401 => Failure::no(what).cause(detail).hint("name a token: `--token TOKEN`, or SEMEL_TOKEN"),
            403 => Failure::no(what).cause(detail).hint("use a token with another role"),
            400 | 413 | 415 | 422 => Failure::usage(what).cause(detail),
            429 | 503 => Failure::unavailable(what).cause(detail).hint("try again in a while"),
            500.. => Failure::bug(what).cause(detail),
            _ => Failure::no(what).cause(detail),
        }
    }

    fn absent(&self) -> Failure {
        Failure::unavailable(format!("the server `{}` does not answer", self.base))
            .hint("start it: `semel serve`; or say where it is: `--server URL`, or SEMEL_SERVER")
    }

    fn late(&self) -> Failure {
        self.absent().cause("it does not answer in time")
    }

    fn strange(&self, status: StatusCode) -> Failure {
        Failure::unavailable(format!("`{}` is no Semel server: it answered {status}", self.base))
            .hint("say where the server is: `--server URL`, or SEMEL_SERVER")
    }

    /// Prints an answer: as JSON, or as the function shows it to people.
    pub(super) fn show<A: DeserializeOwned>(
        &self,
        answer: Value,
        text: impl FnOnce(&A) -> String,
    ) -> Result<(), Failure> {
        if self.is_json {
            print(&format!("{answer:#}\n"));
            return Ok(());
        }
        let answer = self.read(answer)?;
        print(&text(&answer));
        Ok(())
    }

    /// An answer, read.
    pub(super) fn read<A: DeserializeOwned>(&self, answer: Value) -> Result<A, Failure> {
        serde_json::from_value(answer).map_err(|error| {
            Failure::unavailable(format!("`{}` answers otherwise than this program expects", self.base))
                .because(&error)
                .hint("see that both are of the same version: `semel --version`, `semel doctor`")
        })
    }

    /// Whether answers are printed as JSON.
    pub(super) const fn is_json(&self) -> bool {
        self.is_json
    }
}

/// A title as the beginning of a sentence's rest.
fn uncapitalized(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect()
}

fn way(is_https: bool) -> Result<legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>, Failure> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(Duration::from_secs(10)));
    let provider = rustls::crypto::ring::default_provider();
    let connector = if is_https {
        let roots =
            HttpsConnectorBuilder::new().with_provider_and_native_roots(provider).map_err(|error| {
                Failure::unavailable("this machine's root certificates cannot be read")
                    .because(&error)
                    .hint("install `ca-certificates`, or name a file of them in `SSL_CERT_FILE`")
            })?;
        roots.https_or_http().enable_http1().wrap_connector(tcp)
    } else {
        // Never used to encrypt, so that no certificates are needed.
        let config = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .expect("the provider has the versions that it comes with")
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        HttpsConnector::from((tcp, config))
    };
    Ok(legacy::Client::builder(TokioExecutor::new()).build(connector))
}

/// Data, to standard output. Whoever stopped reading has read enough.
pub(super) fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Everything else, to standard error.
pub(super) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_says_nothing_is_told() {
        let typed = Server { server: Some("http://127.0.0.1:1/".to_owned()), token: None, json: false };
        let client = Client::new(&typed).unwrap();
        insta::assert_snapshot!(client.late().to_string(), @r"
        error: the server `http://127.0.0.1:1` does not answer
          it does not answer in time

        hint: start it: `semel serve`; or say where it is: `--server URL`, or SEMEL_SERVER
        ");
    }

    #[test]
    fn any_title_can_be_told() {
        for (title, told) in [("There is none", "there is none"), ("", ""), ("Übel", "übel"), ("x", "x")] {
            assert_eq!(uncapitalized(title), told);
        }
    }
}
