//! Bodies of every kind.

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, combinators::BoxBody};
use hyper::body::{Body, Frame};
use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc;

type Polled = Poll<Option<Result<Frame<Bytes>, Infallible>>>;

/// Bytes of every kind.
pub(crate) fn bytes(length: usize) -> Bytes {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A body in these pieces, whose length is not told.
pub(crate) fn pieces(pieces: Vec<Bytes>, trailers: Option<HeaderMap>) -> BoxBody<Bytes, Infallible> {
    Frames(pieces.into_iter().map(Frame::data).chain(trailers.map(Frame::trailers)).collect()).boxed()
}

struct Frames(VecDeque<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Polled {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// A body that the test sends piece by piece.
pub(crate) struct Channel(pub(crate) mpsc::UnboundedReceiver<Bytes>);

impl Body for Channel {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        self.0.poll_recv(cx).map(|it| it.map(|bytes| Ok(Frame::data(bytes))))
    }
}
