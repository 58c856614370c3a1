//! The sequence that fences come from, which a database that goes back in time does not take back with it.
//!
//! 1. A backup, a dump and a standby that lagged have the sequence as it was, and nobody can see there what it has given
//!    since. So it follows the server's clock: it is never behind it when a connection is made, and what it has given was
//!    always behind it, or [`AHEAD`] of it at most. What is given on a new connection is beyond everything before it.
//! 2. One number stands for [`UNIT_US`] of time: it would take 125,000 writes a second to overtake the clock.
//! 3. It is only ever moved forward, and by one connection at a time, under a lock. Those that ask it for numbers meanwhile do
//!    not wait; it is moved [`AHEAD`] of the clock, and they would have to ask 125,000 times in between to be given one twice.
//! 4. Whoever knows that the database went back moves it again, beyond what it can have given on new connections ([`leap`]).
//! 5. Moving it waits neither for the disk nor for a standby ([`AT_ONCE`]): whatever is written under a number waits for its own
//!    commit, which comes after the move in the log. Otherwise no connection could be made, not even to ask what is wrong,
//!    while a primary waits for a standby that is not there.
//! 6. However wrong a clock is, it cannot use the numbers up: see [`BY_CLOCK_MAX`].
//!
//! A user's own pool makes its connections by itself: there the sequence is moved when a store is made of it, and a failover
//! that loses writes under a store that lives on is not noticed.

use super::lane;
use crate::store::sql::Table;
use semel_core::{sabotage::is_on, store::StoreError};
use sqlx::{AssertSqlSafe, PgConnection, postgres::PgPoolOptions};
use std::sync::Arc;

/// How much time a number stands for, in microseconds.
const UNIT_US: u32 = 8;
/// How far ahead of the clock it is moved: a second.
const AHEAD: u32 = 1_000_000 / UNIT_US;
/// The highest number that a clock can give, in the year 2112. As many are left then, and 8,192 places behind each of them
/// (the queue's lines have these) still fit 63 bits.
const BY_CLOCK_MAX: u64 = 1 << 49;
/// Held by whoever moves it. The number is any.
const LOCK: u32 = 7_310_580;
/// For this transaction: it is over without waiting.
const AT_ONCE: &str = "SELECT set_config('synchronous_commit', 'off', true)";
const DOING: &str = "moving the sequence of fences";

/// Who moves it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mover {
    /// Whoever makes a store: it is told if it may not.
    Maker,
    /// A new connection: it is used all the same.
    Connection,
}

fn sequence(table: &Table) -> String {
    format!("to_regclass('{}')", table.quoted("_fence").replace('\'', "''"))
}

fn now() -> String {
    let now = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";
    format!("least({now} / {UNIT_US}, {BY_CLOCK_MAX})")
}

/// Moves it to where the clock is, if it is behind that. Where there is no sequence, or nothing may be written, it does nothing.
fn catch_up(table: &Table, mover: Mover) -> String {
    let (sequence, now) = (sequence(table), now());
    let may = match mover {
        Mover::Maker => "true",
        Mover::Connection => "has_sequence_privilege(s.it, 'UPDATE')",
    };
    let may = if is_on("postgres_fences_go_back") { "false" } else { may };
    let at_once = if is_on("postgres_fences_wait_for_standbys") { "SELECT 1" } else { AT_ONCE };
    format!(
        "{at_once}; SELECT pg_advisory_xact_lock({LOCK}); \
         SELECT setval(s.it, s.now + {AHEAD}) FROM (SELECT {sequence} AS it, {now} AS now) s \
         WHERE s.it IS NOT NULL AND coalesce(pg_sequence_last_value(s.it), 0) < s.now AND {may} \
         AND NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'"
    )
}

/// Moves it to where the clock is, if it is behind that.
pub async fn keep_up(connection: &mut PgConnection, table: &Table) -> Result<(), StoreError> {
    run(connection, catch_up(table, Mover::Maker)).await
}

/// Has the connections of a pool move it when they are made.
pub(super) fn kept_up(pool: PgPoolOptions, table: &Table) -> PgPoolOptions {
    let text: Arc<str> = catch_up(table, Mover::Connection).into();
    pool.after_connect(move |connection, _| {
        let text = Arc::clone(&text);
        Box::pin(async move { sqlx::raw_sql(AssertSqlSafe(text)).execute(connection).await.map(drop) })
    })
}

/// Moves it beyond everything that it can have given, where the database is known to have gone back in time.
pub async fn leap(connection: &mut PgConnection, table: &Table) -> Result<(), StoreError> {
    let (sequence, now, far) = (sequence(table), now(), 2 * AHEAD);
    let text = format!(
        "{AT_ONCE}; SELECT pg_advisory_xact_lock({LOCK}); \
         SELECT setval(s.it, greatest(coalesce(pg_sequence_last_value(s.it), 0), s.now) + {far}) \
         FROM (SELECT {sequence} AS it, {now} AS now) s"
    );
    run(connection, text).await
}

async fn run(connection: &mut PgConnection, text: String) -> Result<(), StoreError> {
    let moved = sqlx::raw_sql(AssertSqlSafe(text)).execute(connection);
    lane::in_time(DOING, moved).await.map(drop)
}
