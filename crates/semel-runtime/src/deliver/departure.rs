//! Whether anything of a request has left.
//!
//! 1. Only a sender that keeps count can say that nothing has. Of one that says nothing, everything may have.
//! 2. What is called off does not leave any more: whoever comes to send its body finds that out, and fails. So of what has no
//!    body nothing is said: its head is all there is, and goes without asking.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

// 0, as it is by default, says nothing.
const WAITS: u8 = 1;
const LEFT: u8 = 2;
const CALLED_OFF: u8 = 3;

/// Whether anything of a request has left; shared by whoever sends it and whoever waits for its answer.
#[derive(Clone, Default, Debug)]
pub struct Departure(Arc<AtomicU8>);

impl Departure {
    /// The sender keeps count, and nothing has left.
    pub fn waits(&self) {
        self.0.store(WAITS, Ordering::Release);
    }

    /// It leaves now; `false` if it was called off.
    pub fn leaves(&self) -> bool {
        let before = self.0.compare_exchange(WAITS, LEFT, Ordering::AcqRel, Ordering::Acquire);
        before != Err(CALLED_OFF)
    }

    /// Calls it off, if it is certain that nothing of it has left.
    pub fn call_off(&self) -> bool {
        self.0.compare_exchange(WAITS, CALLED_OFF, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A body that tells when it is asked for: then its head is on the way.
pub(super) struct Outgoing {
    body: Full<Bytes>,
    departure: Departure,
}

impl Outgoing {
    pub(super) fn new(body: Bytes, departure: Departure) -> Self {
        if !body.is_empty() {
            departure.waits();
        }
        Self { body: Full::new(body), departure }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if !self.departure.leaves() {
            return Poll::Ready(Some(Err(io::Error::other("called off"))));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(|never| match never {})
    }

    fn is_end_stream(&self) -> bool {
        self.departure.leaves() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
