//! Lines: the executions of one function under one order.
//!
//! 1. Whoever accepts into a line or changes what stands in it holds the line's lock until it commits. So the
//!    sequences of a line are given in the order in which they become visible, and its head is nobody's guess.
//! 2. Then those in front are locked: a claim may hold one, and is waited for before anything else is held.
//! 3. After the change the head is found, and made the only one with a `due_at`.
//! 4. Claims need no lock: they take only what is in front, and leave it there.
//! 5. Whoever stands still in between, or is cut off, is given up by the server after [`STILL_MAX`], and its transaction is
//!    undone.
//!
//! The texts hold nothing but hexadecimal digits of hashes: there is nothing to escape.

use semel::store::postgres::shared::LOCK_MAX_MS;
use semel_core::sabotage::is_on;
use std::{collections::BTreeSet, time::Duration};

/// Longest that the server waits for the next statement of a transaction that holds lines, unless it was set to wait for less.
pub(super) const STILL_MAX: Duration = Duration::from_secs(5);

/// Lines, each once, in the order in which they are locked.
#[derive(Clone, Default)]
pub(super) struct Lines(BTreeSet<Vec<u8>>);

impl Lines {
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a Option<Vec<u8>>>) -> Self {
        Self(lines.flatten().cloned().collect())
    }

    pub(super) fn none() -> &'static Self {
        static NONE: Lines = Lines(BTreeSet::new());
        &NONE
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Begins a transaction that holds them.
    pub(super) fn begin(&self, queue: &str) -> String {
        let lock = |line: &Vec<u8>| {
            i64::from_be_bytes(*line.first_chunk().expect("a line has more bytes than that")).to_string()
        };
        let locks = self.0.iter().map(lock).collect::<Vec<_>>().join(",");
        let lines = self.array();
        let (still, still_max) = ("idle_in_transaction_session_timeout", STILL_MAX.as_millis());
        let bounds = if is_on("postgres_queue_waits_for_the_frozen") { "false" } else { "true" };
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; \
             SET LOCAL lock_timeout = '{LOCK_MAX_MS}'; \
             SELECT set_config('{still}', '{still_max}', true) \
                 WHERE {bounds} AND current_setting('{still}')::interval NOT BETWEEN '1 ms' AND '{still_max} ms'; \
             SELECT pg_advisory_xact_lock(it) FROM (SELECT DISTINCT it FROM unnest('{{{locks}}}'::bigint[]) AS it \
                 ORDER BY it) AS sorted; \
             SELECT FROM {queue} WHERE line = ANY({lines}) AND due_at IS NOT NULL ORDER BY id FOR UPDATE"
        )
    }

    /// Puts their heads in front, and ends the transaction.
    pub(super) fn commit(&self, queue: &str) -> String {
        let lines = self.array();
        let heads = format!(
            "SELECT h.id FROM unnest({lines}) AS l(line) CROSS JOIN LATERAL ( \
             SELECT t.id FROM {queue} t WHERE t.line = l.line AND t.phase < 2 ORDER BY t.sequence LIMIT 1) AS h"
        );
        let back = if is_on("postgres_queue_leaves_two_in_front") { "false" } else { "true" };
        format!(
            "UPDATE {queue} SET due_at = NULL WHERE {back} AND line = ANY({lines}) AND due_at IS NOT NULL \
                 AND id NOT IN ({heads}); \
             UPDATE {queue} SET due_at = turn_at WHERE id IN ({heads}) AND due_at IS DISTINCT FROM turn_at; \
             COMMIT"
        )
    }

    fn array(&self) -> String {
        let hex = |line: &Vec<u8>| {
            line.iter().fold("\"\\\\x".to_owned(), |hex, it| hex + &format!("{it:02x}")) + "\""
        };
        let items = self.0.iter().map(hex).collect::<Vec<_>>().join(",");
        format!("'{{{items}}}'::bytea[]")
    }
}
