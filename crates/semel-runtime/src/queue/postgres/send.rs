//! Statements on their way to the server and back.
//!
//! 1. An operation that was in other transactions' way did nothing, and is sent again, [`SENDS_MAX`] times at most.
//! 2. One whose reply was lost may have been carried out. It is sent again, [`TRIES_MAX`] times in all: it
//!    recognises its own.
//! 3. One that could not be sent at all is an error at once. Counters, and executions by their ids, are looked for again if
//!    the connection broke: they are asked for all the time, and an error would be an alarm.
//! 4. A connection that does not answer in time, or in the middle of a transaction, is given up, not given back.

use super::{Shared, epochs::Remembered, lines::Lines, past::WentBack, schema::counters};
use semel::store::postgres::shared::{
    ANSWER_MAX, SENDS_MAX, STORE, acquire, is_answer, is_conflict, silent, told,
};
use semel_core::{
    queue::Counts,
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
    time::{Clock, Timestamp},
};
use sqlx::{
    AssertSqlSafe, PgConnection, Postgres, Row as _,
    pool::PoolConnection,
    postgres::{PgArguments, PgRow},
};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// Most times that an operation is sent whose reply was lost.
const TRIES_MAX: u32 = 3;

pub(super) type Query<'a> = sqlx::query::Query<'a, Postgres, PgArguments>;

/// Something that changes rows. It can be sent again, and recognises what it did.
pub(super) trait Operation: Sync {
    /// In the words of errors.
    fn doing(&self) -> &'static str;
    /// What it stands in the way of.
    fn lines(&self) -> &Lines;
    /// The statement, with everything bound.
    fn query(&self, shared: &Shared) -> Query<'_>;
    /// Where the server's time stands in its rows; slot and epoch follow.
    fn moment(&self) -> usize;
    /// Whether it gives executions to somebody.
    fn hands_out(&self) -> bool {
        false
    }
}

/// Something that only looks.
pub(super) struct Reading<'a> {
    pub(super) doing: &'static str,
    pub(super) query: Query<'a>,
}

/// What the server answered.
pub(super) struct Answer {
    pub(super) rows: Vec<PgRow>,
    /// Whether an earlier reply was lost: then what seems to be somebody else's may be our own.
    pub(super) is_repeated: bool,
}

/// Why there is no answer.
pub(super) enum Trouble {
    /// It did nothing, because others were in the way.
    Conflict(StoreError),
    /// It may have been carried out.
    Lost(StoreError),
    /// It was not sent, was refused, or cannot be understood.
    Refused(StoreError),
}

impl Trouble {
    fn into_error(self) -> StoreError {
        let (Self::Conflict(error) | Self::Lost(error) | Self::Refused(error)) = self;
        error
    }
}

impl Shared {
    /// Looks, in bounded time.
    pub(super) async fn read(&self, reading: Reading<'_>) -> Result<Vec<PgRow>, StoreError> {
        self.read_once(reading).await.map_err(Trouble::into_error)
    }

    /// As [`Shared::read`], and again if the connection broke. A server that is silent is not asked again.
    pub(super) async fn read_surely<'a>(
        &self,
        reading: impl Fn() -> Reading<'a> + Send + Sync,
    ) -> Result<Vec<PgRow>, StoreError> {
        let mut tries = 1;
        loop {
            match self.read_once(reading()).await {
                Err(Trouble::Lost(_)) if tries < TRIES_MAX => tries += 1,
                answer => return answer.map_err(Trouble::into_error),
            }
        }
    }

    async fn read_once(&self, reading: Reading<'_>) -> Result<Vec<PgRow>, Trouble> {
        let mut connection = acquire(&self.pool).await.map_err(Trouble::Refused)?;
        match timeout(ANSWER_MAX, reading.query.fetch_all(&mut *connection)).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => {
                if !is_answer(&error) {
                    connection.close_on_drop();
                }
                Err(trouble(reading.doing, error))
            }
            Err(_) => {
                connection.close_on_drop();
                Err(Trouble::Refused(silent(reading.doing)))
            }
        }
    }

    /// Has it carried out, and gives what it answers.
    pub(super) async fn send(&self, operation: &dyn Operation) -> Result<Answer, StoreError> {
        let mut tries = 1;
        loop {
            match self.attempt(operation).await {
                Ok(rows) => return Ok(Answer { rows, is_repeated: tries > 1 }),
                Err(Trouble::Lost(_)) if tries < TRIES_MAX && !is_on("postgres_queue_guesses") => tries += 1,
                Err(trouble) => return Err(trouble.into_error()),
            }
        }
    }

    /// Has it carried out once, however often others are in the way.
    pub(super) async fn attempt(&self, operation: &dyn Operation) -> Result<Vec<PgRow>, Trouble> {
        let mut sends = 1;
        loop {
            match self.send_once(operation).await {
                Err(Trouble::Conflict(_)) if sends < SENDS_MAX => sends += 1,
                answer => return answer,
            }
        }
    }

    async fn send_once(&self, operation: &dyn Operation) -> Result<Vec<PgRow>, Trouble> {
        self.look_again().await;
        self.epochs.calm(operation.hands_out()).map_err(Trouble::Refused)?;
        let mut connection = acquire(&self.pool).await.map_err(Trouble::Refused)?;
        let (remembered, sent) = (self.epochs.remembered(), self.clock.monotonic());
        let rows = match timeout(ANSWER_MAX, self.ask(&mut connection, operation)).await {
            Ok(Ok(rows)) => rows,
            Ok(Err(error)) => {
                if is_gone(&error) || !rolled_back(&mut connection, operation).await {
                    connection.close_on_drop();
                }
                return Err(trouble(operation.doing(), error));
            }
            Err(_) => {
                connection.close_on_drop();
                return Err(Trouble::Lost(silent(operation.doing())));
            }
        };
        drop(connection);
        if let Some(found) = self.note(operation, &rows, &remembered, sent).map_err(Trouble::Refused)? {
            self.epoch_went_back(found).await.map_err(Trouble::Refused)?;
        }
        Ok(rows)
    }

    /// Learns what an answer tells beside its own. Gives what was found, if the database went back.
    fn note(
        &self,
        operation: &dyn Operation,
        rows: &[PgRow],
        remembered: &Remembered,
        sent: Duration,
    ) -> Result<Option<WentBack>, StoreError> {
        let Some(row) = rows.first() else { return Ok(None) };
        let moment = Moment::read(row, operation.moment()).map_err(|error| told(operation.doing(), error))?;
        self.learn(moment.now, sent);
        Ok(moment.epoch.and_then(|(slot, epoch)| self.epochs.told(remembered, slot, epoch).err()))
    }

    async fn ask(
        &self,
        connection: &mut PgConnection,
        operation: &dyn Operation,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let (lines, queue) = (operation.lines(), &self.statements.queue);
        if lines.is_empty() {
            return operation.query(self).fetch_all(connection).await;
        }
        sqlx::raw_sql(AssertSqlSafe(lines.begin(queue))).execute(&mut *connection).await?;
        let rows = operation.query(self).fetch_all(&mut *connection).await?;
        sqlx::raw_sql(AssertSqlSafe(lines.commit(queue))).execute(&mut *connection).await?;
        Ok(rows)
    }

    pub(super) fn learn(&self, now: i64, sent: Duration) {
        let now = Timestamp::from_millis(now.try_into().unwrap_or(0));
        self.clock.learn(now, sent, self.clock.monotonic());
    }
}

/// Whether the connection is as it was before the operation.
async fn rolled_back(connection: &mut PoolConnection<Postgres>, operation: &dyn Operation) -> bool {
    if operation.lines().is_empty() {
        return true;
    }
    let rollback = sqlx::raw_sql("ROLLBACK").execute(&mut **connection);
    matches!(timeout(ANSWER_MAX, rollback).await, Ok(Ok(_)))
}

fn trouble(doing: &str, error: sqlx::Error) -> Trouble {
    let (is_conflict, is_gone) = (is_conflict(&error), is_gone(&error));
    let error = told(doing, error);
    match error.kind() {
        StoreErrorKind::Unavailable if is_conflict => Trouble::Conflict(error),
        StoreErrorKind::Unavailable if is_gone => Trouble::Lost(error),
        _ => Trouble::Refused(error),
    }
}

/// Whether the connection is of no more use: it broke, or the server says that it ends it.
fn is_gone(error: &sqlx::Error) -> bool {
    let Some(answer) = error.as_database_error() else { return true };
    answer.code().is_some_and(|it| it.starts_with("57P") || it.starts_with("08") || it == "25P03")
}

/// Random, one per operation: a row with one's own writer is proof of authorship.
pub(super) fn writer() -> Result<[u8; 16], StoreError> {
    let mut writer = [0; 16];
    getrandom::fill(&mut writer).map_err(|error| {
        let context = format!("the system gives no random numbers: {error}");
        StoreError::new(StoreErrorKind::Unavailable, STORE, context)
    })?;
    Ok(writer)
}

/// What every answer tells beside its own.
struct Moment {
    now: i64,
    epoch: Option<(i16, i64)>,
}

impl Moment {
    fn read(row: &PgRow, from: usize) -> Result<Self, sqlx::Error> {
        let (slot, epoch): (Option<i16>, Option<i64>) = (row.try_get(from + 1)?, row.try_get(from + 2)?);
        Ok(Self { now: row.try_get(from)?, epoch: slot.zip(epoch) })
    }
}

/// Removes what has expired.
pub(super) struct Purge {
    pub(super) expired_at: i64,
    pub(super) limit: u32,
}

impl Purge {
    pub(super) fn read(&self, rows: &[PgRow]) -> Result<u32, StoreError> {
        let gone = rows.first().map_or(Ok(0_i64), |row| row.try_get(0));
        let gone = gone.map_err(|error| told(self.doing(), error))?;
        Ok(u32::try_from(gone).unwrap_or(u32::MAX))
    }
}

impl Operation for Purge {
    fn doing(&self) -> &'static str {
        "purging"
    }

    fn lines(&self) -> &Lines {
        Lines::none()
    }

    fn query(&self, shared: &Shared) -> Query<'_> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&shared.statements.purge)));
        query.bind(self.expired_at).bind(i64::from(self.limit))
    }

    fn moment(&self) -> usize {
        1
    }
}

/// A function's counters, as they are read.
pub(super) struct Counted;

impl Counted {
    pub(super) fn read(row: &PgRow) -> Result<Counts, sqlx::Error> {
        let function: String = row.try_get(0)?;
        let mut counts = Counts::none(super::row::unescaped(&function));
        let mut numbers = Vec::with_capacity(counters().len());
        for column in 1..=counters().len() {
            numbers.push(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or(0));
        }
        let failed = &numbers[3..numbers.len() - 2];
        counts.failed.copy_from_slice(failed);
        [counts.pending, counts.in_progress, counts.completed] = [numbers[0], numbers[1], numbers[2]];
        [counts.accepted, counts.purged] = [numbers[numbers.len() - 2], numbers[numbers.len() - 1]];
        Ok(counts)
    }
}
