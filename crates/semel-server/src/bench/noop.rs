//! A function that does nothing: as little as hyper can do.
//!
//! It counts its calls, and how long events that say when they were sent took to get here. `GET` tells both, and forgets the
//! times.

use super::{
    percentile::percentile,
    traffic::{SENT, nanos},
};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{
    convert::Infallible,
    io, mem,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::net::TcpListener;

/// Most times that are kept.
pub const TIMES_MAX: usize = 10_000_000;

/// What the function has seen.
#[derive(Debug, Default)]
pub struct Noop {
    calls: AtomicU64,
    /// Microseconds from sent to called.
    times: Mutex<Vec<u64>>,
}

/// How long events took to get here, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// How many were measured.
    pub count: usize,
    /// Of the one in the middle.
    pub p50: u64,
    /// Of the slowest in a hundred.
    pub p99: u64,
}

impl Noop {
    /// Starts it in the surrounding runtime.
    pub async fn start() -> io::Result<(SocketAddr, Arc<Self>)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let noop = Arc::new(Self::default());
        let called = Arc::clone(&noop);
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                // Without it, answers are slower and not wrong.
                let _ = stream.set_nodelay(true);
                let noop = Arc::clone(&called);
                let service = service_fn(move |request| answer(Arc::clone(&noop), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok((address, noop))
    }

    /// How often it was called.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// How long events took to get here since this was last asked.
    pub fn take_times(&self) -> Times {
        let mut times = mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner));
        times.sort_unstable();
        Times { count: times.len(), p50: percentile(&times, 0.5), p99: percentile(&times, 0.99) }
    }

    fn called(&self, request: &Request<Incoming>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let sent = request.headers().get(SENT).and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
        if let Some(sent) = sent {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            if times.len() < TIMES_MAX {
                times.push(nanos().saturating_sub(sent) / 1_000);
            }
        }
    }
}

async fn answer(noop: Arc<Noop>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::GET {
        let Times { count, p50, p99 } = noop.take_times();
        let text = format!("{} {count} {p50} {p99}", noop.calls());
        return Ok(Response::new(Full::new(text.into())));
    }
    noop.called(&request);
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.frame().await {}
    Ok(Response::new(Full::new(Bytes::from_static(b"{\"ok\":true}"))))
}
