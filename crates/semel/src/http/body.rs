//! Bodies on their way through the layer.
//!
//! 1. What carries no key passes as it is: nothing is read ahead, nothing is boxed.
//! 2. What was read is handed on as the same bytes, with the trailers that came after it.
//! 3. What was read only in part is handed on followed by the rest, or by the error that ended it.
//! 4. Trailers say nothing that only Semel may say, in either direction: as headers do not.

use super::headers::strip_own;
use ::http::HeaderMap;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use semel_core::sabotage;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

pin_project! {
    /// A body on its way through the layer: the inner one, or bytes, or bytes followed by the inner rest.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body::Body as _;
    /// # use semel::http::Body;
    /// let body: Body<http_body_util::Empty<Bytes>> = Body::from(Bytes::from("hello"));
    /// assert_eq!(body.size_hint().exact(), Some(5));
    /// ```
    pub struct Body<B>
    where
        B: http_body::Body,
    {
        // What goes first.
        ahead: Bytes,
        #[pin]
        passed: Option<B>,
        // What goes after it: few bodies have that, and all are moved.
        behind: Option<Box<Behind<B>>>,
    }
}

/// What follows bytes that were read.
struct Behind<B: http_body::Body> {
    /// A frame that was read too many.
    piece: Bytes,
    /// The rest of a body of which some was read.
    rest: Option<Pin<Box<B>>>,
    last: Option<Last<B::Error>>,
}

/// What ends a body that was read.
enum Last<E> {
    Trailers(HeaderMap),
    Error(E),
}

/// What was read of a body that did not end, or not well.
pub(super) struct Partly<B: http_body::Body> {
    pub(super) ahead: [Bytes; 2],
    pub(super) rest: Result<Pin<Box<B>>, B::Error>,
}

impl<B: http_body::Body> Body<B> {
    /// The body as it is, but for trailers that only Semel may say.
    pub const fn pass(body: B) -> Self {
        Self { ahead: Bytes::new(), passed: Some(body), behind: None }
    }

    /// Nothing.
    pub const fn empty() -> Self {
        Self { ahead: Bytes::new(), passed: None, behind: None }
    }

    /// Bytes, and the trailers after them.
    pub fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        let behind = trailers.map(|trailers| {
            Box::new(Behind { piece: Bytes::new(), rest: None, last: Some(Last::Trailers(trailers)) })
        });
        Self { ahead: bytes, passed: None, behind }
    }

    /// The body as it came, if nothing of it was read.
    ///
    /// ```
    /// use bytes::Bytes;
    /// # use semel::http::Body;
    /// let body = Body::pass(http_body_util::Full::<Bytes>::from("hello"));
    /// assert!(body.passed().is_some());
    /// let body: Body<http_body_util::Full<Bytes>> = Body::from(Bytes::from("hello"));
    /// assert!(body.passed().is_none());
    /// ```
    pub const fn passed(&self) -> Option<&B> {
        self.passed.as_ref()
    }

    /// What was read, and then the rest.
    pub(super) fn partly(partly: Partly<B>) -> Self {
        let Partly { ahead: [ahead, piece], rest } = partly;
        let (rest, last) = match rest {
            Ok(rest) => (Some(rest), None),
            Err(error) => (None, Some(Last::Error(error))),
        };
        Self { ahead, passed: None, behind: Some(Box::new(Behind { piece, rest, last })) }
    }
}

impl<B: http_body::Body> Body<B> {
    /// What was gathered of it.
    pub(super) const fn gathered(&self) -> &Bytes {
        &self.ahead
    }

    /// Whether nothing of it has to be read any more.
    pub(super) fn is_whole(&self) -> bool {
        self.unread().is_none()
    }

    /// What has to be read yet.
    fn unread(&self) -> Option<&B> {
        self.passed.as_ref().or_else(|| self.behind.as_ref()?.rest.as_deref())
    }

    /// How many bytes of it were read.
    fn read_bytes(&self) -> usize {
        self.ahead.len() + self.behind.as_ref().map_or(0, |it| it.piece.len())
    }

    /// The trailers that come after what was read.
    pub(super) fn trailers(&self) -> Option<&HeaderMap> {
        match self.last()? {
            Last::Trailers(trailers) => Some(trailers),
            Last::Error(_) => None,
        }
    }

    fn last(&self) -> Option<&Last<B::Error>> {
        self.behind.as_ref()?.last.as_ref()
    }
}

impl<B: http_body::Body> From<Bytes> for Body<B> {
    fn from(bytes: Bytes) -> Self {
        Self::whole(bytes, None)
    }
}

impl<B: http_body::Body> Default for Body<B> {
    fn default() -> Self {
        Self::empty()
    }
}

// No bound on the error: what a user spawns may hold bodies whose error is a `Box<dyn Error>`, and compilers do not find out
// what such a box can be turned into.
impl<B: http_body::Body<Data = Bytes>> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if !this.ahead.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(this.ahead)))));
        }
        if let Some(passed) = this.passed.as_pin_mut() {
            return passed.poll_frame(context).map_ok(cleaned);
        }
        let Some(Behind { piece, rest, last }) = this.behind.as_deref_mut() else { return Poll::Ready(None) };
        if !piece.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(piece)))));
        }
        if let Some(rest) = rest {
            return rest.as_mut().poll_frame(context).map_ok(cleaned);
        }
        Poll::Ready(last.take().map(|it| match it {
            Last::Trailers(trailers) => Ok(cleaned(Frame::trailers(trailers))),
            Last::Error(error) => Err(error),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.read_bytes() == 0
            && self.last().is_none()
            && self.unread().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read_bytes() as u64;
        match (self.unread(), self.last()) {
            (Some(inner), _) => {
                let hint = inner.size_hint();
                let mut whole = SizeHint::new();
                whole.set_lower(hint.lower().saturating_add(read));
                if let Some(upper) = hint.upper().and_then(|it| it.checked_add(read)) {
                    whole.set_upper(upper);
                }
                whole
            }
            (None, None) => SizeHint::with_exact(read),
            // A length would be sent ahead of the body, and leave no room for trailers, or promise what is not there.
            (None, Some(_)) => {
                let mut hint = SizeHint::new();
                hint.set_lower(read);
                hint
            }
        }
    }
}

/// A frame as it goes on.
fn cleaned(mut frame: Frame<Bytes>) -> Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut()
        && !sabotage::is_on("http_trailers_forged")
    {
        strip_own(trailers);
    }
    frame
}

impl<B: http_body::Body> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}
