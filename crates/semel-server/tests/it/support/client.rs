//! A client that says exactly what the test wants it to.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Version};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use std::{convert::Infallible, time::Duration};

type Sent = BoxBody<Bytes, Infallible>;

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|it| it.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The last part of the `type` of a problem.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status.as_u16());
        let address = problem["type"].as_str().unwrap();
        let slug = address.trim_end_matches("/index.html").rsplit('/').next().unwrap();
        slug.replace('_', "-")
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }
}

/// A client with connections of its own.
#[derive(Clone)]
pub(crate) struct Client(legacy::Client<HttpConnector, Sent>);

impl Client {
    pub(crate) fn new() -> Self {
        Self(builder().build_http())
    }

    pub(crate) fn http2() -> Self {
        Self(builder().http2_only(true).build_http())
    }

    /// Sends this, and reads the whole answer.
    pub(crate) async fn send(&self, request: Request<Sent>) -> Got {
        let answer = super::soon("the answer", self.0.request(request)).await.unwrap();
        let (parts, body) = answer.into_parts();
        let collected = super::soon("the body", body.collect()).await.unwrap();
        let trailers = collected.trailers().cloned();
        let (status, version, headers) = (parts.status, parts.version, parts.headers);
        Got { status, version, headers, body: collected.to_bytes(), trailers }
    }

    /// As [`Client::send`], for as long as it takes: one of very many.
    #[cfg(feature = "__clients")]
    pub(crate) async fn send_patiently(&self, request: Request<Sent>) -> Got {
        let answer = self.0.request(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let collected = body.collect().await.unwrap();
        let (status, version, headers) = (parts.status, parts.version, parts.headers);
        Got { status, version, headers, body: collected.to_bytes(), trailers: None }
    }

    /// Begins an answer, whose body is not read yet.
    pub(crate) async fn begin(&self, request: Request<Sent>) -> http::Response<hyper::body::Incoming> {
        super::soon("the answer", self.0.request(request)).await.unwrap()
    }

    pub(crate) async fn get(&self, url: &str) -> Got {
        self.send(Request::get(url).body(Full::default().boxed()).unwrap()).await
    }
}

fn builder() -> legacy::Builder {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder.pool_idle_timeout(Duration::from_secs(1)).pool_timer(hyper_util::rt::TokioTimer::new());
    builder
}

/// A POST by `ann`, with this key and body.
pub(crate) fn post(url: &str, key: &str, body: impl Into<Bytes>) -> Request<Sent> {
    Request::builder()
        .method(Method::POST)
        .uri(url)
        .header("idempotency-key", format!("\"{key}\""))
        .header("authorization", "Bearer ann")
        .body(Full::new(body.into()).boxed())
        .unwrap()
}

/// Of a type that says JSON.
pub(crate) fn json(mut request: Request<Sent>) -> Request<Sent> {
    request.headers_mut().insert("content-type", "application/json".parse().unwrap());
    request
}
