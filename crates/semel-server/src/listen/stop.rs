//! Telling everybody to stop.

use tokio::sync::watch;

/// Tells everybody to stop. Dropping the last of them does, too.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Hears that it is time to stop.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// One who tells, and one who hears; the latter can be cloned.
pub fn stop() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Tells everybody.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Whether it is time to stop.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Resolves when it is time to stop.
    pub async fn requested(&mut self) {
        // Nobody left to tell is as good as being told.
        let _ = self.0.wait_for(|it| *it).await;
    }
}
