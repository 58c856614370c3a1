//! New connections: the guard goes before each.
//!
//! 1. The host is resolved once. Every address is checked, and the connection goes to one of these very addresses; the
//!    name stays what it was, for encryption and `Host`.
//! 2. Addresses are tried one after the other, the next one when the last has failed or taken [`HEAD_START`], and the
//!    first that connects wins.
//! 3. All of it, encryption included, happens in time.
//! 4. What fails because this machine has run out of descriptors, memory or ports was not tried, and says nothing of the
//!    target. Ports are told by an address of IPv4 alone: a machine without IPv6 has no address for it either, and always says
//!    so.
//! 5. Where there is a [proxy](super::Proxies) on the way, the connection goes there instead, and only the URL is checked.

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
    io,
    net::{IpAddr, SocketAddr},
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
                return Ok(TokioIo::new(Wire::from(this.connect(&uri).await?)));
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
    /// A connection to the target itself.
    pub(super) async fn connect(&self, uri: &Uri) -> Result<TcpStream, Cause> {
        first_to_connect(&self.vetted(uri).await?).await
    }

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
        let addresses = addresses.map_err(|error| Cause::from_machine(Trouble::Unresolved, &error))?;
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
                Err(cause) => last = weightier(last, cause),
            }
        }
    }
    while let Some(ended) = under_way.join_next().await {
        match ended.expect("connecting does not panic") {
            Ok(stream) => return Ok(stream),
            Err(cause) => last = weightier(last, cause),
        }
    }
    Err(last)
}

/// Which of two causes is told: the later one, unless an address was not tried at all.
fn weightier(earlier: Cause, later: Cause) -> Cause {
    if earlier.trouble == Trouble::Exhausted { earlier } else { later }
}

async fn connect(address: Vetted) -> Result<TcpStream, Cause> {
    let address = address.address();
    let stream = TcpStream::connect(address).await.map_err(|error| unconnected(address, &error))?;
    // A socket that cannot do this still delivers.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Why there is no connection to this address.
fn unconnected(address: SocketAddr, error: &io::Error) -> Cause {
    let is_without_port = address.is_ipv4() && error.kind() == io::ErrorKind::AddrNotAvailable;
    let trouble = if is_without_port { Trouble::Exhausted } else { Trouble::Unconnected };
    Cause::from_machine(trouble, error)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_ports_is_told_from_one_without_ipv6() {
        let error = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let trouble = |address: &str| unconnected(address.parse().unwrap(), &error).trouble;
        assert_eq!(trouble("192.0.2.1:80"), Trouble::Exhausted);
        assert_eq!(trouble("[2001:db8::1]:80"), Trouble::Unconnected);
    }

    #[test]
    fn that_an_address_was_not_tried_outweighs_that_another_did_not_answer() {
        let [refused, exhausted] =
            [Trouble::Unconnected, Trouble::Exhausted].map(|it| Cause::new(it, it.as_str()));
        assert_eq!(weightier(refused.clone(), exhausted.clone()), exhausted);
        assert_eq!(weightier(exhausted.clone(), refused), exhausted);
    }
}
