//! What came in, counted.
//!
//! Labels are the server's own words: paths of configured sources and names of problems. Nobody outside can make more of
//! them.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// What came in since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Requests that brought events, and were answered with 2xx.
    pub(super) taken: AtomicU64,
    /// Bytes of bodies.
    pub(super) received_bytes: AtomicU64,
    /// Events that became an execution, at least for one function.
    pub(super) new: AtomicU64,
    /// Events of which every function knew.
    pub(super) duplicates: AtomicU64,
    /// Of them, with another content.
    pub(super) mismatches: AtomicU64,
    /// Events that no function takes.
    pub(super) unmatched: AtomicU64,
    /// Refusals, by the name of the problem.
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters {
    pub(super) fn refused(&self, problem: &'static str) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry(problem).or_default() += 1;
    }

    pub(super) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    /// As Prometheus reads it.
    pub(crate) fn write(&self, text: &mut String) {
        let counters = [
            ("requests_total", "Requests that brought events and were answered with 2xx.", &self.taken),
            ("received_bytes_total", "Bytes of the bodies of requests.", &self.received_bytes),
            ("events_new_total", "Events that at least one function had not seen.", &self.new),
            ("events_duplicate_total", "Events that every function had seen.", &self.duplicates),
            ("events_mismatch_total", "Duplicates with another content.", &self.mismatches),
            ("events_unmatched_total", "Events that no function takes.", &self.unmatched),
        ];
        for (name, help, counter) in counters {
            let value = counter.load(Ordering::Relaxed);
            let _ = writeln!(
                text,
                "# HELP semel_ingest_{name} {help}\n# TYPE semel_ingest_{name} counter\nsemel_ingest_{name} {value}"
            );
        }
        text.push_str("# HELP semel_ingest_refused_total Requests that were refused, by problem.\n");
        text.push_str("# TYPE semel_ingest_refused_total counter\n");
        for (problem, count) in &*self.refused.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(text, "semel_ingest_refused_total{{problem=\"{problem}\"}} {count}");
        }
    }
}
