//! Over real connections: plain hyper, HTTP/1.1 and HTTP/2, a gRPC-web call, and clients that hang up.

use crate::{
    bodies::{Piece, data, pieces, whole},
    support::{Answer, Given, World},
};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use semel::http::{Body, IdempotencyLayer};
use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};
use tower::{Layer as _, service_fn};

/// A hyper server on loopback, stopped when dropped.
struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start<F, A>(layer: IdempotencyLayer, answer: F) -> Self
    where
        F: Fn(Request<Body<Incoming>>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response<Given>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = layer.layer(service_fn(move |request: Request<Body<Incoming>>| {
            let answer = answer(request);
            async move { Ok::<_, Infallible>(answer.await) }
        }));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = TowerToHyperService::new(service.clone());
                tokio::spawn(async move {
                    let connection = auto::Builder::new(TokioExecutor::new());
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, task }
    }

    /// What curl would see: the bytes of an HTTP/1.1 response to a request after which the connection is closed.
    async fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.replace('\n', "\r\n").as_bytes()).await.unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        String::from_utf8_lossy(&response).replace("\r\n", "\n")
    }
}

fn layer(world: &World) -> IdempotencyLayer {
    IdempotencyLayer::new(world.once.clone())
}

const REQUEST: &str = "POST /orders HTTP/1.1\nHost: localhost\nAuthorization: Bearer ann\n\
    Idempotency-Key: \"k\"\nContent-Type: application/json\nContent-Length: 2\nTE: trailers\nConnection: close\n\n{}";

#[tokio::test]
async fn a_plain_hyper_server_answers_and_replays() {
    let world = World::new();
    let server = {
        let world = world.clone();
        Server::start(layer(&world), move |_| {
            let number = world.called();
            async move {
                Response::builder()
                    .status(201)
                    .header("etag", "\"7\"")
                    .body(whole(format!("call {number}")))
                    .unwrap()
            }
        })
        .await
    };
    let first = server.raw(REQUEST).await;
    assert!(first.starts_with("HTTP/1.1 201 Created\n") && first.ends_with("\n\ncall 1"), "{first}");
    assert!(!first.contains("idempotency-replayed"), "{first}");
    let again = server.raw(REQUEST).await;
    assert!(again.starts_with("HTTP/1.1 201 Created\n") && again.ends_with("\n\ncall 1"), "{again}");
    for line in ["idempotency-replayed: true\n", "etag: \"7\"\n", "content-length: 6\n"] {
        assert!(again.contains(line), "no `{}` in {again}", line.trim());
    }
    assert_eq!(again.matches("content-length").count(), 1);
    assert_eq!(again.matches("\ndate: ").count(), 1, "the server's own");
}

#[tokio::test]
async fn trailers_are_replayed_on_the_wire() {
    let server = Server::start(layer(&World::new()), |_| async {
        let trailers: HeaderMap = [("x-sum".parse().unwrap(), "9".parse().unwrap())].into_iter().collect();
        let body = pieces([data("one "), data("two"), Ok(Frame::trailers(trailers))]);
        Response::builder().header("trailer", "x-sum").body(body).unwrap()
    })
    .await;
    for _ in 0..2 {
        let response = server.raw(REQUEST).await;
        assert!(response.ends_with("0\nx-sum: 9\n\n"), "{response}");
        assert!(response.contains("trailer: x-sum\n"), "{response}");
    }
}

#[tokio::test]
async fn chunks_over_the_limit_are_refused_while_they_come() {
    let world = World::new();
    let server = {
        let world = world.clone();
        Server::start(layer(&world).request_bytes_max(10), move |_| {
            world.called();
            async { Response::new(whole("")) }
        })
        .await
    };
    let request = "POST /orders HTTP/1.1\nHost: localhost\nAuthorization: a\nIdempotency-Key: k\n\
        Transfer-Encoding: chunked\nConnection: close\n\n6\n123456\n6\n123456\n0\n\n";
    let response = server.raw(request).await;
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    assert_eq!(world.calls(), 0);
}

#[tokio::test]
async fn two_keys_on_the_wire_are_refused() {
    let server = Server::start(layer(&World::new()), |_| async { Response::new(whole("")) }).await;
    for second in ["Idempotency-Key: \"k\"", "idempotency-key: other"] {
        let request =
            REQUEST.replace("Idempotency-Key: \"k\"\n", &format!("Idempotency-Key: \"k\"\n{second}\n"));
        let response = server.raw(&request).await;
        assert!(response.starts_with("HTTP/1.1 400 ") && response.contains("/key_invalid/"), "{response}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_does_not_stop_the_work() {
    let world = World::new();
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let layer = layer(&world);
    let server = {
        let (world, began, go) = (world.clone(), Arc::clone(&began), Arc::clone(&go));
        Server::start(layer.clone(), move |_| {
            let (number, began, go) = (world.called(), Arc::clone(&began), Arc::clone(&go));
            async move {
                began.notify_one();
                go.notified().await;
                Response::new(whole(format!("call {number}")))
            }
        })
        .await
    };
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(REQUEST.replace('\n', "\r\n").as_bytes()).await.unwrap();
    began.notified().await;
    drop(stream);
    go.notify_one();
    layer.idle().await;
    let replay = server.raw(REQUEST).await;
    assert!(replay.contains("idempotency-replayed: true\n") && replay.ends_with("call 1"), "{replay}");
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn a_connection_that_breaks_while_it_sends_has_asked_for_nothing() {
    let world = World::new();
    let layer = layer(&world);
    let server = {
        let world = world.clone();
        Server::start(layer.clone(), move |_| {
            let number = world.called();
            async move { Response::new(whole(format!("call {number}"))) }
        })
        .await
    };
    let half = REQUEST.replace("Content-Length: 2", "Content-Length: 200").replace('\n', "\r\n");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(half.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    layer.idle().await;
    assert_eq!(world.calls(), 0);
    assert!(server.raw(REQUEST).await.ends_with("call 1"));
}

fn client(is_http2: bool) -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).http2_only(is_http2).build_http()
}

fn request(server: &Server, content_type: &str, body: Bytes) -> Request<Full<Bytes>> {
    Request::post(format!("http://{}/shop.Orders/Create", server.address))
        .header("authorization", "Bearer ann")
        .header("idempotency-key", "\"k\"")
        .header("content-type", content_type)
        .body(Full::new(body))
        .unwrap()
}

#[tokio::test]
async fn http_2_answers_and_replays_with_trailers() {
    let server = Server::start(layer(&World::new()), |_| async {
        let trailers: HeaderMap = [("x-sum".parse().unwrap(), "9".parse().unwrap())].into_iter().collect();
        Response::new(pieces([data("two"), Ok(Frame::trailers(trailers))]))
    })
    .await;
    let client = client(true);
    for is_replay in [false, true] {
        let response = client.request(request(&server, "text/plain", Bytes::new())).await.unwrap();
        assert_eq!(response.version(), http::Version::HTTP_2);
        let answer = Answer::of(response).await;
        assert_eq!((answer.text(), answer.is_replay()), ("two", is_replay));
        assert_eq!(answer.trailers.unwrap()["x-sum"], "9");
    }
}

/// One length-prefixed message, and the status as a frame of the body: a unary gRPC-web response.
fn grpc_web(message: &str, status: u32) -> Vec<Piece> {
    let frame = |flag: u8, content: &[u8]| {
        let mut frame = vec![flag];
        frame.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
        frame.extend(content);
        Ok(Frame::data(Bytes::from(frame)))
    };
    vec![frame(0, message.as_bytes()), frame(0x80, format!("grpc-status:{status}\r\n").as_bytes())]
}

#[tokio::test]
async fn a_grpc_web_call_is_carried_out_once_and_replayed_to_the_byte() {
    for is_http2 in [false, true] {
        let world = World::new();
        let server = {
            let world = world.clone();
            Server::start(layer(&world), move |request: Request<Body<Incoming>>| {
                let number = world.called();
                async move {
                    let sent = request.into_body().collect().await.unwrap().to_bytes();
                    let body = pieces(grpc_web(&format!("call {number} of {} bytes", sent.len()), 0));
                    Response::builder()
                        .header("content-type", "application/grpc-web+proto")
                        .body(body)
                        .unwrap()
                }
            })
            .await
        };
        let client = client(is_http2);
        let send = async |message: &'static [u8]| {
            let body = Bytes::from_static(message);
            Answer::of(client.request(request(&server, "application/grpc-web+proto", body)).await.unwrap())
                .await
        };
        let first = send(b"\0\0\0\0\x01a").await;
        assert_eq!(&first.body[..5], b"\0\0\0\0\x11");
        let replay = send(b"\0\0\0\0\x01a").await;
        assert!(replay.is_replay());
        assert_eq!(
            (&replay.body, &replay.headers["content-type"]),
            (&first.body, &first.headers["content-type"])
        );
        let mismatch = send(b"\0\0\0\0\x01b").await;
        assert_eq!(
            (mismatch.status.as_u16(), &mismatch.headers["grpc-status"]),
            (200, &"3".parse().unwrap())
        );
        assert_eq!(world.calls(), 1);
    }
}

#[tokio::test]
async fn a_grpc_web_call_whose_body_says_try_again_is_not_kept() {
    for (status, is_kept) in [(14, false), (8, false), (5, true), (0, true)] {
        for stores_errors in [false, true] {
            let world = World::new();
            let layer = if stores_errors { layer(&world).store_errors() } else { layer(&world) };
            let server = {
                let world = world.clone();
                Server::start(layer, move |_| {
                    let number = world.called();
                    let body =
                        pieces(grpc_web(&format!("call {number}"), if number == 1 { status } else { 0 }));
                    let response = Response::builder().header("content-type", "application/grpc-web+proto");
                    async move { response.body(body).unwrap() }
                })
                .await
            };
            let client = client(true);
            let message = Bytes::from_static(b"\0\0\0\0\x01a");
            let send = async || {
                let request = request(&server, "application/grpc-web+proto", message.clone());
                Answer::of(client.request(request).await.unwrap()).await
            };
            let (first, second) = (send().await, send().await);
            assert_eq!(&first.body[5..11], b"call 1", "its client gets what the service said");
            let is_kept = is_kept || stores_errors;
            assert_eq!(
                (second.is_replay(), world.calls()),
                (is_kept, if is_kept { 1 } else { 2 }),
                "{status}"
            );
            assert!(send().await.is_replay());
        }
    }
}

#[tokio::test]
async fn many_connections_with_one_key_are_one_call() {
    let world = World::new();
    let server = {
        let world = world.clone();
        let layer = layer(&world).wait(Duration::from_mins(1));
        Server::start(layer, move |_| {
            let number = world.called();
            async move { Response::new(whole(format!("call {number}"))) }
        })
        .await
    };
    let client = client(false);
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let (client, request) = (client.clone(), request(&server, "text/plain", Bytes::from_static(b"x")));
        crowd.spawn(async move { Answer::of(client.request(request).await.unwrap()).await });
    }
    while let Some(answer) = crowd.join_next().await {
        assert_eq!(answer.unwrap().text(), "call 1");
    }
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn what_has_no_key_streams_both_ways() {
    let server = Server::start(layer(&World::new()), |request: Request<Body<Incoming>>| async move {
        // Gives back what comes, as it comes.
        let body = request.into_body().map_err(Into::into).boxed_unsync();
        Response::new(body)
    })
    .await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut seen = String::new();
    for word in ["hello", "world"] {
        stream.write_all(format!("5\r\n{word}\r\n").as_bytes()).await.unwrap();
        while !seen.contains(word) {
            let mut bytes = [0; 1024];
            let count = stream.read(&mut bytes).await.unwrap();
            assert!(count > 0, "{seen}");
            seen.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
    }
    assert!(seen.contains("hello") && seen.contains("world"));
}
