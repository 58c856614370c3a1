//! What a PostgreSQL server really promises, as it is set up.

use super::{
    PostgresStore,
    error::{STORE, told},
    lane,
};
use crate::doctor::{Finding, Report, Tier};
use semel_core::store::StoreError;
use sqlx::{PgPool, Row, postgres::PgRow};

const ASK: &str = "SELECT current_setting('fsync') AS fsync, \
    current_setting('full_page_writes') AS full_page_writes, \
    current_setting('synchronous_commit') AS synchronous_commit, \
    current_setting('synchronous_standby_names') AS standbys, \
    EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IS NULL OR sync_state IN ('sync', 'quorum')) \
        AS is_followed, \
    current_setting('default_transaction_isolation') AS isolation, \
    current_setting('server_encoding') AS encoding, \
    current_setting('transaction_read_only') = 'on' AS is_read_only, \
    pg_is_in_recovery() AS is_replica";

impl PostgresStore {
    /// What this server really promises, as it is set up for this connection.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        report(&self.shared.pool).await
    }
}

/// What the server behind this pool really promises.
pub async fn report(pool: &PgPool) -> Result<Report, StoreError> {
    let doing = "looking at the server's settings";
    let mut connection = lane::acquire(pool).await?;
    let row = lane::in_time(doing, sqlx::query(ASK).fetch_one(&mut *connection)).await;
    let row = lane::give_back(connection, row)?;
    Ok(Seen::read(&row).map_err(|error| told(doing, error))?.judged())
}

/// The settings that decide.
struct Seen {
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    standbys: String,
    /// Whether one of them may be connected: not everybody may see which are.
    is_followed: bool,
    isolation: String,
    encoding: String,
    is_read_only: bool,
    is_replica: bool,
}

impl Seen {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            fsync: row.try_get("fsync")?,
            full_page_writes: row.try_get("full_page_writes")?,
            synchronous_commit: row.try_get("synchronous_commit")?,
            standbys: row.try_get("standbys")?,
            is_followed: row.try_get("is_followed")?,
            isolation: row.try_get("isolation")?,
            encoding: row.try_get("encoding")?,
            is_read_only: row.try_get("is_read_only")?,
            is_replica: row.try_get("is_replica")?,
        })
    }

    fn judged(&self) -> Report {
        let report = Report::new(STORE, self.tier());
        let report = [self.writable(), self.fsync(), self.full_page_writes(), self.synchronous_commit()]
            .into_iter()
            .fold(report, Report::with);
        report.with(self.standbys()).with(self.encoding()).with(self.isolation())
    }

    fn tier(&self) -> Tier {
        let is_durable = self.fsync == "on" && self.synchronous_commit != "off";
        if is_durable && self.full_page_writes == "on" { Tier::A } else { Tier::C }
    }

    fn writable(&self) -> Finding {
        let found = match (self.is_replica, self.is_read_only) {
            (true, _) => "no, a replica",
            (false, true) => "no, `default_transaction_read_only` is on",
            (false, false) => return Finding::fine("writable", "yes"),
        };
        Finding::refused("writable").found(found).wanted("yes").remedy("connect to the primary, read-write")
    }

    fn fsync(&self) -> Finding {
        on_or(
            &self.fsync,
            Finding::refused("fsync"),
            "set `fsync = on`: without it a power cut destroys data",
        )
    }

    fn full_page_writes(&self) -> Finding {
        let remedy = "set `full_page_writes = on`, unless the file system writes pages whole";
        on_or(&self.full_page_writes, Finding::warning("full_page_writes"), remedy)
    }

    fn synchronous_commit(&self) -> Finding {
        match self.synchronous_commit.as_str() {
            "off" => Finding::refused("synchronous_commit")
                .found("off")
                .wanted("on")
                .remedy("set `synchronous_commit = on` for this user: else acknowledged records may be lost"),
            "local" if !self.standbys.is_empty() => Finding::warning("synchronous_commit")
                .found("local")
                .wanted("on")
                .remedy("set `synchronous_commit = on`, so that standbys are waited for"),
            other => Finding::fine("synchronous_commit", other.to_owned()),
        }
    }

    fn standbys(&self) -> Finding {
        if self.standbys.is_empty() {
            return Finding::warning("synchronous_standby_names")
                .found("empty")
                .wanted("at least one, if the server fails over")
                .remedy("name a synchronous standby: else a failover may forget what was acknowledged");
        }
        if !self.is_followed {
            return Finding::warning("synchronous_standby_names")
                .found(format!("{}, none of which is connected", self.standbys))
                .wanted("as many connected as are waited for")
                .remedy("start the standby: until then every write waits");
        }
        Finding::fine("synchronous_standby_names", self.standbys.clone())
    }

    fn encoding(&self) -> Finding {
        match self.encoding.as_str() {
            "UTF8" => Finding::fine("server_encoding", "UTF8"),
            other => Finding::warning("server_encoding")
                .found(other.to_owned())
                .wanted("UTF8")
                .remedy("use a database with the encoding UTF8: else some keys cannot be written"),
        }
    }

    fn isolation(&self) -> Finding {
        match self.isolation.as_str() {
            "read committed" => Finding::fine("default_transaction_isolation", "read committed"),
            other => Finding::warning("default_transaction_isolation")
                .found(other.to_owned())
                .wanted("read committed")
                .remedy("leave it as it is by default: others make duplicates fail and be tried again"),
        }
    }
}

fn on_or(value: &str, finding: Finding, remedy: &'static str) -> Finding {
    if value == "on" {
        return Finding::fine(finding.what, "on");
    }
    finding.found(value.to_owned()).wanted("on").remedy(remedy)
}
