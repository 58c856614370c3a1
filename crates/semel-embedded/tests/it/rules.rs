//! The rules of every store, on this one.

use crate::sample::{open, small};
use semel_embedded::{EmbeddedStore, Options};
use semel_testkit::{ManualClock, conformance};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_store_keeps_every_rule_of_stores() {
    for options in [Options::default(), small()] {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let store = EmbeddedStore::open_with(directory.path(), clock.arc(), options).unwrap();
        conformance::all(&store).await;
        drop(store);
        conformance::all(&open(directory.path(), &clock)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_callers_of_one_key_have_one_winner() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(open(directory.path(), &ManualClock::new()));
    conformance::contended(store, |task| drop(tokio::spawn(task))).await;
}
