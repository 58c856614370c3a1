//! New connections: the guard goes before each.
//!
//! 1. The host is resolved once. Every address is checked, and the connection goes to one of these very addresses; the
//!    name stays what it was, for encryption and `Host`.
//! 2. Addresses are tried one after the other, the next one when the last has failed or taken [`HEAD_START`], and the
//!    first that connects wins.
//! 3. All of it, encryption included, happens in time.
//! 4. Where there is a [proxy](super::Proxies) on the way, the connection goes there instead, and only the URL is checked.

use super::{
    ADDRESSES_MAX, Cause, Resolve, Trouble,
    guard::{Host, Policy, Vetted, check_url},
    proxies::{Proxies, Wire},
};
use http::{Uri, uri::Scheme};
use hyper_rustls::HttpsConnector;
use hyper_util::rt::TokioIo;
use semel_core::{BoxFuture, sabotage::is_on};
use std::{
    error::Error as StdError,
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{timeout, timeout_at},
};
use tower_service::Service;

/// How long an address has until the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);

type BoxError = Box<dyn StdError + Send + Sync>;
type Way = HttpsConnector<Guarded>;

/// Connects where the guard allows it.
#[derive(Clone)]
pub(super) struct Guarded {
    pub(super) policy: Arc<Policy>,
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) proxies: Proxies,
    /// Whether what is spoken is for no proxy to understand.
    pub(super) always_tunnels: bool,
}

impl Service<Uri> for Guarded {
    type Response = TokioIo<Wire>;
    type Error = Cause;
    type Future = BoxFuture<'static, Result<Self::Response, Cause>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let Some(proxy) = this.proxies.to(&uri) else {
                let vetted = this.vetted(&uri).await?;
                let stream = first_to_connect(&vetted).await?;
                return Ok(TokioIo::new(Wire::from(stream)));
            };
            if !is_on("proxies_unguarded") {
                check_url(&uri.to_string(), &this.policy).map_err(Cause::blocked)?;
            }
            if this.always_tunnels || uri.scheme() == Some(&Scheme::HTTPS) {
                proxy.tunnel(uri).await
            } else {
                proxy.connect().await
            }
        })
    }
}

impl Guarded {
    async fn vetted(&self, uri: &Uri) -> Result<Vec<Vetted>, Cause> {
        let target = check_url(&uri.to_string(), &self.policy).map_err(Cause::blocked)?;
        let addresses = match target.host() {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(name).await?,
        };
        self.policy.vet(target.host(), &addresses, target.port()).map_err(Cause::blocked)
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, Cause> {
        let addresses = self.resolver.resolve(name).await;
        let addresses = addresses.map_err(|error| Cause::from_error(Trouble::Unresolved, &error))?;
        if addresses.is_empty() {
            return Err(Cause::new(Trouble::Unresolved, "the answer is empty"));
        }
        Ok(addresses)
    }
}

async fn first_to_connect(addresses: &[Vetted]) -> Result<TcpStream, Cause> {
    if let [only] = addresses {
        return connect(*only).await;
    }
    let mut under_way = JoinSet::new();
    let mut last = Cause::new(Trouble::Unconnected, "");
    for address in addresses.iter().take(ADDRESSES_MAX) {
        under_way.spawn(connect(*address));
        let until = tokio::time::Instant::now() + HEAD_START;
        while let Ok(Some(ended)) = timeout_at(until, under_way.join_next()).await {
            match ended.expect("connecting does not panic") {
                Ok(stream) => return Ok(stream),
                Err(cause) => last = cause,
            }
        }
    }
    while let Some(ended) = under_way.join_next().await {
        match ended.expect("connecting does not panic") {
            Ok(stream) => return Ok(stream),
            Err(cause) => last = cause,
        }
    }
    Err(last)
}

async fn connect(address: Vetted) -> Result<TcpStream, Cause> {
    let connected = TcpStream::connect(address.address()).await;
    let stream = connected.map_err(|error| Cause::from_error(Trouble::Unconnected, &error))?;
    // A socket that cannot do this still delivers.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Connects and encrypts, in time.
#[derive(Clone)]
pub(super) struct InTime {
    pub(super) way: Way,
    pub(super) limit: Duration,
}

impl Service<Uri> for InTime {
    type Response = <Way as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.way.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = timeout(self.limit, self.way.call(uri));
        Box::pin(async move {
            let too_late = |_| Err(Cause::new(Trouble::ConnectTooLate, "").into());
            connecting.await.unwrap_or_else(too_late)
        })
    }
}
