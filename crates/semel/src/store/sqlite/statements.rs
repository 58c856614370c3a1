//! The statements: what a store does, inside a transaction that holds the write lock.
//!
//! 1. SQLite has one writer at a time, so what a transaction that writes sees is what is there.
//! 2. Each statement names the fences it expects; who lost is shown what stands there instead. One statement takes many
//!    keys, each once: sending a statement costs more than most of them do.
//! 3. Fences are counted in a row of their own, in the same transaction. They follow the clock, too, so that a
//!    file that was restored from a copy does not give one again.
//!
//! In a user's transaction that has read before it writes, somebody else may have written in between: SQLite then
//! refuses to write, and the transaction must be rolled back and begun again. `BEGIN IMMEDIATE` avoids that.

use crate::store::sql::{Change, Row, Swapped, Table};
use semel_core::{fence::Fence, sabotage, time::Timestamp};
use sqlx::{AssertSqlSafe, Database, Row as _, Sqlite, SqliteConnection, query::Query, sqlite::SqliteRow};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// How many rows a statement may take. A list is filled up to one of these with its last row, which changes
/// nothing: so there are few texts, and each is prepared once.
const ROWS: [usize; 4] = [1, 4, 16, 64];
const ROWS_MAX: usize = ROWS[ROWS.len() - 1];

/// The texts for one table.
pub(super) struct Statements {
    load: Sizes,
    create: Sizes,
    replace: Sizes,
    purge: Arc<str>,
    fence: Arc<str>,
    set_fence: Arc<str>,
    lock: Arc<str>,
}

/// One text for each number of rows.
struct Sizes([Arc<str>; ROWS.len()]);

type Arguments<'q> = Query<'q, Sqlite, <Sqlite as Database>::Arguments>;

impl Sizes {
    /// Texts that hold this many groups of this many parameters.
    fn new(columns: usize, text: impl Fn(&str) -> String) -> Self {
        Self(ROWS.map(|rows| {
            let group = |row| {
                let numbers = (row * columns + 1..=(row + 1) * columns).map(|it| format!("${it}"));
                format!("({})", numbers.collect::<Vec<_>>().join(", "))
            };
            text(&(0..rows).map(group).collect::<Vec<_>>().join(", ")).into()
        }))
    }

    /// The statement for these rows, at most [`ROWS_MAX`], with their parameters.
    fn query<T>(
        &self,
        rows: &[T],
        bind: impl Fn(Arguments<'static>, &T) -> Arguments<'static>,
    ) -> Arguments<'static> {
        let size = ROWS.iter().position(|it| rows.len() <= *it).expect("there are at most so many rows");
        let text = AssertSqlSafe(Arc::clone(&self.0[size]));
        let filling = std::iter::repeat(rows.last().expect("there is a row"));
        rows.iter().chain(filling).take(ROWS[size]).fold(sqlx::query(text), bind)
    }
}

impl Statements {
    pub(super) fn new(table: &Table) -> Self {
        let (records, meta) = (table.records(), table.quoted("_meta"));
        let expired = format!("expires_at <= $1 AND expires_at < {}", i64::MAX);
        // Either way the statement takes the same parameters.
        let guard = if sabotage::is_on("sqlite_fence_ignored") {
            "new.column6 > 0"
        } else {
            "old.fence = new.column6"
        };
        let text = |text: String| Arc::<str>::from(text);
        Self {
            load: Sizes::new(1, |list| {
                format!("SELECT identity, fence, record FROM {records} WHERE identity IN (VALUES {list})")
            }),
            create: Sizes::new(6, |list| {
                format!(
                    "INSERT INTO {records} (identity, fence, status, key, expires_at, record) VALUES {list} \
                     ON CONFLICT (identity) DO NOTHING RETURNING identity"
                )
            }),
            replace: Sizes::new(6, |list| {
                format!(
                    "UPDATE {records} AS old SET fence = new.column2, status = new.column3, \
                     expires_at = new.column4, record = new.column5 FROM (VALUES {list}) AS new \
                     WHERE old.identity = new.column1 AND {guard} RETURNING identity"
                )
            }),
            purge: text(format!(
                "DELETE FROM {records} WHERE {expired} AND identity IN \
                 (SELECT identity FROM {records} WHERE {expired} ORDER BY expires_at LIMIT $2)"
            )),
            fence: text(format!("SELECT fence FROM {meta}")),
            set_fence: text(format!("UPDATE {meta} SET fence = $1")),
            // It changes nothing, and takes the write lock for that.
            lock: text(format!("UPDATE {meta} SET fence = fence WHERE false")),
        }
    }

    pub(super) async fn load(
        &self,
        connection: &mut SqliteConnection,
        identity: &[u8; 32],
    ) -> Result<Option<Row>, sqlx::Error> {
        Ok(self.load_all(connection, &[*identity]).await?.remove(identity))
    }

    /// What stands under these identities.
    async fn load_all(
        &self,
        connection: &mut SqliteConnection,
        identities: &[Identity],
    ) -> Result<HashMap<Identity, Row>, sqlx::Error> {
        let query = self.load.query(identities, |query, it| query.bind(it.to_vec()));
        let row =
            |row: &SqliteRow| Ok((identity(row)?, Row { fence: row.try_get(1)?, record: row.try_get(2)? }));
        query.fetch_all(connection).await?.iter().map(row).collect()
    }

    /// Makes these changes, as if in turn, each on what the one before it left.
    pub(super) async fn swap_all(
        &self,
        connection: &mut SqliteConnection,
        changes: &[&Change],
        now: Timestamp,
    ) -> Result<Vec<Swapped>, sqlx::Error> {
        let mut last = self.last_fence(connection).await?;
        let mut numbered = Vec::with_capacity(changes.len());
        for change in changes {
            let fence = Fence::next(last, now);
            numbered.push(Numbered { change, fence: fence.get().cast_signed() });
            last = Some(fence);
        }
        let mut swapped = Vec::with_capacity(changes.len());
        for some in independent(&numbered) {
            swapped.extend(self.swap_some(connection, some).await?);
        }
        if let (Some(fence), true) = (last, swapped.iter().any(|it| matches!(it, Swapped::Won(_)))) {
            let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.set_fence)));
            query.bind(fence.get().cast_signed()).execute(connection).await?;
        }
        Ok(swapped)
    }

    /// Makes changes of different keys: each is written under its fence, if the stored one is the expected one.
    async fn swap_some(
        &self,
        connection: &mut SqliteConnection,
        changes: &[Numbered<'_>],
    ) -> Result<Vec<Swapped>, sqlx::Error> {
        let (new, old): (Vec<_>, Vec<_>) = changes.iter().partition(|it| it.change.expected.is_none());
        let mut won = HashSet::new();
        if !new.is_empty() {
            let create = self.create.query(&new, |query, it| {
                let query = query.bind(it.change.identity.to_vec()).bind(it.fence).bind(it.change.status);
                query.bind(it.change.key.clone()).bind(it.change.expires_at).bind(it.change.record.clone())
            });
            winners(connection, create, &mut won).await?;
        }
        if !old.is_empty() {
            let replace = self.replace.query(&old, |query, it| {
                let query = query.bind(it.change.identity.to_vec()).bind(it.fence).bind(it.change.status);
                query.bind(it.change.expires_at).bind(it.change.record.clone()).bind(it.change.expected)
            });
            winners(connection, replace, &mut won).await?;
        }
        let identities = changes.iter().map(|it| it.change.identity);
        let lost: Vec<Identity> = identities.filter(|it| !won.contains(it)).collect();
        let mut found =
            if lost.is_empty() { HashMap::new() } else { self.load_all(connection, &lost).await? };
        let swapped = |it: &Numbered<'_>| {
            if won.contains(&it.change.identity) {
                return Swapped::Won(it.fence);
            }
            Swapped::Lost(found.remove(&it.change.identity))
        };
        Ok(changes.iter().map(swapped).collect())
    }

    /// Takes the write lock, so that nobody writes between what this transaction reads and what it writes.
    pub(super) async fn lock(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        sqlx::query(AssertSqlSafe(Arc::clone(&self.lock))).execute(connection).await.map(|_| ())
    }

    async fn last_fence(&self, connection: &mut SqliteConnection) -> Result<Option<Fence>, sqlx::Error> {
        let row = sqlx::query(AssertSqlSafe(Arc::clone(&self.fence))).fetch_one(connection).await?;
        let last: i64 = row.try_get(0)?;
        Ok(u64::try_from(last).ok().and_then(Fence::new))
    }

    pub(super) async fn purge(
        &self,
        connection: &mut SqliteConnection,
        expired_at: i64,
        limit: u32,
    ) -> Result<u32, sqlx::Error> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.purge)));
        let done = query.bind(expired_at).bind(i64::from(limit)).execute(connection).await?;
        Ok(u32::try_from(done.rows_affected()).unwrap_or(u32::MAX))
    }
}

type Identity = [u8; 32];

/// A change, and the fence it is made under.
struct Numbered<'a> {
    change: &'a Change,
    fence: i64,
}

/// Cuts a list into pieces in which each key stands once, and which a statement can take.
fn independent<'a>(changes: &'a [Numbered<'a>]) -> Vec<&'a [Numbered<'a>]> {
    let mut pieces = Vec::new();
    let (mut from, mut seen) = (0, HashSet::new());
    for (at, it) in changes.iter().enumerate() {
        if at - from == ROWS_MAX || seen.contains(&it.change.identity) {
            pieces.push(&changes[from..at]);
            from = at;
            seen.clear();
        }
        seen.insert(it.change.identity);
    }
    pieces.push(&changes[from..]);
    pieces
}

/// Those whose change was made.
async fn winners(
    connection: &mut SqliteConnection,
    query: Arguments<'static>,
    won: &mut HashSet<Identity>,
) -> Result<(), sqlx::Error> {
    for row in query.fetch_all(connection).await? {
        won.insert(identity(&row)?);
    }
    Ok(())
}

fn identity(row: &SqliteRow) -> Result<Identity, sqlx::Error> {
    let bytes: Vec<u8> = row.try_get(0)?;
    bytes
        .try_into()
        .map_err(|_| sqlx::Error::Decode("an identity is 32 bytes: did Semel write this row?".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::key::Key;

    fn change(id: u32) -> Change {
        Change {
            identity: *Key::new("test", id).expect("this is a key").identity().as_bytes(),
            expected: None,
            status: "PENDING",
            key: String::new(),
            expires_at: 0,
            record: Vec::new(),
        }
    }

    fn pieces(ids: impl IntoIterator<Item = u32>) -> Vec<usize> {
        let changes: Vec<Change> = ids.into_iter().map(change).collect();
        let numbered: Vec<_> = changes.iter().map(|change| Numbered { change, fence: 1 }).collect();
        independent(&numbered).iter().map(|it| it.len()).collect()
    }

    #[test]
    fn a_statement_takes_a_key_once_and_no_more_rows_than_it_has_room_for() {
        assert_eq!(pieces([1, 2, 3]), [3]);
        assert_eq!(pieces([1, 2, 1, 1, 3]), [2, 1, 2]);
        assert_eq!(pieces(0..ROWS_MAX as u32), [ROWS_MAX]);
        assert_eq!(pieces(0..=ROWS_MAX as u32), [ROWS_MAX, 1]);
    }
}
