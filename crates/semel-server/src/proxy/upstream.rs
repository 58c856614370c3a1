//! The way to the upstream: a pool of connections, made in time.
//!
//! 1. A connection that is not made in time is an error like one that is refused: nothing was sent.
//! 2. Nothing is sent twice. A request that a closed connection did not take at all may go over another one.
//! 3. No redirect is followed, no proxy of the environment is used, nothing is decompressed.

use crate::{
    config::{ProxySettings, UpstreamUrl},
    exit::Failure,
};
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use std::{
    error::Error as StdError,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tower_service::Service;

type BoxError = Box<dyn StdError + Send + Sync>;
type Way = HttpsConnector<HttpConnector>;

/// Most unused connections that are kept.
const IDLE_MAX: usize = 512;
/// How much of a response is read ahead of the client.
const BUFFER_BYTES: usize = 64 * 1024;
/// What an upstream of HTTP/2 may have on the way: for one request, and for all of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// A pool of connections to the upstream, for requests with such bodies.
pub(super) type Upstream<B> = Client<InTime, B>;

/// The pool.
pub(super) fn upstream<B>(settings: &ProxySettings, url: &UpstreamUrl) -> Result<Upstream<B>, Failure>
where
    B: http_body::Body + Send,
    B::Data: Send,
{
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    let way = if url.is_https { encrypted(tcp, settings.upstream_http2)? } else { plain(tcp) };
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(settings.timeouts.upstream_idle)
        .pool_max_idle_per_host(IDLE_MAX)
        .http1_max_buf_size(BUFFER_BYTES)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_only(settings.upstream_http2);
    Ok(builder.build(InTime { way, connect: settings.timeouts.connect }))
}

fn encrypted(tcp: HttpConnector, is_http2: bool) -> Result<Way, Failure> {
    let provider = rustls::crypto::ring::default_provider();
    let roots = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider).map_err(|error| {
        Failure::unavailable("this machine's root certificates cannot be read")
            .because(&error)
            .hint("install `ca-certificates`, or name a file of them in `SSL_CERT_FILE`")
    })?;
    let https = roots.https_or_http();
    Ok(if is_http2 {
        https.enable_http2().wrap_connector(tcp)
    } else {
        https.enable_http1().wrap_connector(tcp)
    })
}

/// Never used to encrypt, so that no certificates are needed.
fn plain(tcp: HttpConnector) -> Way {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the versions that it comes with")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    HttpsConnector::from((tcp, config))
}

/// Connects, in time.
#[derive(Clone)]
pub(super) struct InTime {
    way: Way,
    connect: Duration,
}

/// It took too long.
#[derive(Debug, thiserror::Error)]
#[error("connecting to the upstream took too long")]
struct TooLong;

impl Service<Uri> for InTime {
    type Response = <Way as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.way.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.connect, self.way.call(uri));
        Box::pin(async move { connecting.await.unwrap_or_else(|_| Err(TooLong.into())) })
    }
}
