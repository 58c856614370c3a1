//! Keeping a lease alive while its handler works.
//!
//! 1. A lease is renewed at a third of its length, measured on the monotonic clock from before the last
//!    confirmed write was sent.
//! 2. When somebody else took over, the work is dropped and the cancellation fires.
//! 3. When four fifths of the lease are over without a confirmed renewal, the holder stops, because soon
//!    somebody else may start. This is looked at before the work is polled, so a process that was paused for
//!    longer than its lease wakes up to stop.
//! 4. A lease that lasts until the process is ended from outside is not renewed, and the work may go on to its
//!    end: a successor would have to wait for longer than it needs, and no answer would be lost by stopping.
//! 5. Once an outcome was written in a transaction, nothing is renewed: the transaction may have the record locked, and
//!    its commit supersedes nobody. It has what is left of the lease.
//! 6. It runs in the task of the work itself. Work that is done when it is first polled costs no timer. Work that is begun as
//!    soon as the lease was won is first judged by the moment when that was known.
//!
//! It does not end the call: dropped work is a crash, and the next holder takes over.

use crate::{
    driver::{Write, Written},
    error::Error,
    lease::{Granted, Held, Lease, Renewal},
    observe::CallSpan,
};
use pin_project_lite::pin_project;
use semel_core::{BoxFuture, call, sabotage};
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

pin_project! {
    /// Work under a lease.
    struct Hold<'a, F> {
        lease: &'a Lease,
        // Gone when it is done, or the lease is lost.
        #[pin]
        work: Option<F>,
        // Whether the lease was just won: for the first look.
        is_fresh: bool,
        // Armed when the work was first seen to wait.
        beat: Option<BoxFuture<'a, Error>>,
        // What the work is polled and dropped in.
        span: CallSpan,
    }

    impl<F> PinnedDrop for Hold<'_, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.work.is_some() {
                let _entered = this.span.enter();
                this.work.set(None);
            }
        }
    }
}

impl<F: Future> Future for Hold<'_, F> {
    type Output = Result<F::Output, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let _entered = this.span.enter();
        let polled = match this.lease.check(std::mem::take(this.is_fresh), this.beat.as_mut(), cx) {
            Some(lost) => Poll::Ready(Err(lost)),
            None => this.work.as_mut().as_pin_mut().expect("it is not polled after its end").poll(cx).map(Ok),
        };
        let polled = match polled {
            Poll::Pending if this.beat.is_none() && this.lease.is_protected() => {
                let armed = this.beat.insert(Box::pin(this.lease.beat()));
                armed.as_mut().poll(cx).map(Err)
            }
            polled => polled,
        };
        if polled.is_ready() {
            this.work.set(None);
        }
        polled
    }
}

impl Lease {
    /// Polls the work while it keeps the lease alive, and drops it when the lease is lost.
    ///
    /// [`Call::run`](crate::Call::run) does this for its handler; it is for those who drive a lease by hand.
    ///
    /// ```
    /// use semel::{Begin, Once};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let Begin::Run(lease) = once.call("greet", 1).begin().await? else { panic!("it is fresh") };
    /// let greeting = lease.hold(async { "hello" }).await?;
    /// lease.complete(greeting).await?;
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    // Not an `async fn`: that would have room for the work twice.
    pub fn hold<F: Future>(&self, work: F) -> impl Future<Output = Result<F::Output, Error>> + use<'_, F> {
        Hold { lease: self, work: Some(work), is_fresh: false, beat: None, span: CallSpan::none() }
    }

    /// As [`Lease::hold`], in the span of the call, for those who hold it as soon as they have it.
    pub(crate) fn hold_in_span<F: Future>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<F::Output, Error>> + use<'_, F> {
        Hold { lease: self, work: Some(work), is_fresh: true, beat: None, span: CallSpan::of(self) }
    }

    /// Whether the lease is lost, before the work may go on.
    fn check(
        &self,
        is_fresh: bool,
        beat: Option<&mut BoxFuture<'_, Error>>,
        cx: &mut Context<'_>,
    ) -> Option<Error> {
        if let Some(Poll::Ready(lost)) = beat.map(|it| it.as_mut().poll(cx)) {
            return Some(lost);
        }
        let is_over = if is_fresh { self.was_over() } else { self.is_over() };
        is_over.then(|| self.lapsed())
    }

    /// Renews until the lease is lost, and says how.
    async fn beat(&self) -> Error {
        let clock = &self.inner.granted.once.driver.clock;
        if self.inner.granted.has_deadline {
            let end = self.stop_at(&self.state());
            clock.sleep(end.saturating_sub(clock.monotonic())).await;
            return self.lapsed();
        }
        loop {
            let held = self.state().clone();
            let third = held.since + self.inner.granted.terms.lease / 3;
            let due = if self.is_in_transaction() { self.stop_at(&held) } else { third };
            clock.sleep(due.saturating_sub(clock.monotonic())).await;
            if self.is_over() {
                return self.lapsed();
            }
            if self.is_in_transaction() {
                continue;
            }
            let stop_at = self.stop_at(&self.state());
            if let Err(lost) = self.renew_until(stop_at).await {
                return lost;
            }
        }
    }

    /// Renews the lease now. Whoever drives a lease by hand calls this at a third of its length.
    ///
    /// It is accepted late, too, if nobody took over.
    pub fn renew(&self) -> impl Future<Output = Result<(), Error>> + Send {
        let until = self.write_until(&self.state());
        self.renew_until(until)
    }

    async fn renew_until(&self, until: Duration) -> Result<(), Error> {
        if !self.is_protected() {
            return Ok(());
        }
        let _renewing = self.inner.renewing.lock().await;
        // A renewal whose reply was lost is sent again as it was, so that one record at most is ever in doubt.
        // It may be old by now, so another one follows.
        let in_doubt = self.state().in_doubt.clone();
        if let Some(renewal) = in_doubt {
            self.send(*renewal, until).await?;
        }
        let clock = &self.inner.granted.once.driver.clock;
        let since = clock.monotonic();
        let record = call::renew(clock.now(), &self.state().record, &self.inner.granted.terms);
        self.send(Renewal { record, since }, until).await
    }

    async fn send(&self, renewal: Renewal, until: Duration) -> Result<(), Error> {
        let fence = {
            let mut held = self.state();
            held.in_doubt = Some(Box::new(renewal.clone()));
            held.fence
        };
        let Renewal { record, since } = renewal;
        let write = Write { key: self.key(), expected: Some(fence), record: &record, in_doubt: None, until };
        match self.inner.granted.once.driver.write(write).await {
            Written::Won(fence) => {
                *self.state() = Held { fence, record, since, in_doubt: None };
                Ok(())
            }
            Written::Superseded if sabotage::is_on("heartbeat_ignores_supersession") => {
                self.state().since = since;
                Ok(())
            }
            Written::Superseded if self.is_in_transaction() => Ok(()),
            Written::Superseded => Err(self.lost()),
            Written::Unconfirmed(error) => Err(self.lapsed().because(error)),
        }
    }

    /// When the holder stops if it was not renewed.
    fn stop_at(&self, held: &Held) -> Duration {
        self.stop_after(held.since)
    }

    fn stop_after(&self, since: Duration) -> Duration {
        let Granted { terms, has_deadline, .. } = &self.inner.granted;
        since + if *has_deadline { terms.lease } else { terms.lease * 4 / 5 }
    }

    fn is_watched(&self) -> bool {
        self.is_protected() && !sabotage::is_on("paused_holder_goes_on")
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_watched() && self.inner.granted.once.driver.clock.monotonic() >= self.stop_at(&self.state())
    }

    /// Whether it was over when it was known to be won.
    fn was_over(&self) -> bool {
        self.is_watched() && self.inner.begun_at >= self.stop_after(self.inner.since)
    }
}
