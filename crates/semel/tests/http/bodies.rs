//! Bodies that come in pieces, come later, break, or never come.

use crate::support::Given;
use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use semel::BoxError;
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc;

pub(crate) type Piece = Result<Frame<Bytes>, BoxError>;

/// A body that is there at once.
pub(crate) fn whole(text: impl Into<Bytes>) -> Given {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Bytes, as a piece.
#[expect(clippy::unnecessary_wraps, reason = "it stands beside pieces that are errors")]
pub(crate) fn data(text: &'static str) -> Piece {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

/// A body in pieces that are there already.
pub(crate) fn pieces(pieces: impl IntoIterator<Item = Piece, IntoIter: Send + Unpin + 'static>) -> Given {
    Pieces(pieces.into_iter()).boxed_unsync()
}

/// A body in pieces that are sent.
pub(crate) fn sent() -> (mpsc::UnboundedSender<Piece>, Given) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Received(receiver).boxed_unsync())
}

/// A body that never comes.
pub(crate) struct Never;

/// A body that keeps something for as long as it lives.
pub(crate) struct Holding<T>(pub(crate) Given, pub(crate) T);

struct Pieces<I>(I);

struct Received(mpsc::UnboundedReceiver<Piece>);

impl<I: Iterator<Item = Piece> + Unpin> Body for Pieces<I> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Piece>> {
        Poll::Ready(self.0.next())
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        self.0.poll_recv(context)
    }
}

impl Body for Never {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Piece>> {
        Poll::Pending
    }
}

impl<T: Unpin> Body for Holding<T> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        Pin::new(&mut self.0).poll_frame(context)
    }
}
