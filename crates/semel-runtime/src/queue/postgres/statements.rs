//! The statements: one for each thing a queue does, and each is one round trip.
//!
//! 1. Batches come as arrays, in key order, and rows are locked in that order: no two statements wait for each other.
//!    Rows are looked up one by one (`LATERAL`): whatever the planner thinks of the table, an index leads to them.
//! 2. Counters come after all other rows, functions in order; the epoch of the connection's slot comes last.
//! 3. An acceptance looks first and inserts only what is not there. A twin in flight is waited for, at most
//!    [`LOCK_MAX_MS`]; it is not in what the statement sees, so there is a second look.
//! 4. A claim takes what nobody else holds (`SKIP LOCKED`) and waits for nobody.
//! 5. A change names the fence, and is not applied without its event if it has another than the row.
//! 6. Fences come from a sequence, asked when the row is locked. It follows the clock in numbers that leave room for
//!    [`PLACES`] behind each.
//! 7. Every answer tells the server's time.
//!
//! Lines (executions under one order) are locked, and their heads found, by [`super::lines`].

use super::{
    row::READ,
    schema::{SLOTS, counters},
};
use semel::store::postgres::shared::{LOCK_MAX_MS, NOW_MS, Table};
use semel_core::sabotage::is_on;
use std::sync::Arc;

/// More than the executions that one statement can accept: what a batch's first number is multiplied by, so that
/// there is a place for each.
const PLACES: usize = 8_192;

/// The columns of an acceptance, with their types, in the order in which they are bound.
const COLUMNS: [(&str, &str); 16] = [
    ("id", "bytea"),
    ("function", "text"),
    ("phase", "smallint"),
    ("turn_at", "bigint"),
    ("expires_at", "bigint"),
    ("accepted_at", "bigint"),
    ("line", "bytea"),
    ("holder", "bytea"),
    ("name", "text"),
    ("name_print", "bigint"),
    ("key_print", "bigint"),
    ("kind_print", "bigint"),
    ("error_print", "bigint"),
    ("execution", "bytea"),
    ("event_print", "bytea"),
    ("event", "bytea"),
];

/// The texts for one table.
pub(super) struct Statements {
    pub(super) accept: Arc<str>,
    pub(super) claim: Arc<str>,
    pub(super) write: Arc<str>,
    pub(super) purge: Arc<str>,
    pub(super) get: Arc<str>,
    pub(super) authors: Arc<str>,
    pub(super) held: Arc<str>,
    pub(super) put_aside: Arc<str>,
    pub(super) counts: Arc<str>,
    pub(super) learn: Arc<str>,
    /// The table, quoted.
    pub(super) queue: String,
    /// The table of the counters, quoted.
    pub(super) counted: String,
}

impl Statements {
    pub(super) fn new(table: &Table) -> Self {
        let sql = Sql {
            queue: table.records(),
            counts: table.quoted("_counts"),
            epochs: table.quoted("_epochs"),
            fence: format!("nextval('{}')", table.quoted("_fence")),
        };
        let queue = &sql.queue;
        Self {
            accept: sql.accept().into(),
            claim: sql.claim().into(),
            write: sql.write().into(),
            purge: sql.purge().into(),
            get: format!("SELECT {READ} FROM {queue} WHERE id = ANY($1::bytea[])").into(),
            authors: format!(
                "SELECT id, fence, execution, event_print FROM {queue} WHERE id = ANY($1::bytea[]) AND writer = $2"
            )
            .into(),
            held: format!("SELECT {READ} FROM {queue} WHERE holder = $1").into(),
            put_aside: format!(
                "UPDATE {queue} t SET due_at = NULL, turn_at = NULL \
                 FROM unnest($1::bytea[], $2::bigint[]) AS d(id, fence) WHERE t.id = d.id AND t.fence = d.fence"
            )
            .into(),
            counts: sql.total().into(),
            learn: format!("SELECT {NOW_MS}").into(),
            queue: sql.queue.clone(),
            counted: sql.counts.clone(),
        }
    }
}

struct Sql {
    queue: String,
    counts: String,
    epochs: String,
    fence: String,
}

impl Sql {
    /// The moment, the bound on waiting, and the slot of this connection.
    fn bound() -> String {
        format!(
            "bound AS MATERIALIZED (SELECT set_config('lock_timeout', '{LOCK_MAX_MS}', true), {NOW_MS} AS now, \
             (pg_backend_pid() % {SLOTS})::smallint AS slot)"
        )
    }

    fn accept(&self) -> String {
        let Self { queue, .. } = self;
        let arrays = arrays(1);
        let place = COLUMNS.len() + 1;
        let writer = place + 1;
        let insert = self.insert("new", writer);
        let counted = self.counted(&accepted_from("won"));
        let read = qualified("f", READ);
        format!(
            "WITH {bound}, {base}, \
             new AS MATERIALIZED (SELECT * FROM unnest({arrays}, ${place}::bigint[]) AS n({names}, place)), \
             found AS MATERIALIZED (SELECT t.* FROM new n, LATERAL ( \
                 SELECT {READ}, writer, expires_at FROM {queue} WHERE id = n.id LIMIT 1) t), \
             won AS ({insert}), \
             {counted} \
             SELECT n.place, w.fence AS won, w.sequence AS given, f.writer, {MOMENT}, {read} \
             FROM new n LEFT JOIN won w USING (id) \
             LEFT JOIN found f ON f.id = n.id AND w.id IS NULL AND f.expires_at > (SELECT now FROM bound)",
            bound = Self::bound(),
            base = self.base(),
            names = names(),
        )
    }

    /// The number that the places of a batch follow from. It is asked for only where there is a line.
    fn base(&self) -> String {
        format!("base AS MATERIALIZED (SELECT {} * {PLACES} AS number)", self.fence)
    }

    /// Inserts rows of this relation that are not there, or have expired: those that are there stand in `found`.
    fn insert(&self, from: &str, writer: usize) -> String {
        let Self { queue, fence, .. } = self;
        let columns = names();
        let values = COLUMNS.map(|(name, _)| format!("n.{name}")).join(", ");
        let set = COLUMNS.map(|(name, _)| format!("{name} = excluded.{name}")).join(", ");
        format!(
            "INSERT INTO {queue} AS t ({columns}, due_at, sequence, fence, writer) \
             SELECT {values}, CASE WHEN n.line IS NULL THEN n.turn_at END, \
             CASE WHEN n.line IS NOT NULL THEN (SELECT number FROM base) + n.place END, {fence}, ${writer} \
             FROM {from} n, bound WHERE NOT EXISTS ( \
                 SELECT FROM found f WHERE f.id = n.id AND f.expires_at > bound.now) ORDER BY n.id \
             ON CONFLICT (id) DO UPDATE SET {set}, due_at = excluded.due_at, sequence = excluded.sequence, \
                 fence = {fence}, writer = excluded.writer, was = t.phase, claims = '' \
                 WHERE t.expires_at <= (SELECT now FROM bound) \
             RETURNING t.id, t.fence, t.sequence, t.function, t.phase, t.was"
        )
    }

    fn claim(&self) -> String {
        let Self { queue, fence, .. } = self;
        let skips = if is_on("postgres_queue_claims_what_is_locked") { "" } else { "FOR UPDATE SKIP LOCKED" };
        let counted = self.counted(&moved_from("handed"));
        let read = qualified("h", READ);
        format!(
            "WITH {bound}, \
             wanted AS (SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS w(function, most, lease)), \
             chosen AS MATERIALIZED (SELECT t.*, least(w.lease, {never} - bound.now) + bound.now AS until \
                 FROM wanted w, bound, LATERAL ( \
                     SELECT id, fence AS before, due_at AS since FROM {queue} \
                     WHERE function = w.function AND due_at <= bound.now \
                     ORDER BY due_at, fence LIMIT w.most {skips}) t), \
             handed AS (UPDATE {queue} t SET fence = {fence}, writer = $5, was = t.phase, phase = 1, holder = $4, \
                     due_at = c.until, turn_at = c.until, \
                     error_print = CASE WHEN t.phase = 1 THEN $6 ELSE t.error_print END, \
                     claims = t.claims || int8send(bound.now) || int8send(c.until) || $4 \
                 FROM chosen c, bound WHERE t.id = c.id \
                 RETURNING {returned}, t.function, t.phase, t.was, c.since, c.before), \
             {counted} \
             SELECT h.since, h.before, h.function, {MOMENT}, {read} FROM handed h",
            bound = Self::bound(),
            never = i64::MAX,
            returned = qualified("t", READ),
        )
    }

    fn write(&self) -> String {
        let Self { queue, fence, .. } = self;
        let (changed, caused) = (arrays(1), arrays(COLUMNS.len() + 3));
        let [expected, sends] = [1, 2].map(|it| COLUMNS.len() + it);
        let [owner, place, writer] = [3, 4, 5].map(|it| COLUMNS.len() * 2 + it);
        let guard = if is_on("postgres_queue_writes_unfenced") { "" } else { "AND fence = n.expected" };
        let insert = self.insert("causing", writer);
        let counted = self.counted(&format!("{} UNION ALL {}", moved_from("won"), accepted_from("caused")));
        format!(
            "WITH {bound}, {base}, \
             new AS MATERIALIZED (SELECT * FROM unnest({changed}, ${expected}::bigint[], ${sends}::boolean[]) \
                 WITH ORDINALITY AS n({names}, expected, sends, item)), \
             locked AS MATERIALIZED (SELECT t.id, n.item, \
                     (n.sends OR t.event_print IS NOT DISTINCT FROM n.event_print) AS is_whole \
                 FROM new n, LATERAL (SELECT id, event_print FROM {queue} WHERE id = n.id {guard} \
                     LIMIT 1 FOR UPDATE) t), \
             won AS (UPDATE {queue} t SET fence = {fence}, writer = ${writer}, was = t.phase, phase = n.phase, \
                     turn_at = n.turn_at, \
                     due_at = CASE WHEN t.line IS NULL OR t.due_at IS NOT NULL THEN n.turn_at END, \
                     expires_at = n.expires_at, holder = n.holder, error_print = n.error_print, claims = '', \
                     execution = n.execution, event_print = n.event_print, \
                     event = CASE WHEN n.sends THEN n.event ELSE t.event END \
                 FROM locked l JOIN new n ON n.item = l.item WHERE t.id = l.id AND l.is_whole \
                 RETURNING t.id, n.item, t.fence, t.function, t.phase, t.was), \
             causing AS MATERIALIZED (SELECT DISTINCT ON (c.id) c.* \
                 FROM unnest({caused}, ${owner}::bigint[], ${place}::bigint[]) AS c({names}, owner, place) \
                 WHERE c.owner IN (SELECT item FROM won) AND c.id NOT IN (SELECT id FROM new) \
                 ORDER BY c.id, c.place), \
             found AS MATERIALIZED (SELECT t.* FROM causing c, LATERAL ( \
                 SELECT id, expires_at FROM {queue} WHERE id = c.id LIMIT 1) t), \
             caused AS ({insert}), \
             {counted} \
             SELECT l.item, w.fence AS won, {MOMENT} FROM locked l LEFT JOIN won w USING (item)",
            bound = Self::bound(),
            base = self.base(),
            names = names(),
        )
    }

    fn purge(&self) -> String {
        let Self { queue, .. } = self;
        let expired = format!("expires_at <= $1 AND expires_at < {}", i64::MAX);
        let gone = "SELECT function, phase AS code, -1 AS n FROM gone UNION ALL \
                    SELECT function, (SELECT purged FROM codes), 1 FROM gone";
        let counted = self.counted(gone);
        format!(
            "WITH {bound}, \
             gone AS (DELETE FROM {queue} WHERE {expired} AND ctid = ANY (ARRAY( \
                     SELECT ctid FROM {queue} WHERE {expired} ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)) \
                 RETURNING function, phase), \
             {counted} \
             SELECT (SELECT count(*) FROM gone) AS gone, {MOMENT}",
            bound = Self::bound(),
        )
    }

    /// Adds these differences (function, counter, how many) to the counters, and then one to the epoch.
    fn counted(&self, differences: &str) -> String {
        let Self { counts, epochs, .. } = self;
        let names = counters();
        let columns = names.join(", ");
        let sum = |index| format!("coalesce(sum(d.n) FILTER (WHERE d.code = {index}), 0)");
        let sums = (0..names.len()).map(sum).collect::<Vec<_>>().join(", ");
        let set =
            names.iter().map(|it| format!("{it} = c.{it} + excluded.{it}")).collect::<Vec<_>>().join(", ");
        let (accepted, purged) = (names.len() - 2, names.len() - 1);
        format!(
            "codes AS MATERIALIZED (SELECT {accepted} AS accepted, {purged} AS purged), \
             differences(function, code, n) AS MATERIALIZED ({differences}), \
             counted AS (INSERT INTO {counts} AS c (function, slot, {columns}) \
                 SELECT d.function, b.slot, {sums} FROM differences d, bound b \
                 GROUP BY d.function, b.slot ORDER BY d.function \
                 ON CONFLICT (function, slot) DO UPDATE SET {set} RETURNING 1), \
             epoch AS (UPDATE {epochs} e SET epoch = e.epoch + 1 \
                 FROM bound b, (SELECT count(*) AS n FROM counted) c WHERE e.slot = b.slot AND c.n > 0 \
                 RETURNING e.slot, e.epoch)"
        )
    }

    fn total(&self) -> String {
        let sums = counters().iter().map(|it| format!("sum({it})::bigint")).collect::<Vec<_>>().join(", ");
        format!("SELECT function, {sums} FROM {} GROUP BY function ORDER BY function", self.counts)
    }
}

/// What every answer ends with, before its executions: the server's time, and the epoch of its slot.
const MOMENT: &str =
    "(SELECT now FROM bound) AS now, (SELECT slot FROM epoch) AS slot, (SELECT epoch FROM epoch) AS epoch";

/// The differences that acceptances make.
fn accepted_from(relation: &str) -> String {
    let lost = if is_on("postgres_queue_forgets_the_replaced") { "AND false" } else { "" };
    format!(
        "SELECT function, phase::integer AS code, 1 AS n FROM {relation} UNION ALL \
         SELECT function, (SELECT accepted FROM codes), 1 FROM {relation} UNION ALL \
         SELECT function, was, -1 FROM {relation} WHERE was IS NOT NULL {lost} UNION ALL \
         SELECT function, (SELECT purged FROM codes), 1 FROM {relation} WHERE was IS NOT NULL {lost}"
    )
}

/// The differences that changes make.
fn moved_from(relation: &str) -> String {
    format!(
        "SELECT function, phase::integer AS code, 1 AS n FROM {relation} UNION ALL \
         SELECT function, was::integer, -1 FROM {relation}"
    )
}

fn names() -> String {
    COLUMNS.map(|(name, _)| name).join(", ")
}

/// The arrays of an acceptance's columns, bound from this number on.
fn arrays(from: usize) -> String {
    let array = |(index, (_, kind)): (usize, &(&str, &str))| format!("${}::{kind}[]", from + index);
    COLUMNS.iter().enumerate().map(array).collect::<Vec<_>>().join(", ")
}

/// These columns, of this relation.
pub(super) fn qualified(relation: &str, columns: &str) -> String {
    columns.split(", ").map(|it| format!("{relation}.{it}")).collect::<Vec<_>>().join(", ")
}
