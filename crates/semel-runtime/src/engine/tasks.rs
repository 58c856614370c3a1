//! The tasks of a runtime, which end when it does.
//!
//! 1. A task that panics takes nobody with it.
//! 2. When the runtime is dropped without being shut down, its tasks are dropped where they stand: that is a crash, and
//!    the queue's leases are there for it.

use std::{future::Future, sync::Mutex};
use tokio::{runtime::Handle, task::JoinSet};

/// The tasks of a runtime.
#[derive(Debug)]
pub(crate) struct Tasks {
    handle: Handle,
    /// `None` once the runtime is gone.
    set: Mutex<Option<JoinSet<()>>>,
}

impl Tasks {
    /// None yet, in the surrounding tokio runtime.
    pub(crate) fn new() -> Self {
        Self { handle: Handle::current(), set: Mutex::new(Some(JoinSet::new())) }
    }

    /// One more; nothing if the runtime is gone.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.set.lock().expect("no code panics while it holds the tasks");
        if let Some(set) = set.as_mut() {
            // Those that ended are let go of here, so that they cost nothing.
            while set.try_join_next().is_some() {}
            // A task is moved several times until it is in its place, and once more when it ends: its box is small.
            set.spawn_on(Box::pin(task), &self.handle);
        }
    }

    /// Ends all of them where they stand.
    pub(crate) fn end(&self) {
        let set = self.set.lock().expect("no code panics while it holds the tasks").take();
        // Outside the lock: a task's own drop may look for the others.
        drop(set);
    }
}
