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

/// Of one body of JSON.
const JSON_BYTES: usize = 16 * 1_000_000;
/// Beyond that body: what is put in order at once, and all the rest of the process, code included. A copy would be four times that.
const MORE_FOR_JSON: usize = 4 * 1_000_000;

/// JSON that comes in pieces, of which each is made when it is asked for: what goes first, what is repeated with a number in it,
/// and what goes last.
struct Document {
    first: &'static str,
    each: fn(usize) -> String,
    last: &'static str,
    /// How many pieces were made, and how many bytes of what is repeated.
    made: usize,
    bytes: usize,
}

impl Document {
    fn new(first: &'static str, each: fn(usize) -> String, last: &'static str) -> Self {
        Self { first, each, last, made: 0, bytes: 0 }
    }
}

impl Body for Document {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut piece = String::with_capacity(PIECE_BYTES + 1_024);
        if self.made == 0 {
            piece.push_str(self.first);
        }
        while piece.len() < PIECE_BYTES && self.bytes < JSON_BYTES {
            let one = (self.each)(self.made);
            self.bytes += one.len();
            self.made += 1;
            piece.push_str(&one);
            if self.bytes >= JSON_BYTES {
                piece.push_str(self.last);
            }
        }
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece.into()))))
    }

    fn size_hint(&self) -> SizeHint {
        // Room is made for what was announced, and it is announced within a kilobyte.
        let mut hint = SizeHint::new();
        hint.set_upper((JSON_BYTES + 1_024) as u64);
        hint
    }
}

/// By how much the process grows while a document of JSON is looked at, beyond one copy of it.
async fn beyond_a_copy(document: Document) -> usize {
    let route = service_fn(|request: Request<idempotent::Body<Document>>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<serde::de::IgnoredAny>(&body).unwrap();
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body.len().to_string()))))
    });
    let service = IdempotencyLayer::new(Once::memory()).request_bytes_max(2 * JSON_BYTES).layer(route);
    let request = Request::post("/documents").header("authorization", "Bearer ann");
    let request = request.header("idempotency-key", "\"k\"").header("content-type", "application/json");
    let before = peak();
    let answer = service.oneshot(request.body(document).unwrap()).await.unwrap();
    let grown = peak() - before;
    let length: usize = String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec())
        .unwrap()
        .parse()
        .unwrap();
    assert!(grown >= length, "it was held: {grown} bytes for {length}");
    grown - length
}

#[tokio::test]
async fn json_of_many_records_is_not_copied_to_be_compared() {
    let record = |n: usize| {
        let comma = if n == 0 { "" } else { "," };
        format!(
            "{comma}{{\"sku\": \"\\u0041-{n}\", \"count\": {n}, \"at\": {{\"shelf\": {n}, \"row\": [1, 2]}}}}"
        )
    };
    let more = beyond_a_copy(Document::new("{\"items\": [", record, "], \"account\": \"ann\"}")).await;
    assert!(more <= MORE_FOR_JSON, "{more} bytes beyond the body");
}

#[tokio::test]
async fn json_with_one_long_string_is_not_copied_to_be_compared() {
    let text = |n: usize| if n.is_multiple_of(100) { "\\n".to_owned() } else { "x".repeat(76) };
    let more = beyond_a_copy(Document::new("{\"name\": \"a\", \"content\": \"", text, "\"}")).await;
    assert!(more <= MORE_FOR_JSON, "{more} bytes beyond the body");
}

/// The worst there is: four bytes are noted for each member of one object, in which each takes ten.
#[tokio::test]
async fn json_of_many_members_in_disorder_takes_four_bytes_for_each() {
    let member = |n: usize| {
        let comma = if n == 0 { "" } else { "," };
        format!("{comma}\"{:06}\":1", 9_999_999 - n)
    };
    let more = beyond_a_copy(Document::new("{", member, "}")).await;
    assert!(more <= JSON_BYTES / 10 * 4 + MORE_FOR_JSON, "{more} bytes beyond the body");
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
