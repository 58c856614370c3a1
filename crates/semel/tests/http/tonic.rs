//! A gRPC-web call of tonic's own client, through the layer, to tonic's own server.

use crate::support::{Answer, World};
use bytes::{Buf as _, BufMut as _, Bytes};
use http::{Request, Response, uri::PathAndQuery};
use http_body_util::Full;
use semel::{
    BoxFuture,
    http::{Idempotency, IdempotencyLayer},
};
use std::{
    convert::Infallible,
    task::{Context, Poll},
};
use tonic::{
    Code, Status,
    body::Body,
    client, codec,
    codec::{Codec, DecodeBuf, EncodeBuf},
    server,
};
use tonic_web::{GrpcWebClientService, GrpcWebLayer, GrpcWebService};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

/// Messages that are text.
#[derive(Clone, Copy, Default)]
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl codec::Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, message: String, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(message.as_bytes());
        Ok(())
    }
}

impl codec::Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, sent: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let message = sent.copy_to_bytes(sent.remaining());
        String::from_utf8(message.to_vec()).map(Some).map_err(|_| Status::invalid_argument("not UTF-8"))
    }
}

/// A service as tonic's generated code makes it: it answers with the number of its call, and fails the first one with a status.
#[derive(Clone)]
struct Orders {
    world: World,
    fails: Option<Code>,
}

impl Service<Request<Body>> for Orders {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { world, fails } = self.clone();
        let order = service_fn(move |request: tonic::Request<String>| {
            let (number, fails) = (world.called(), fails);
            async move {
                match fails {
                    Some(code) if number == 1 => Err(Status::new(code, "not this time")),
                    _ => Ok(tonic::Response::new(format!("call {number}: {}", request.into_inner()))),
                }
            }
        });
        Box::pin(async move { Ok(server::Grpc::new(Text).unary(order, request).await) })
    }
}

/// tonic's server below its gRPC-web layer, below ours.
type Served = Idempotency<GrpcWebService<Orders>>;

fn serve(world: &World, layer: &IdempotencyLayer, fails: Option<Code>) -> Served {
    layer.layer(GrpcWebLayer::new().layer(Orders { world: world.clone(), fails }))
}

const PATH: &str = "/shop.Orders/Place";

/// Sends a message under a key, with tonic's own gRPC-web client.
async fn place(served: &Served, key: &str, message: &str) -> Result<tonic::Response<String>, Status> {
    let transport = GrpcWebClientService::new(served.clone());
    let mut client = client::Grpc::with_origin(transport, "http://shop.example".parse().unwrap());
    let mut request = tonic::Request::new(message.to_owned());
    request.metadata_mut().insert("authorization", "Bearer ann".parse().unwrap());
    if !key.is_empty() {
        request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
    }
    client.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
    client.unary(request, PathAndQuery::from_static(PATH), Text).await
}

/// A frame of gRPC-web, sent as it is.
async fn send(served: &Served, content_type: &str, body: impl Into<Bytes>) -> Answer {
    let request =
        Request::post(PATH).header("authorization", "Bearer ann").header("idempotency-key", "\"k\"");
    let request = request.header("content-type", content_type).header("accept", content_type);
    Answer::of(served.clone().oneshot(request.body(Full::new(body.into())).unwrap()).await.unwrap()).await
}

const BINARY: &str = "application/grpc-web+proto";
const TEXT: &str = "application/grpc-web-text+proto";

#[tokio::test]
async fn a_call_is_carried_out_once_and_its_duplicates_get_the_same_answer() {
    let world = World::new();
    let served = serve(&world, &world.layer(), None);
    let first = place(&served, "\"k\"", "a book").await.unwrap();
    assert_eq!(first.get_ref(), "call 1: a book");
    assert!(first.metadata().get("idempotency-replayed").is_none());
    let again = place(&served, "\"k\"", "a book").await.unwrap();
    assert_eq!(again.get_ref(), "call 1: a book");
    assert_eq!(again.metadata().get("idempotency-replayed").unwrap(), "true");
    assert_eq!(again.metadata().get("grpc-status").unwrap(), "0", "the trailers came, too");
    assert_eq!(world.calls(), 1);
    assert_eq!(place(&served, "\"other\"", "a book").await.unwrap().get_ref(), "call 2: a book");
}

#[tokio::test]
async fn a_replay_is_exact_to_the_byte_with_the_frame_of_its_trailers() {
    for (content_type, message) in [(BINARY, &b"\0\0\0\0\x06a book"[..]), (TEXT, b"AAAAAAZhIGJvb2s=")] {
        let world = World::new();
        let served = serve(&world, &world.layer(), None);
        let first = send(&served, content_type, message).await;
        assert_eq!(
            (first.status.as_u16(), &first.headers["content-type"]),
            (200, &content_type.parse().unwrap())
        );
        if content_type == BINARY {
            let frames = b"\0\0\0\0\x0ecall 1: a book\x80\0\0\0\x0fgrpc-status:0\r\n";
            assert_eq!(&first.body[..], frames);
        }
        let replay = send(&served, content_type, message).await;
        assert!(replay.is_replay());
        assert_eq!(
            (replay.status, &replay.body, &replay.trailers),
            (first.status, &first.body, &first.trailers)
        );
        assert_eq!(replay.headers["content-type"], first.headers["content-type"]);
        assert_eq!(world.calls(), 1);
    }
}

#[tokio::test]
async fn a_status_that_says_try_again_is_not_kept_and_any_other_is() {
    for (code, is_kept) in [
        (Code::Unavailable, false),
        (Code::ResourceExhausted, false),
        (Code::Internal, false),
        (Code::NotFound, true),
        (Code::InvalidArgument, true),
    ] {
        let world = World::new();
        let served = serve(&world, &world.layer(), Some(code));
        assert_eq!(place(&served, "\"k\"", "a book").await.unwrap_err().code(), code);
        let again = place(&served, "\"k\"", "a book").await;
        if is_kept {
            let status = again.unwrap_err();
            assert_eq!((status.code(), status.message()), (code, "not this time"), "it is replayed");
        } else {
            assert_eq!(again.unwrap().get_ref(), "call 2: a book", "{code:?}");
        }
        assert_eq!(world.calls(), if is_kept { 1 } else { 2 }, "{code:?}");
    }
}

#[tokio::test]
async fn what_is_refused_is_told_in_the_words_of_grpc() {
    let world = World::new();
    let served = serve(&world, &world.layer().required(), None);
    place(&served, "\"k\"", "a book").await.unwrap();
    let mismatch = place(&served, "\"k\"", "two books").await.unwrap_err();
    assert_eq!(mismatch.code(), Code::InvalidArgument);
    assert!(mismatch.message().starts_with("The key was used for another request: "), "{mismatch}");
    assert!(mismatch.message().ends_with("/problems/mismatch/index.html"), "{mismatch}");
    let missing = place(&served, "", "a book").await.unwrap_err();
    assert_eq!(missing.code(), Code::InvalidArgument);
    assert!(missing.message().starts_with("Idempotency-Key is missing: "), "{missing}");
    world.store.is_down.store(true, std::sync::atomic::Ordering::SeqCst);
    let store = send(&served, TEXT, "AAAAAAFh").await;
    assert_eq!((store.status.as_u16(), &store.headers["grpc-status"]), (200, &"14".parse().unwrap()));
    assert_eq!((store.retry_after(), &store.headers["content-type"]), (5, &TEXT.parse().unwrap()));
    assert!(store.body.is_empty());
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn a_response_that_is_too_large_is_not_made_again_for_a_grpc_client() {
    let world = World::new();
    let served = serve(&world, &world.layer().response_bytes_max(10), None);
    assert_eq!(place(&served, "\"k\"", "a book").await.unwrap().get_ref(), "call 1: a book");
    assert_eq!(place(&served, "\"k\"", "a book").await.unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(world.calls(), 1);
}
