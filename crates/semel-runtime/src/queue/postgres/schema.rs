//! The tables of a queue.
//!
//! 1. One row per execution: what it is found by, the execution as Semel encodes it, its event apart, and the claims
//!    since it was last written. A claim adds to the claims and copies nothing large.
//! 2. `turn_at` is when the execution is due; `due_at` is the same while nobody stands before it. Only what has a
//!    `due_at` can be handed out.
//! 3. Counters and epochs have several rows each, so that connections do not wait for each other.

use semel::store::postgres::shared::{PURGE_MAX, STORE, Schema, Table};
use semel_core::{execution::Phase, record::Reason};

/// The table's name unless another is given.
pub(super) const TABLE: &str = "semel_queue";
/// Rows that a function's counters, and the epochs, are spread over.
pub(super) const SLOTS: usize = 16;
/// What `phase` says of those that failed begins here: the reason is added.
pub(super) const FAILED: i16 = 3;

/// What `phase` says.
pub(super) const fn code(phase: &Phase) -> i16 {
    match phase {
        Phase::Pending(_) => 0,
        Phase::InProgress { .. } => 1,
        Phase::Completed(_) => 2,
        Phase::Failed { reason, .. } => failed(*reason),
    }
}

/// What `phase` says of those that failed for this reason.
pub(super) const fn failed(reason: Reason) -> i16 {
    FAILED + reason as i16
}

/// The counters' columns, in the order of [`code`], with those that only grow behind them.
pub(super) fn counters() -> Vec<String> {
    let phases = ["pending", "in_progress", "completed"].map(str::to_owned).into_iter();
    let failed = Reason::ALL.iter().map(|it| format!("failed_{it}"));
    phases.chain(failed).chain(["accepted", "purged"].map(str::to_owned)).collect()
}

/// The tables.
pub(super) fn of_queue(table: &Table) -> Schema {
    let (queue, meta, fence) = (table.records(), Schema::meta_of(table), table.quoted("_fence"));
    let (counts, epochs) = (table.quoted("_counts"), table.quoted("_epochs"));
    let index = |name: &str| table.bare(name);
    let counters = counters().join(" bigint NOT NULL DEFAULT 0,\n    ");
    let (never, last) = (i64::MAX, SLOTS - 1);
    let churned = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1, \
                   autovacuum_analyze_scale_factor = 0.05";
    let first = format!(
        "\
-- Gives each write its number, which is never given again. It follows the clock, eight microseconds a number.
CREATE SEQUENCE IF NOT EXISTS {fence};
CREATE TABLE IF NOT EXISTS {queue} (
    id          bytea    PRIMARY KEY,          -- SHA-256 of the key
    fence       bigint   NOT NULL,             -- of the last write
    writer      bytea    NOT NULL,             -- who wrote it last, random
    function    text     COLLATE \"C\" NOT NULL,
    phase       smallint NOT NULL,             -- 0 PENDING, 1 IN_PROGRESS, 2 COMPLETED, 3 and more FAILED
    was         smallint,                      -- the phase before the last write
    due_at      bigint,                        -- milliseconds since 1970; not set while somebody stands before it
    turn_at     bigint,                        -- the same, whoever stands before it
    expires_at  bigint   NOT NULL,             -- milliseconds since 1970; {never} is never
    accepted_at bigint   NOT NULL,             -- milliseconds since 1970
    line        bytea,                         -- hash of function and order
    sequence    bigint,                        -- its place in the line
    holder      bytea,                         -- who has it in progress
    name        text     NOT NULL,             -- of the event, for people
    name_print  bigint   NOT NULL,             -- hash of the event's id
    key_print   bigint   NOT NULL,             -- hash of the key's id
    kind_print  bigint   NOT NULL,             -- hash of the event's type
    error_print bigint,                        -- of the last error
    claims      bytea    NOT NULL DEFAULT '',  -- since it was last written: when, until when, to whom
    execution   bytea    NOT NULL,             -- as Semel encodes it, without its event
    event_print bytea,                         -- SHA-256 of the event
    event       bytea                          -- as the runtime encodes it
) WITH (fillfactor = 80, {churned});
-- Most events do not compress well, and reading them back should cost nothing.
ALTER TABLE {queue} ALTER COLUMN event SET STORAGE EXTERNAL;
-- What can be handed out, the longest due first.
CREATE INDEX IF NOT EXISTS {due} ON {queue} (function, due_at, fence) WHERE due_at IS NOT NULL;
-- Who stands before whom.
CREATE INDEX IF NOT EXISTS {lines} ON {queue} (line, sequence) WHERE line IS NOT NULL AND phase < 2;
-- Who stands in front: one per line, or two for a moment.
CREATE INDEX IF NOT EXISTS {fronts} ON {queue} (line) WHERE line IS NOT NULL AND due_at IS NOT NULL;
-- What is unfinished never expires, and is not in it. Purging takes {PURGE_MAX} at a time from its front.
CREATE INDEX IF NOT EXISTS {expires} ON {queue} (expires_at) WHERE expires_at < {never};
-- What lists go by.
CREATE INDEX IF NOT EXISTS {listed} ON {queue} (function, accepted_at);
CREATE INDEX IF NOT EXISTS {failed} ON {queue} (function, accepted_at) WHERE phase >= {FAILED};
CREATE INDEX IF NOT EXISTS {errors} ON {queue} (error_print, accepted_at) WHERE error_print IS NOT NULL;
CREATE INDEX IF NOT EXISTS {names} ON {queue} (name_print);
CREATE INDEX IF NOT EXISTS {keys} ON {queue} (key_print);
CREATE INDEX IF NOT EXISTS {holders} ON {queue} (holder) WHERE holder IS NOT NULL;
-- How many there are, by function, changed with every change. The slots of a function are to be added up.
CREATE TABLE IF NOT EXISTS {counts} (
    function text COLLATE \"C\" NOT NULL,
    slot     smallint NOT NULL,
    {counters} bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (function, slot)
) WITH (fillfactor = 30, {churned});
-- Grow with every write: one that went back tells that the database forgot something.
CREATE TABLE IF NOT EXISTS {epochs} (slot smallint PRIMARY KEY, epoch bigint NOT NULL)
    WITH (fillfactor = 10, {churned});
INSERT INTO {epochs} (slot, epoch) SELECT slot, 0 FROM generate_series(0, {last}) AS slot
    ON CONFLICT (slot) DO NOTHING;
CREATE TABLE IF NOT EXISTS {meta} (version integer NOT NULL);
",
        due = index("_due"),
        lines = index("_lines"),
        fronts = index("_fronts"),
        expires = index("_expires_at"),
        listed = index("_listed"),
        failed = index("_failed"),
        errors = index("_errors"),
        names = index("_names"),
        keys = index("_keys"),
        holders = index("_holders"),
    );
    let second = format!(
        "\
-- Where these tables are, and what was found of their past: a copy, or a server that was set back, is somewhere else.
CREATE TABLE IF NOT EXISTS {past} (
    is_only     boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    database    oid     NOT NULL,
    relation    oid     NOT NULL,
    timeline    bigint  NOT NULL,           -- of the server's log; 0 where it does not tell
    alarm       text,                       -- what was found, until somebody decides
    accepted_at bigint  NOT NULL DEFAULT 0  -- when somebody decided, milliseconds since 1970
);
",
        past = table.quoted("_past"),
    );
    Schema {
        store: STORE,
        title: "The queue of Semel",
        meta,
        steps: vec![first, second],
        begin: "BEGIN",
        remedy: "connect with `PostgresQueue::builder().create()`",
    }
}
