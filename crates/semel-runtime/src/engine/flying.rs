//! What runs here, by its id: a storm of duplicates is answered from memory.
//!
//! 1. Only what is durable is in it: an execution comes in when its claim was written, and goes when its end was.
//! 2. There are as many as there are places, so it is bounded.

use semel_core::{
    execution::ExecutionId, fingerprint::Fingerprint, key::ByIdentity, sabotage::is_on, time::Timestamp,
};

/// What runs here.
#[derive(Debug, Default)]
pub(crate) struct Flying {
    /// Never walked, only looked up: its order does not matter.
    executions: ByIdentity<ExecutionId, Known>,
}

/// What is known of an execution that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) accepted_at: Timestamp,
}

impl Flying {
    /// It runs.
    pub(crate) fn insert(&mut self, id: ExecutionId, known: Known) {
        self.executions.insert(id, known);
    }

    /// It does no more.
    pub(crate) fn remove(&mut self, id: &ExecutionId) {
        self.executions.remove(id);
    }

    /// What is known of it, if it runs.
    pub(crate) fn get(&self, id: &ExecutionId) -> Option<Known> {
        self.executions.get(id).copied().filter(|_| !is_on("storm_reaches_the_queue"))
    }
}
