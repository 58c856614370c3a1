//! The upstream: as little as hyper can do.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, io, net::SocketAddr};
use tokio::net::TcpListener;

const BODY: &[u8] = &[b'x'; 256];

/// Starts it.
pub(crate) async fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    Ok(address)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.frame().await {}
    Ok(Response::new(Full::new(Bytes::from_static(BODY))))
}
