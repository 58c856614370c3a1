//! Proxies on the way to targets, where somebody asked for them.
//!
//! 1. Nothing of the environment is looked at unless it was asked for: [`Proxies::from_environment`].
//! 2. A proxy is given the whole URL of a plain target. To an encrypted one, and to one of HTTP/2, it makes a tunnel.
//! 3. The proxy looks names up, and not this machine: the guard checks the URL, the name and an address in it, and what a name
//!    stands for is the proxy's to refuse.
//! 4. The guard lets every proxy pass: whoever runs this has named it.
//!
//! It does not speak to proxies that encrypt, nor SOCKS.

use super::{Cause, Trouble};
use http::{HeaderValue, Uri, uri::Scheme};
use hyper_util::{
    client::{
        legacy::connect::{Connected, Connection, proxy::Tunnel},
        proxy::matcher::{Intercept, Matcher},
    },
    rt::TokioIo,
};
use semel_core::BoxFuture;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tower_service::Service;

/// Which proxies are on the way; none unless this is said.
#[derive(Clone, Default, Debug)]
pub struct Proxies(Option<Arc<Matcher>>);

/// A proxy that cannot be spoken to.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the proxy `{0}` cannot be used: wanted `http://host:port`")]
pub struct UnusableProxy(String);

impl Proxies {
    /// As the environment says, in the way of curl: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    pub fn from_environment() -> Result<Self, UnusableProxy> {
        let except = ["NO_PROXY", "no_proxy"].into_iter().find_map(|it| std::env::var(it).ok());
        Self::checked(Matcher::from_env(), &except.unwrap_or_default())
    }

    /// This one, for everything but these hosts and networks, which are separated by commas.
    pub fn all(url: &str, except: &str) -> Result<Self, UnusableProxy> {
        Self::checked(Matcher::builder().all(url.to_owned()).no(except.to_owned()).build(), except)
    }

    fn checked(matcher: Matcher, except: &str) -> Result<Self, UnusableProxy> {
        for anybody in ["http://example.com/", "https://example.com/"] {
            let found = matcher.intercept(&Uri::from_static(anybody));
            if let Some(found) = found.filter(|it| it.uri().scheme() != Some(&Scheme::HTTP)) {
                return Err(UnusableProxy(found.uri().to_string()));
            }
        }
        // To the matcher that is every name, and no address.
        let is_for_nobody = except.split(',').any(|it| it.trim() == "*");
        Ok(Self((!is_for_nobody).then(|| Arc::new(matcher))))
    }

    /// The one on the way to a target.
    pub(super) fn to(&self, target: &Uri) -> Option<Proxy> {
        self.0.as_ref()?.intercept(target).map(Proxy)
    }
}

/// A proxy on the way.
pub(super) struct Proxy(Intercept);

impl Proxy {
    /// What a plain request says to it.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        self.0.basic_auth().cloned().map(|mut it| {
            it.set_sensitive(true);
            it
        })
    }

    /// A connection to a plain target goes to the proxy itself.
    pub(super) async fn connect(&self) -> Result<TokioIo<Wire>, Cause> {
        let stream = reach(self.0.uri()).await?;
        Ok(TokioIo::new(Wire { stream, is_proxied: true }))
    }

    /// A connection through the proxy.
    pub(super) async fn tunnel(&self, target: Uri) -> Result<TokioIo<Wire>, Cause> {
        let mut tunnel = Tunnel::new(self.0.uri().clone(), Direct);
        if let Some(authorization) = self.authorization() {
            tunnel = tunnel.with_auth(authorization);
        }
        let port =
            target.port_u16().unwrap_or(if target.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 });
        let place = format!("{}:{port}", target.host().unwrap_or_default());
        let place = place.parse().map_err(|error| Cause::from_error(Trouble::Unconnected, &error))?;
        tunnel.call(place).await.map_err(|error| Cause::from_error(Trouble::Unconnected, &error))
    }
}

/// Connects to a proxy.
#[derive(Clone)]
struct Direct;

impl Service<Uri> for Direct {
    type Response = TokioIo<Wire>;
    type Error = Cause;
    type Future = BoxFuture<'static, Result<Self::Response, Cause>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, proxy: Uri) -> Self::Future {
        Box::pin(async move { reach(&proxy).await.map(|stream| TokioIo::new(Wire::from(stream))) })
    }
}

async fn reach(proxy: &Uri) -> Result<TcpStream, Cause> {
    let host = proxy.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, proxy.port_u16().unwrap_or(80))).await;
    let stream = stream.map_err(|error| {
        let Cause { trouble, .. } = Cause::from_machine(Trouble::Unconnected, &error);
        Cause::new(trouble, format!("the proxy: {error}"))
    })?;
    // A socket that cannot do this still delivers.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// A connection, which may end at a proxy.
pub(super) struct Wire {
    stream: TcpStream,
    is_proxied: bool,
}

impl From<TcpStream> for Wire {
    fn from(stream: TcpStream) -> Self {
        Self { stream, is_proxied: false }
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_proxied)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_for_everything_but_what_is_excepted() {
        let proxies =
            Proxies::all("http://ann:secret@proxy:3128", "internal.example.com,10.0.0.0/8").unwrap();
        let is_used = |target| proxies.to(&Uri::from_static(target)).is_some();
        assert!(is_used("http://orders.example.com/") && is_used("https://orders.example.com/"));
        assert!(!is_used("http://a.internal.example.com/") && !is_used("https://10.1.2.3/"));
        let nobodys = Proxies::all("http://proxy:3128", "internal.example.com, *").unwrap();
        for target in ["http://orders.example.com/", "https://10.1.2.3/", "http://[2001:db8::1]/"] {
            assert!(nobodys.to(&Uri::from_static(target)).is_none(), "{target}");
        }
        let none = Proxies::default();
        assert!(none.to(&Uri::from_static("http://orders.example.com/")).is_none());
    }

    #[test]
    fn a_proxy_that_is_not_spoken_to_is_refused_and_no_password_is_shown() {
        for wrong in ["socks5://ann:secret@proxy:1080", "https://ann:secret@proxy:3128"] {
            let refused = Proxies::all(wrong, "").unwrap_err().to_string();
            assert!(refused.contains("proxy") && !refused.contains("secret"), "{refused}");
        }
        let shown = format!("{:?}", Proxies::all("http://ann:secret@proxy:3128", "").unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
