//! Whether the database went back in time, and what somebody decided about it.
//!
//! 1. One row says where the tables are: in which database, under which number, on which timeline of the server's log. A
//!    copy that was restored from a dump has other numbers, a server that was set back to a backup another timeline: so
//!    a node that is started afterwards, and remembers nothing, finds out.
//! 2. A failover begins a timeline, too. A node that lived through it knows by its epochs whether anything was lost: if
//!    not, it writes the new timeline into the row. Where no node lived through it, somebody has to look.
//! 3. Whoever finds out writes an alarm into the row, which stops all nodes: those that write, by their own epochs or
//!    when they [look](Shared::look), and those that are started.
//! 4. Somebody's decision is written into the row as well, with its time. A node with an alarm looks for it, at most once in
//!    [`LOOK_EVERY`]; one whose epochs went back takes a decision that it did not know of for the reason.
//!
//! 5. Before anything is written after a decision, fences go beyond everything that can have been given: what a function has
//!    seen before is never newer than what it sees then.
//!
//! A server that does not tell its timeline is not asked again for it: only dumps are noticed there.

use super::{
    Shared,
    epochs::lost,
    send::{Query, Reading},
};
use semel::store::postgres::shared::{NOW_MS, Table, acquire, leap, told};
use semel_core::{queue::GoOn, sabotage::is_on, store::StoreError, time::Clock as _};
use sqlx::{AssertSqlSafe, Row as _, postgres::PgRow};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// How often a node with an alarm looks whether somebody has decided.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const DOING: &str = "looking for the past of the tables";

/// How the database was found to have gone back in time: what it had acknowledged may be gone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WentBack {
    /// This node remembers more.
    #[error("epoch {remembered} was acknowledged, and then epoch {found} was given out anew")]
    Forgot {
        /// What the node had been told.
        remembered: i64,
        /// What it found.
        found: i64,
    },
    /// The tables are a copy.
    #[error("the tables were restored from a dump, or moved by one")]
    Copied,
    /// The server was set back, or another one has taken its place, and no node lived through it.
    #[error("the server's log is on timeline {found}, and was on {remembered} when a node last looked")]
    Timeline {
        /// What a node had found.
        remembered: i64,
        /// What is there now.
        found: i64,
    },
    /// Another node found this.
    #[error("another node found: {0}")]
    Told(Box<str>),
}

/// What this node knows of the row, and how it asks.
pub(super) struct Past {
    table: Table,
    here: Arc<str>,
    begin: Arc<str>,
    known: Arc<str>,
    alarm: Arc<str>,
    vouch: Arc<str>,
    accept: Arc<str>,
    epochs: Arc<str>,
    /// When somebody decided last, as far as this node knows.
    accepted_at: AtomicI64,
    /// When it looked last, on the monotonic clock.
    looked_at: Mutex<Option<Duration>>,
}

/// Where the tables are.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Here {
    database: i64,
    relation: i64,
    timeline: i64,
}

/// What the row says.
struct Known {
    here: Here,
    alarm: Option<String>,
    accepted_at: i64,
}

impl Known {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        let here = Here { database: row.try_get(0)?, relation: row.try_get(1)?, timeline: row.try_get(2)? };
        Ok(Self { here, alarm: row.try_get(3)?, accepted_at: row.try_get(4)? })
    }

    /// What is wrong with it, for tables that are here. What is not known of a timeline is not held against it.
    fn against(&self, here: &Here) -> Option<WentBack> {
        if let Some(alarm) = &self.alarm {
            return Some(WentBack::Told(alarm.as_str().into()));
        }
        let is_elsewhere = (self.here.database, self.here.relation) != (here.database, here.relation);
        if is_elsewhere && !is_on("postgres_queue_ignores_its_place") {
            return Some(WentBack::Copied);
        }
        let (remembered, found) = (self.here.timeline, here.timeline);
        let is_known = remembered != 0 && found != 0;
        (is_known && remembered != found).then_some(WentBack::Timeline { remembered, found })
    }
}

impl Past {
    pub(super) fn new(table: &Table) -> Self {
        let (queue, past, epochs) = (table.records(), table.quoted("_past"), table.quoted("_epochs"));
        let place = "database = $1::oid, relation = $2::oid, timeline = $3";
        Self {
            table: table.clone(),
            here: format!(
                "SELECT d.oid::bigint, '{}'::regclass::oid::bigint FROM pg_database d \
                 WHERE d.datname = current_database()",
                queue.replace('\'', "''")
            )
            .into(),
            begin: format!(
                "INSERT INTO {past} (database, relation, timeline) VALUES ($1::oid, $2::oid, $3) \
                 ON CONFLICT DO NOTHING"
            )
            .into(),
            known: format!(
                "SELECT database::bigint, relation::bigint, timeline, alarm, accepted_at FROM {past}"
            )
            .into(),
            alarm: format!("UPDATE {past} SET alarm = $1 WHERE alarm IS NULL").into(),
            vouch: format!("UPDATE {past} SET timeline = $1 WHERE alarm IS NULL").into(),
            accept: format!(
                "UPDATE {past} SET {place}, alarm = NULL, \
                 accepted_at = GREATEST({NOW_MS}, accepted_at + 1, $4 + 1) RETURNING accepted_at"
            )
            .into(),
            epochs: format!("SELECT slot, epoch FROM {epochs}").into(),
            accepted_at: AtomicI64::new(0),
            looked_at: Mutex::new(None),
        }
    }

    /// Whether it is time to look.
    fn may_look(&self, now: Duration) -> bool {
        // Nothing that is done under the lock panics.
        let mut looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let may = looked_at.is_none_or(|it| now.saturating_sub(it) >= LOOK_EVERY);
        if may {
            *looked_at = Some(now);
        }
        may
    }
}

fn query(text: &Arc<str>) -> Query<'static> {
    sqlx::query(AssertSqlSafe(Arc::clone(text)))
}

impl Shared {
    async fn ask_past(&self, query: Query<'_>) -> Result<Vec<PgRow>, StoreError> {
        self.read(Reading { doing: DOING, query }).await
    }

    async fn here(&self) -> Result<Here, StoreError> {
        let rows = self.ask_past(query(&self.past.here)).await?;
        let read = |row: &PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
        let (database, relation) =
            rows.first().ok_or(sqlx::Error::RowNotFound).and_then(read).map_err(|it| told(DOING, it))?;
        let timeline = "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint";
        // Some servers do not tell, or not everybody.
        let timeline = self.ask_past(sqlx::query(timeline)).await.ok();
        let timeline = timeline.and_then(|rows| rows.first()?.try_get(0).ok()).unwrap_or(0);
        Ok(Here { database, relation, timeline })
    }

    async fn known(&self) -> Result<Known, StoreError> {
        let rows = self.ask_past(query(&self.past.known)).await?;
        rows.first().ok_or(sqlx::Error::RowNotFound).and_then(Known::read).map_err(|it| told(DOING, it))
    }

    /// Looks where the tables are, when this node begins.
    pub(super) async fn begin(&self) -> Result<(), StoreError> {
        let here = self.here().await?;
        let begin = query(&self.past.begin).bind(here.database).bind(here.relation).bind(here.timeline);
        self.ask_past(begin).await?;
        let known = self.known().await?;
        self.past.accepted_at.store(known.accepted_at, Ordering::Release);
        if let Some(found) = known.against(&here) {
            self.raise(found).await;
        }
        Ok(())
    }

    /// Looks whether the tables are still where they were, and whether what this node remembers is still there.
    pub(super) async fn look(&self) -> Result<(), StoreError> {
        if self.epochs.alarm().is_some() || !self.past.may_look(self.clock.monotonic()) {
            return Ok(());
        }
        let remembered = self.epochs.remembered();
        let (here, known) = (self.here().await?, self.known().await?);
        match known.against(&here) {
            None => return Ok(()),
            Some(WentBack::Timeline { .. }) if remembered.iter().any(|it| *it > 0) => {}
            Some(found) => {
                self.raise(found).await;
                return Ok(());
            }
        }
        for row in self.ask_past(query(&self.past.epochs)).await? {
            let read = || Ok::<(i16, i64), sqlx::Error>((row.try_get(0)?, row.try_get(1)?));
            let (slot, epoch) = read().map_err(|it| told(DOING, it))?;
            if let Some(found) = lost(&remembered, slot, epoch, epoch) {
                self.raise(found).await;
                return Ok(());
            }
        }
        self.ask_past(query(&self.past.vouch).bind(here.timeline)).await?;
        Ok(())
    }

    /// Looks, after an alarm, whether somebody has decided, or another node knows better.
    pub(super) async fn look_again(&self) {
        let Some(alarm) = self.epochs.alarm() else { return };
        if !self.past.may_look(self.clock.monotonic()) {
            return;
        }
        let (Ok(here), Ok(known)) = (self.here().await, self.known().await) else { return };
        let is_decided = self.is_news(&known);
        if known.against(&here).is_none() && (is_decided || !matches!(alarm, WentBack::Forgot { .. })) {
            tracing::info!("the past of the database was accepted, the work goes on");
            self.epochs.forget();
        }
    }

    /// An epoch went back: because somebody decided so, of which this node did not know, or because something is lost.
    pub(super) async fn epoch_went_back(&self, found: WentBack) -> Result<(), StoreError> {
        let known = self.known().await.ok().filter(|it| it.alarm.is_none());
        if known.is_some_and(|it| self.is_news(&it)) {
            self.epochs.forget();
        } else {
            self.raise(found).await;
        }
        self.epochs.calm(false)
    }

    /// Whether somebody has decided since this node last looked.
    fn is_news(&self, known: &Known) -> bool {
        self.past.accepted_at.fetch_max(known.accepted_at, Ordering::AcqRel) < known.accepted_at
    }

    /// Stops this node, and the others.
    async fn raise(&self, found: WentBack) {
        tracing::error!(%found, "the database went back in time: nothing is delivered until somebody decides");
        let text = match &found {
            WentBack::Told(text) => text.to_string(),
            found => found.to_string(),
        };
        self.epochs.raise(found);
        if let Err(error) = self.ask_past(query(&self.past.alarm).bind(text)).await {
            tracing::warn!(%error, "other nodes could not be told");
        }
    }

    /// Sees to it that every fence from now on is beyond all before.
    async fn leap(&self) -> Result<(), StoreError> {
        if is_on("postgres_past_keeps_its_fences") {
            return Ok(());
        }
        let mut connection = acquire(&self.pool).await?;
        let leapt = leap(&mut connection, &self.past.table).await;
        if leapt.is_err() {
            connection.close_on_drop();
        }
        leapt
    }

    /// Somebody has decided.
    pub(super) async fn go_on(&self, how: GoOn) -> Result<(), StoreError> {
        self.leap().await?;
        if how == GoOn::WithoutClaims {
            self.epochs.let_write();
            return Ok(());
        }
        let here = self.here().await?;
        let known = self.past.accepted_at.load(Ordering::Acquire);
        let accept = query(&self.past.accept).bind(here.database).bind(here.relation).bind(here.timeline);
        for row in self.ask_past(accept.bind(known)).await? {
            let accepted_at = row.try_get(0).map_err(|it| told(DOING, it))?;
            self.past.accepted_at.fetch_max(accepted_at, Ordering::AcqRel);
        }
        self.epochs.forget();
        Ok(())
    }
}
