//! The rules of every store, on this one.

use semel_embedded::{EmbeddedStore, Options};
use semel_testkit::{ManualClock, conformance};

/// Sizes so small that everything moves through every stage.
pub(crate) fn small() -> Options {
    Options { segment_bytes: 32 << 10, flush_segments: 2, backlog_segments_max: 8 }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_store_keeps_every_rule_of_stores() {
    for options in [Options::default(), small()] {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let store = EmbeddedStore::open_with(directory.path(), clock.arc(), options).unwrap();
        conformance::all(&store).await;
        drop(store);
        let store = EmbeddedStore::open_with(directory.path(), clock.arc(), small()).unwrap();
        conformance::all(&store).await;
    }
}
