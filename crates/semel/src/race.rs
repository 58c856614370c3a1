//! Small things about futures: whichever is first; timers that are armed only when somebody really waits; and
//! boxes.

use pin_project_lite::pin_project;
use semel_core::{BoxFuture, time::Clock};
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

/// Which of two futures was first.
pub(crate) enum First<A, B> {
    Left(A),
    Right(B),
}

/// Polls both, the left one first.
pub(crate) async fn first<A: Future, B: Future>(left: A, right: B) -> First<A::Output, B::Output> {
    let mut left = pin!(left);
    let mut right = pin!(right);
    poll_fn(|cx| {
        if let Poll::Ready(it) = left.as_mut().poll(cx) {
            return Poll::Ready(First::Left(it));
        }
        right.as_mut().poll(cx).map(First::Right)
    })
    .await
}

/// The future's output, unless the monotonic clock reaches `until` first. A future that is ready when it is
/// first polled costs no timer.
pub(crate) fn within<F: Future>(clock: &dyn Clock, until: Duration, future: F) -> Within<'_, F> {
    Within { clock, limit: Limit::Until(until), future, timer: None }
}

/// The future's output, unless it takes longer than this from when it was first seen to wait.
#[cfg(feature = "http")]
pub(crate) fn within_time<F: Future>(clock: &dyn Clock, time: Duration, future: F) -> Within<'_, F> {
    Within { clock, limit: Limit::For(time), future, timer: None }
}

/// How long a future may take.
#[derive(Clone, Copy)]
enum Limit {
    /// Until the monotonic clock reaches this.
    Until(Duration),
    /// So long from when it was first seen to wait.
    #[cfg(feature = "http")]
    For(Duration),
}

impl Limit {
    fn left(self, clock: &dyn Clock) -> Duration {
        match self {
            Self::Until(until) => until.saturating_sub(clock.monotonic()),
            #[cfg(feature = "http")]
            Self::For(time) => time,
        }
    }
}

pin_project! {
    /// A future that may take so long, and no longer.
    // Written by hand: an `async fn` has room for what it is given twice, and is moved with both.
    pub(crate) struct Within<'a, F> {
        clock: &'a dyn Clock,
        limit: Limit,
        #[pin]
        future: F,
        timer: Option<BoxFuture<'static, ()>>,
    }
}

#[cfg(feature = "http")]
impl<F> Within<'_, F> {
    /// The future, with what it has gathered so far.
    pub(crate) fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Within<'_, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(it) = this.future.poll(cx) {
            return Poll::Ready(Some(it));
        }
        let (clock, limit) = (*this.clock, *this.limit);
        let timer = this.timer.get_or_insert_with(|| clock.sleep(limit.left(clock)));
        timer.as_mut().poll(cx).map(|()| None)
    }
}

/// A future that stays where it is, for those who take one by value: dropped with this.
#[cfg(feature = "http")]
pub(crate) struct InPlace<'a, F>(Pin<&'a mut Option<F>>);

#[cfg(feature = "http")]
impl<'a, F> InPlace<'a, F> {
    pub(crate) fn new(future: Pin<&'a mut Option<F>>) -> Self {
        Self(future)
    }
}

#[cfg(feature = "http")]
impl<F: Future> Future for InPlace<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.0.as_mut().as_pin_mut().expect("it is dropped with this, and not before").poll(cx)
    }
}

#[cfg(feature = "http")]
impl<F> Drop for InPlace<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// The same future, boxed: where a call goes rarely, or waits for much longer than an allocation takes.
///
/// It keeps the futures that users spawn small. And it is `Send` by promise: without that, users' compilers look
/// into our futures to find out, and give up where lifetimes are erased ("implementation of `Send` is not
/// general enough").
pub(crate) fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}
