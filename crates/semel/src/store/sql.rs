//! What the SQL stores share: the table's names, rows as records, and requests on their way to a connection.

pub(super) mod document;
mod lanes;
mod schema;
mod table;

pub(super) use lanes::{Lane, Lanes};
pub(super) use schema::Schema;
pub(super) use table::Table;

use super::unreadable::unreadable;
use semel_core::{
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{StoreError, StoreErrorKind, Swap},
    wire,
};
use std::time::Duration;
use tokio::sync::oneshot;

/// Longest that a request waits for its answer, its time in the queue included.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Longest that a request waits for a connection of the pool.
pub(super) const ACQUIRE_MAX: Duration = Duration::from_secs(5);
/// Most records that one statement of a purge removes.
pub(super) const PURGE_MAX: u32 = 1_000;

/// A record as its row holds it.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) fence: i64,
    pub(super) record: Vec<u8>,
}

/// What became of a swap, in the words of rows.
pub(super) enum Swapped {
    Won(i64),
    Lost(Option<Row>),
}

/// A swap as statements take it.
pub(super) struct Change {
    pub(super) identity: [u8; 32],
    pub(super) expected: Option<i64>,
    pub(super) status: &'static str,
    /// For people who look at the table.
    pub(super) key: String,
    pub(super) expires_at: i64,
    pub(super) record: Vec<u8>,
}

impl Change {
    pub(super) fn new(key: &Key, expected: Option<Fence>, record: &Record) -> Self {
        Self {
            identity: *key.identity().as_bytes(),
            expected: expected.map(|it| it.get().cast_signed()),
            status: record.status().as_str(),
            key: key.to_string(),
            expires_at: record.expires_at.as_millis().cast_signed(),
            record: wire::encode(key, record),
        }
    }
}

/// The record that a row of this key holds.
pub(super) fn stored(store: &'static str, key: &Key, row: &Row) -> Result<Stored, StoreError> {
    let record = wire::decode_record(key, &row.record)
        .map_err(|error| unreadable(store, format!("reading the record of `{key}`"), error))?;
    Ok(Stored { fence: fence(store, row.fence)?, record })
}

/// The swap that these rows tell of.
pub(super) fn swap(store: &'static str, key: &Key, swapped: &Swapped) -> Result<Swap, StoreError> {
    match swapped {
        Swapped::Won(number) => fence(store, *number).map(Swap::Won),
        Swapped::Lost(row) => row.as_ref().map(|it| stored(store, key, it)).transpose().map(Swap::Lost),
    }
}

fn fence(store: &'static str, number: i64) -> Result<Fence, StoreError> {
    let fence = u64::try_from(number).ok().and_then(Fence::new);
    fence.ok_or_else(|| {
        let context = format!("a record has the fence {number}: Semel did not write this row");
        StoreError::new(StoreErrorKind::Corrupt, store, context)
    })
}

/// What a lane answers to a request, in bounded time. A lane that ends without an answer died with its runtime.
pub(super) async fn answer<T>(
    store: &'static str,
    reply: oneshot::Receiver<Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let silent = |context| StoreError::new(StoreErrorKind::Unavailable, store, context);
    match tokio::time::timeout(ANSWER_MAX, reply).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(silent("the request was dropped with the runtime that carried it: try again")),
        Err(_) => Err(silent("no answer in time: is the database overloaded, or the pool too small?")),
    }
}
