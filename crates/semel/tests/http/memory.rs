//! What uploads take while they are held.

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use semel::{
    BoxError, Once,
    http::{self as idempotent, IdempotencyLayer},
};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{sync::Barrier, task::JoinSet};
use tower::{Layer as _, ServiceExt as _, service_fn};

const UPLOADS: usize = 1_000;
const PIECE_BYTES: usize = 16 * 1024;
/// A megabyte.
const PIECES: usize = 61;
/// Beyond the uploads themselves, each once: what keeps them apart, and what the allocator does not give back.
const MORE: usize = 150 * 1_000_000;

/// A body that comes in pieces, of which each is made when it is asked for.
struct Upload {
    pieces: usize,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(left) = self.pieces.checked_sub(1) else { return Poll::Ready(None) };
        self.pieces = left;
        Poll::Ready(Some(Ok(Frame::data(vec![b'x'; PIECE_BYTES].into()))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((self.pieces * PIECE_BYTES) as u64)
    }
}

/// The most memory that this process ever had, in bytes. Every test is a process.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn a_thousand_uploads_of_a_megabyte_take_one_copy_each() {
    let all = Arc::new(Barrier::new(UPLOADS));
    let route = service_fn(move |request: Request<idempotent::Body<Upload>>| {
        let all = Arc::clone(&all);
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            all.wait().await;
            let length = Bytes::from(body.len().to_string());
            Ok::<_, Infallible>(Response::new(Full::new(length)))
        }
    });
    let service = IdempotencyLayer::new(Once::memory()).layer(route);
    let before = peak();
    let mut uploads = JoinSet::new();
    for key in 0..UPLOADS {
        let request = Request::post("/uploads").header("authorization", "Bearer ann");
        let request = request.header("idempotency-key", format!("\"upload-{key}\""));
        let request = request.body(Upload { pieces: PIECES }).unwrap();
        uploads.spawn(service.clone().oneshot(request));
    }
    while let Some(answer) = uploads.join_next().await {
        let body = answer.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, (PIECES * PIECE_BYTES).to_string());
    }
    let (grown, uploaded) = (peak() - before, UPLOADS * PIECES * PIECE_BYTES);
    assert!(grown >= uploaded, "they were held at once: {grown} bytes for {uploaded}");
    assert!(grown <= uploaded + MORE, "{grown} bytes for {uploaded}");
}
