//! What a SQLite database really promises, as it is set up.

use super::{
    SqliteStore,
    error::{STORE, told},
    writer,
};
use crate::doctor::{Finding, Report, Tier};
use semel_core::store::StoreError;
use sqlx::{Row, SqliteConnection};

impl SqliteStore {
    /// What this file really promises, as it is set up for this connection.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        let mut connection = writer::acquire(&self.shared.pool).await?;
        Ok(Settings::read(&mut connection).await?.judged())
    }
}

/// The settings that decide.
pub(super) struct Settings {
    journal_mode: String,
    synchronous: i64,
}

impl Settings {
    pub(super) async fn read(connection: &mut SqliteConnection) -> Result<Self, StoreError> {
        let doing = "looking at the database's settings";
        let row = sqlx::query("PRAGMA journal_mode").fetch_one(&mut *connection).await;
        let journal_mode = row.and_then(|row| row.try_get(0)).map_err(|error| told(doing, error))?;
        let row = sqlx::query("PRAGMA synchronous").fetch_one(connection).await;
        let synchronous = row.and_then(|row| row.try_get(0)).map_err(|error| told(doing, error))?;
        Ok(Self { journal_mode, synchronous })
    }

    pub(super) fn judged(&self) -> Report {
        let tier = if self.is_journalled() && self.is_synced() { Tier::A } else { Tier::C };
        Report::new(STORE, tier).with(self.journal()).with(self.sync())
    }

    fn is_journalled(&self) -> bool {
        matches!(self.journal_mode.as_str(), "wal" | "delete" | "truncate" | "persist")
    }

    /// FULL or EXTRA. Where a commit is the removal of a file, only EXTRA makes that durable.
    fn is_synced(&self) -> bool {
        self.synchronous >= if self.journal_mode == "delete" { 3 } else { 2 }
    }

    fn journal(&self) -> Finding {
        match self.journal_mode.as_str() {
            "wal" => Finding::fine("journal_mode", "wal"),
            other if self.is_journalled() => Finding::warning("journal_mode")
                .found(other.to_owned())
                .wanted("wal")
                .remedy("set `journal_mode = WAL`: readers then do not wait for writers"),
            other => Finding::refused("journal_mode")
                .found(other.to_owned())
                .wanted("wal")
                .remedy("use a file with `journal_mode = WAL`, or `MemoryStore` if nothing need be kept"),
        }
    }

    fn sync(&self) -> Finding {
        let found = match self.synchronous {
            0 => "off",
            1 => "normal",
            2 if !self.is_synced() => {
                return Finding::warning("synchronous").found("full").wanted("extra").remedy(
                    "set `journal_mode = WAL`, or `synchronous = EXTRA`: with `journal_mode = delete` a power cut may \
                     undo the last commit",
                );
            }
            2 => return Finding::fine("synchronous", "full"),
            _ => return Finding::fine("synchronous", "extra"),
        };
        Finding::refused("synchronous").found(found).wanted("full").remedy(
            "set `synchronous = FULL` for the pool: else a power cut may forget what was acknowledged",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    #[test]
    fn a_commit_that_removes_a_file_is_durable_only_with_extra() {
        for (journal_mode, synchronous, tier, severity) in [
            ("wal", 2, Tier::A, Severity::Fine),
            ("truncate", 2, Tier::A, Severity::Fine),
            ("delete", 3, Tier::A, Severity::Fine),
            ("delete", 2, Tier::C, Severity::Warning),
            ("delete", 1, Tier::C, Severity::Refused),
            ("memory", 3, Tier::C, Severity::Fine),
        ] {
            let settings = Settings { journal_mode: journal_mode.to_owned(), synchronous };
            let report = settings.judged();
            assert_eq!((report.tier, settings.sync().severity), (tier, severity), "{report}");
        }
    }
}
