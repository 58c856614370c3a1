//! Gathering a body, up to a limit.
//!
//! 1. A body that comes in one piece is kept as that piece. One that comes in many is copied once, and the pieces are
//!    let go: many tiny ones do not cost more than their bytes.
//! 2. Room is made as bytes come, not as they are announced, and for no more than was announced.
//! 3. What does not fit is given back.

use ::http::HeaderMap;
use bytes::Bytes;
use http_body::{Body, Frame};
use semel_core::sabotage;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// Smallest room that is made for a body that comes in many pieces.
const ROOM_BYTES_MIN: usize = 8 * 1024;

/// What was gathered so far.
#[derive(Default)]
pub(super) struct Buffer {
    bytes_max: usize,
    /// How long the whole will be, if somebody said so: no more room than that is made at once.
    announced: usize,
    /// The first piece, while it is the only one.
    first: Bytes,
    many: Vec<u8>,
}

/// How the gathering ended.
pub(super) enum Ended<E> {
    /// Everything is there, and these trailers came last.
    Whole(Option<HeaderMap>),
    /// This piece does not fit.
    Over(Bytes),
    /// The body failed.
    Broken(E),
}

impl Buffer {
    /// For a body of which so much is known.
    pub(super) fn new(body: &impl Body, bytes_max: usize) -> Self {
        let hint = body.size_hint();
        let announced = hint.upper().unwrap_or(u64::MAX).min(bytes_max as u64) as usize;
        Self { bytes_max, announced, first: Bytes::new(), many: Vec::new() }
    }

    fn len(&self) -> usize {
        self.first.len() + self.many.len()
    }

    /// Takes a piece, or gives it back if it does not fit.
    fn push(&mut self, piece: Bytes) -> Result<(), Bytes> {
        let length = self.len() + piece.len();
        if length > self.bytes_max && !sabotage::is_on("http_body_has_no_limit") {
            return Err(piece);
        }
        if self.len() == 0 {
            self.first = piece;
            return Ok(());
        }
        if length > self.many.capacity() {
            let room = length.max((length * 2).max(ROOM_BYTES_MIN).min(self.announced));
            self.many.reserve_exact(room - self.many.len());
        }
        self.many.extend_from_slice(&std::mem::take(&mut self.first));
        self.many.extend_from_slice(&piece);
        Ok(())
    }

    /// What was gathered.
    pub(super) fn into_bytes(self) -> Bytes {
        if self.many.is_empty() { self.first } else { self.many.into() }
    }

    /// Gathers until the body ends, or does not fit.
    pub(super) fn poll<B: Body<Data = Bytes>>(
        &mut self,
        mut body: Pin<&mut B>,
        context: &mut Context<'_>,
    ) -> Poll<Ended<B::Error>> {
        let mut trailers = None;
        loop {
            let frame = match ready!(body.as_mut().poll_frame(context)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Ended::Broken(error)),
                None => return Poll::Ready(Ended::Whole(trailers)),
            };
            match frame.into_data().map_err(Frame::into_trailers) {
                Ok(piece) => {
                    if let Err(piece) = self.push(piece) {
                        return Poll::Ready(Ended::Over(piece));
                    }
                }
                // Nothing follows trailers.
                Err(last) => {
                    trailers = last.ok();
                    return Poll::Ready(Ended::Whole(trailers));
                }
            }
        }
    }
}

/// Gathers a body until it ends, or does not fit.
pub(super) struct Gather<B> {
    pub(super) buffer: Buffer,
    pub(super) body: Pin<Box<B>>,
}

impl<B: Body> Gather<B> {
    pub(super) fn new(body: B, bytes_max: usize) -> Self {
        Self { buffer: Buffer::new(&body, bytes_max), body: Box::pin(body) }
    }
}

impl<B: Body<Data = Bytes>> Future for Gather<B> {
    type Output = Ended<B::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { buffer, body } = &mut *self;
        buffer.poll(body.as_mut(), context)
    }
}
