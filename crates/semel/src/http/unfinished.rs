//! Work that is finished even if nobody waits for it any more.
//!
//! 1. It is polled by whoever waits for it, in their task, so that what outer layers have set up around it (spans,
//!    task-local values) is there.
//! 2. When they go away, it goes on in a task of its own.
//! 3. When it panics, that is what they are told; it is not polled again.
//!
//! It does not outlive the runtime: what it leaves unfinished then is a crash.

use semel_core::{BoxFuture, sabotage};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::{Context, Poll},
};
use tokio::{runtime::Handle, sync::Notify};

/// Work that goes on when this is dropped.
pub(super) struct Unfinished<T> {
    /// Gone when it has ended.
    work: Option<BoxFuture<'static, T>>,
    /// Where it goes on. Found out when it was first seen to wait: most work never does.
    runtime: Option<Handle>,
    /// How: kept as a function, so that the type needs no bounds, which those who hold it would have to repeat.
    go_on: fn(&Handle, BoxFuture<'static, T>),
}

/// The work panicked.
#[derive(Debug)]
pub(super) struct Panicked;

impl<T> Unfinished<T> {
    /// The work that this begins.
    pub(super) fn new<F>(begin: impl FnOnce() -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        // The room is made first, and the work is put there as it is begun: it is large, and most of it is empty by then.
        let room = Box::<F>::new_uninit();
        let work = Box::write(room, begin());
        Self { work: Some(Box::into_pin(work)), runtime: None, go_on }
    }
}

fn go_on<T: Send + 'static>(runtime: &Handle, work: BoxFuture<'static, T>) {
    runtime.spawn(async move {
        work.await;
    });
}

impl<T> Unfinished<T> {
    /// Polls it. What comes of it is put where it is wanted at once: it is large.
    pub(super) fn poll_into(
        &mut self,
        context: &mut Context<'_>,
        polled: &mut Poll<T>,
    ) -> Result<(), Panicked> {
        let work = self.work.as_mut().expect("it is not polled after its end");
        let caught = catch_unwind(AssertUnwindSafe(|| *polled = work.as_mut().poll(context)));
        if caught.is_ok() && polled.is_pending() {
            self.runtime = self.runtime.take().or_else(|| Handle::try_current().ok());
            return Ok(());
        }
        self.work = None;
        caught.map_err(|_| Panicked)
    }
}

impl<T> Drop for Unfinished<T> {
    fn drop(&mut self) {
        let (Some(work), Some(runtime)) = (self.work.take(), self.runtime.take()) else { return };
        if sabotage::is_on("http_disconnect_cancels") {
            return;
        }
        (self.go_on)(&runtime, work);
    }
}

/// How much work is under way.
#[derive(Default)]
pub(super) struct Works {
    count: AtomicUsize,
    /// Whether somebody ever waited for the end: who ends tells nobody else.
    is_awaited: AtomicBool,
    ended: Notify,
}

impl Works {
    /// Counts one more, until what this gives is dropped. The work itself holds it, so that it ends with the work, wherever
    /// that goes on.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        self.count.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    /// Resolves when none is.
    pub(super) async fn idle(&self) {
        // Before the look, and there the count before the flag: one of both sees what the other wrote.
        self.is_awaited.store(true, Ordering::SeqCst);
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            // Enlisted before the look, so that an end in between is not missed.
            ended.as_mut().enable();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// Counted while it lives.
pub(super) struct UnderWay<'a>(&'a Works);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let is_last = self.0.count.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && self.0.is_awaited.load(Ordering::SeqCst) {
            self.0.ended.notify_waiters();
        }
    }
}
