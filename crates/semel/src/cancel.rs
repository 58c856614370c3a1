//! Tells whoever works under a lease that it is lost.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::Notify;

/// Fires when the lease is lost, or dropped without an outcome. Cheap to clone, and outlives the lease.
///
/// ```
/// # use semel::Once;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let once = Once::memory();
/// let mut token = None;
/// once.call("greet", 1).run(async |lease| Ok(token = Some(lease.cancellation()))).await.unwrap();
/// assert!(!token.unwrap().is_cancelled(), "it was finished, not lost");
/// # Ok::<(), std::io::Error>(()) })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_cancelled: AtomicBool,
    fired: Notify,
}

impl Cancellation {
    /// Whether the lease is lost.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Acquire)
    }

    /// Resolves when the lease is lost; never, if it is finished first.
    pub async fn cancelled(&self) {
        let mut fired = std::pin::pin!(self.0.fired.notified());
        // Enlisted before the look, so that a shot in between is not missed.
        fired.as_mut().enable();
        if !self.is_cancelled() {
            fired.await;
        }
    }

    /// Fires; `false` if it had fired before.
    pub(crate) fn cancel(&self) -> bool {
        let is_first = !self.0.is_cancelled.swap(true, Ordering::AcqRel);
        self.0.fired.notify_waiters();
        is_first
    }
}
