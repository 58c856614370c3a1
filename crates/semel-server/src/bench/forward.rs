//! A forwarder that stores nothing: hyper's server and the client that comes with it, as they are, and nothing between.

use http::{Request, Response, Uri};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{self, Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use std::{io, net::SocketAddr};
use tokio::net::TcpListener;

/// Starts it in front of whoever is there, and says where it is.
pub async fn start(to: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            let client = client.clone();
            let service = service_fn(move |request| pass(client.clone(), to, request));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(address)
}

async fn pass(
    client: Client<HttpConnector, Incoming>,
    to: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, legacy::Error> {
    let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
    *request.uri_mut() = format!("http://{to}{path}").parse::<Uri>().expect("a path is a part of a URI");
    client.request(request).await
}
