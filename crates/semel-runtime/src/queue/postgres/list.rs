//! Lists, a page at a time.
//!
//! 1. Names, errors, holders and failures have indexes. Everything else is looked for along the acceptance, through
//!    [`SCAN_MAX`] executions of each function for one page: a page may be short, or empty, and not be the last.
//! 2. Hashes find candidates; [`Filter::matches`] has the last word.
//! 3. Without a function, the lists of all functions are merged: there are few functions, and each has its order.
//! 4. Lists take one connection of [`LISTS_PART`] at most, so that those that are slow keep nobody's outcome from being written.
//!    What somebody holds is the engine's question, is found by an index, and does not wait for its turn.

use super::{
    super::cursor::Place,
    QUEUE, Shared,
    row::{READ, escaped, holder_bytes, millis, number, read, text_print},
    schema::{FAILED, failed},
    send::Reading,
    statements::qualified,
};
use semel::store::postgres::shared::{ANSWER_MAX, told};
use semel_core::{
    execution::{Execution, ExecutionId},
    key::Identity,
    queue::{Cursor, Fenced, Filter, Page},
    record::Status,
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
    time::Timestamp,
};
use sqlx::{Postgres, QueryBuilder, Row as _, postgres::PgRow};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

/// Most executions that are looked at for one page, of each function.
const SCAN_MAX: i64 = 20_000;
/// Of so many connections of a pool, lists take one at most.
const LISTS_PART: u32 = 4;
const DOING: &str = "listing executions";
const LATEST_FIRST: &str = " ORDER BY t.accepted_at DESC, t.id DESC";

/// Those who list take turns.
pub(super) struct Turns(Semaphore);

impl Turns {
    /// For a pool of so many connections.
    pub(super) fn of(connections: u32) -> Self {
        let part = if is_on("postgres_lists_take_all_connections") { 1 } else { LISTS_PART };
        Self(Semaphore::new((connections / part).max(1) as usize))
    }

    async fn next(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let turn = timeout(ANSWER_MAX, self.0.acquire()).await;
        turn.map(|it| it.expect("nobody closes it")).map_err(|_| {
            let context = format!("{DOING}: others do, and it takes them long; try again");
            StoreError::new(StoreErrorKind::Unavailable, QUEUE, context)
        })
    }
}

pub(super) async fn list(
    shared: &Shared,
    filter: &Filter,
    from: Option<&Cursor>,
    limit: usize,
) -> Result<Page<Fenced<Execution>>, StoreError> {
    let from = from.map(|it| Place::read(QUEUE, it)).transpose()?;
    let asked = Asked { shared, filter, from };
    let _turn = if filter.holder.is_some() { None } else { Some(shared.lists.next().await?) };
    let until = if asked.is_scan() { asked.scanned().await? } else { None };
    let mut found = asked.matching(until, limit + 1).await?;
    let is_more = found.len() > limit;
    found.truncate(limit);
    let next = if is_more { found.last().map(|it| it.0) } else { until };
    // A hash may have brought what does not match: it was looked at all the same.
    let items = found.into_iter().filter_map(|it| it.1).filter(|it| filter.matches(&it.value)).collect();
    Ok(Page { items, next: next.map(Place::cursor) })
}

type Found = (Place, Option<Fenced<Execution>>);

/// The place that these columns tell: of the acceptance, and of the id.
fn place(row: &PgRow, [accepted_at, id]: [usize; 2]) -> Result<Place, StoreError> {
    let column = |error| told(DOING, error);
    let accepted_at: i64 = row.try_get(accepted_at).map_err(column)?;
    let id: Vec<u8> = row.try_get(id).map_err(column)?;
    let identity = id.try_into().map_err(|_| {
        StoreError::new(StoreErrorKind::Corrupt, QUEUE, "an id has another length than a hash")
    })?;
    let accepted_at = Timestamp::from_millis(accepted_at.cast_unsigned());
    Ok(Place { accepted_at, id: ExecutionId::from_identity(Identity::from_bytes(identity)) })
}

struct Asked<'a> {
    shared: &'a Shared,
    filter: &'a Filter,
    from: Option<Place>,
}

type Text = QueryBuilder<Postgres>;

impl Asked<'_> {
    /// Whether an index leads to what matches, whatever the function.
    fn is_found_by_index(&self) -> bool {
        let Filter { name, holder, error, .. } = self.filter;
        name.is_some() || holder.is_some() || error.is_some()
    }

    /// Whether much may have to be looked at that does not match.
    fn is_scan(&self) -> bool {
        let by_phase = match self.filter.status {
            Some(Status::Pending | Status::InProgress | Status::Completed) => true,
            Some(Status::Failed) | None => self.filter.reason.is_some(),
        };
        !self.is_found_by_index() && (by_phase || self.filter.kind.is_some())
    }

    /// How far one page looks, if there is more behind that.
    async fn scanned(&self) -> Result<Option<Place>, StoreError> {
        let mut text = Text::new("SELECT t.accepted_at, t.id FROM ");
        self.merged(&mut text, "t.accepted_at, t.id", |text| {
            self.push_range(text);
            text.push(LATEST_FIRST).push(" OFFSET ").push_bind(SCAN_MAX - 1).push(" LIMIT 1");
        });
        text.push(LATEST_FIRST).push(" LIMIT 1");
        let rows = self.shared.read(Reading { doing: DOING, query: text.build() }).await?;
        rows.first().map(|row| place(row, [0, 1])).transpose()
    }

    /// The first that match, up to there. One that is damaged has its place all the same.
    async fn matching(&self, until: Option<Place>, limit: usize) -> Result<Vec<Found>, StoreError> {
        let (limit, columns) = (number(limit), qualified("t", READ));
        let mut text = Text::new(format!("SELECT {columns}, t.accepted_at FROM "));
        self.merged(&mut text, &format!("{columns}, t.accepted_at"), |text| {
            self.push_range(text);
            self.push_rest(text);
            if let Some(until) = until {
                text.push(" AND t.accepted_at >= ").push_bind(millis(until.accepted_at));
                push_place(text, " AND (t.accepted_at, t.id) >= ", until);
            }
            text.push(LATEST_FIRST).push(" LIMIT ").push_bind(limit);
        });
        text.push(LATEST_FIRST).push(" LIMIT ").push_bind(limit);
        let rows = self.shared.read(Reading { doing: DOING, query: text.build() }).await?;
        rows.iter().map(|row| self.found(row)).collect()
    }

    fn found(&self, row: &PgRow) -> Result<Found, StoreError> {
        let place = place(row, [6, 0])?;
        match read(row, 0) {
            Ok(it) => Ok((place, Some(it))),
            Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                self.shared.damaged.note(place.id.identity().as_bytes());
                Ok((place, None))
            }
            Err(error) => Err(error),
        }
    }

    /// These columns of what `rest` says, of one function or of each.
    fn merged(&self, text: &mut Text, columns: &str, rest: impl FnOnce(&mut Text)) {
        let (queue, counts) = (&self.shared.statements.queue, &self.shared.statements.counted);
        match &self.filter.function {
            Some(function) => {
                text.push(format!("(SELECT {columns} FROM {queue} t WHERE t.function = "));
                text.push_bind(escaped(function));
            }
            None if self.is_found_by_index() => {
                text.push(format!("(SELECT {columns} FROM {queue} t WHERE true"));
            }
            None => {
                text.push(format!(
                    "(SELECT DISTINCT c.function FROM {counts} c) f CROSS JOIN LATERAL \
                     (SELECT {columns} FROM {queue} t WHERE t.function = f.function"
                ));
            }
        }
        rest(text);
        text.push(") t");
    }

    /// What an index goes by.
    fn push_range(&self, text: &mut Text) {
        let filter = self.filter;
        if let Some(from) = self.from {
            text.push(" AND t.accepted_at <= ").push_bind(millis(from.accepted_at));
            push_place(text, " AND (t.accepted_at, t.id) < ", from);
        }
        if let Some(moment) = filter.accepted_from {
            text.push(" AND t.accepted_at >= ").push_bind(millis(moment));
        }
        if let Some(moment) = filter.accepted_before {
            text.push(" AND t.accepted_at < ").push_bind(millis(moment));
        }
        if filter.status == Some(Status::Failed) || filter.reason.is_some() {
            text.push(format!(" AND t.phase >= {FAILED}"));
        }
        if let Some(name) = &filter.name {
            let print = text_print(name);
            text.push(" AND (t.name_print = ")
                .push_bind(print)
                .push(" OR t.key_print = ")
                .push_bind(print)
                .push(")");
        }
        if let Some(holder) = filter.holder {
            text.push(" AND t.holder = ").push_bind(holder_bytes(holder));
        }
        if let Some(print) = filter.error {
            text.push(" AND t.error_print = ").push_bind(print.0.cast_signed());
        }
    }

    /// What has to be looked at one by one.
    fn push_rest(&self, text: &mut Text) {
        let filter = self.filter;
        match filter.status {
            Some(Status::Pending) => drop(text.push(" AND t.phase = 0")),
            Some(Status::InProgress) => drop(text.push(" AND t.phase = 1")),
            Some(Status::Completed) => drop(text.push(" AND t.phase = 2")),
            Some(Status::Failed) | None => {}
        }
        if let Some(reason) = filter.reason {
            text.push(" AND t.phase = ").push_bind(failed(reason));
        }
        if let Some(kind) = &filter.kind {
            text.push(" AND t.kind_print = ").push_bind(text_print(kind));
        }
    }
}

fn push_place(text: &mut Text, condition: &str, place: Place) {
    text.push(condition).push("(").push_bind(millis(place.accepted_at));
    text.push(", ").push_bind(place.id.identity().as_bytes().to_vec()).push(")");
}
