//! Requests to Firestore's REST interface.
//!
//! 1. A token never travels unencrypted: only the emulator is spoken to in the clear, and it gets none.
//! 2. Nothing is sent twice. A request that a closed connection did not take at all may go over another.
//! 3. Answers are bounded, and so is the time that they take.
//!
//! It does not know what is asked.

use super::{STORE, error::Failure};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request,
    body::Bytes,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use semel_core::{
    BoxFuture,
    store::{StoreError, StoreErrorKind},
};
use serde_json::Value;
use std::{error::Error as StdError, time::Duration};
use tokio::time::timeout;

/// Largest answer that is read: a document of 1 MiB in JSON, and room to spare.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest that a request waits for its answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Where access tokens come from.
pub(super) type Tokens =
    Box<dyn Fn() -> BoxFuture<'static, Result<String, Box<dyn StdError + Send + Sync>>> + Send + Sync>;

/// A pool of connections to one server.
pub(super) struct Http {
    /// With the scheme, without a slash at the end.
    base: String,
    way: Way,
}

enum Way {
    Encrypted { client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>, tokens: Tokens },
    Plain(Client<HttpConnector, Full<Bytes>>),
}

impl Http {
    /// To Google, with tokens.
    pub(super) fn encrypted(base: String, tokens: Tokens) -> Result<Self, StoreError> {
        let roots = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(|error| {
                let remedy = "read this machine's root certificates: install `ca-certificates`";
                StoreError::new(StoreErrorKind::Misconfigured, STORE, remedy).because(error)
            })?;
        let mut tcp = connector();
        tcp.enforce_http(false);
        let connector = roots.https_only().enable_all_versions().wrap_connector(tcp);
        Ok(Self { base, way: Way::Encrypted { client: pool().build(connector), tokens } })
    }

    /// To an emulator.
    pub(super) fn plain(base: String) -> Self {
        Self { base, way: Way::Plain(pool().build(connector())) }
    }

    /// Whether it is an emulator.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.way, Way::Plain(_))
    }

    /// Sends this, and reads the answer.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(Method::POST, path, Bytes::from(body.to_string())).await
    }

    /// Reads what is there.
    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.send(Method::GET, path, Bytes::new()).await
    }

    /// In bounded time, getting a token included.
    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Value, Failure> {
        let sent = timeout(ANSWER_MAX, self.send_and_wait(method, path, body)).await;
        sent.unwrap_or_else(|elapsed| Err(Failure::Silence(elapsed.into())))
    }

    async fn send_and_wait(&self, method: Method, path: &str, body: Bytes) -> Result<Value, Failure> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        let request = request.header(CONTENT_TYPE, "application/json");
        let sent = match &self.way {
            Way::Encrypted { client, tokens } => {
                let token = tokens().await.map_err(Failure::Token)?;
                let request = request.header(AUTHORIZATION, format!("Bearer {token}"));
                client.request(request.body(Full::new(body)).map_err(Failure::Address)?)
            }
            Way::Plain(client) => client.request(request.body(Full::new(body)).map_err(Failure::Address)?),
        };
        let response = sent.await.map_err(|error| Failure::Silence(error.into()))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(Failure::Silence)?.to_bytes();
        if !status.is_success() {
            return Err(Failure::said(status.as_u16(), &body));
        }
        serde_json::from_slice(&body).map_err(|error| Failure::Silence(error.into()))
    }
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT_MAX));
    connector.set_nodelay(true);
    connector
}

fn pool() -> hyper_util::client::legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new());
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_given_up() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
        let address = silent.local_addr().expect("a listener has an address");
        let failure = Http::plain(format!("http://{address}")).get("/v1/anything").await;
        assert!(matches!(failure, Err(Failure::Silence(_))), "{failure:?}");
    }
}
