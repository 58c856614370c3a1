//! Small things about futures: whichever is first; timers that are armed only when somebody really waits; and
//! boxes.

use semel_core::{BoxFuture, time::Clock};
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
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
pub(crate) async fn within<F: Future>(clock: &dyn Clock, until: Duration, future: F) -> Option<F::Output> {
    or_after(clock, || until.saturating_sub(clock.monotonic()), future).await
}

/// The future's output, unless it takes longer than this from when it was first seen to wait.
#[cfg(feature = "http")]
pub(crate) async fn within_time<F: Future>(
    clock: &dyn Clock,
    time: Duration,
    future: F,
) -> Option<F::Output> {
    or_after(clock, || time, future).await
}

async fn or_after<F: Future>(clock: &dyn Clock, time: impl Fn() -> Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut timer: Option<BoxFuture<'static, ()>> = None;
    poll_fn(|cx| {
        if let Poll::Ready(it) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(it));
        }
        let timer = timer.get_or_insert_with(|| clock.sleep(time()));
        Pin::new(timer).poll(cx).map(|()| None)
    })
    .await
}

/// The same future, boxed: where a call goes rarely, or waits for much longer than an allocation takes.
///
/// It keeps the futures that users spawn small. And it is `Send` by promise: without that, users' compilers look
/// into our futures to find out, and give up where lifetimes are erased ("implementation of `Send` is not
/// general enough").
pub(crate) fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}
