//! What the database really promises.
//!
//! 1. A record must be readable: a database that is not there, or is not in native mode, is an error.
//! 2. Without the TTL policy nothing is ever removed.
//! 3. An emulator promises nothing.
//! 4. What the credentials do not allow to see is a warning.

use super::{
    FirestoreStore, STORE,
    error::{Failure, doing},
};
use crate::doctor::{Finding, Report, Tier};
use semel_core::{
    key::Key,
    store::{Store, StoreError},
};
use serde_json::Value;

impl FirestoreStore {
    /// Reads one document that is not there, and looks at the database and at the TTL policy. Needs
    /// `datastore.databases.getMetadata` and `datastore.indexes.get` to see them.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        let probe = Key::new("doctor", "probe").expect("a plain scope and id make a key");
        self.load(&probe).await?;
        let report = Report::new(STORE, Tier::A).with(Finding::fine("reading", "allowed"));
        if self.http.is_plain() {
            return Ok(report.with(emulated()).at_most(Tier::C));
        }
        let report = self.examine_database(report).await?;
        self.examine_ttl(report).await
    }

    async fn examine_database(&self, report: Report) -> Result<Report, StoreError> {
        match self.http.get(&format!("/v1/{}", self.place.database())).await {
            Ok(database) => Ok(described(report, &database)),
            Err(failure) if is_hidden(&failure) => {
                Ok(report.with(hidden("database", "datastore.databases.getMetadata")))
            }
            Err(failure) => Err(doing("look at the database", &self.place).failed(failure)),
        }
    }

    async fn examine_ttl(&self, report: Report) -> Result<Report, StoreError> {
        let (database, group) = (self.place.database(), self.place.collection_group());
        let field =
            self.http.get(&format!("/v1/{database}/collectionGroups/{group}/fields/expires_at")).await;
        match field {
            Ok(field) => Ok(report.with(ttl(&field))),
            Err(failure) if is_hidden(&failure) => {
                Ok(report.with(hidden("TTL policy", "datastore.indexes.get")))
            }
            Err(failure) => Err(doing("look at the TTL policy", &self.place).failed(failure)),
        }
    }
}

fn is_hidden(failure: &Failure) -> bool {
    failure.status() == "PERMISSION_DENIED"
}

fn described(report: Report, database: &Value) -> Report {
    let text = |name: &str| database[name].as_str().unwrap_or("unknown").to_owned();
    let mode = match text("type") {
        it if it == "FIRESTORE_NATIVE" => Finding::fine("mode", it),
        it => Finding::refused("mode")
            .found(it)
            .wanted("FIRESTORE_NATIVE")
            .remedy("use a database in native mode"),
    };
    let recovery = match text("pointInTimeRecoveryEnablement") {
        it if it == "POINT_IN_TIME_RECOVERY_ENABLED" => Finding::fine("point-in-time recovery", "on"),
        _ => Finding::warning("point-in-time recovery")
            .found("off")
            .wanted("on")
            .remedy("switch it on, to survive documents that were deleted or overwritten"),
    };
    report.with(mode).with(Finding::fine("location", text("locationId"))).with(recovery)
}

fn ttl(field: &Value) -> Finding {
    const WHAT: &str = "TTL policy";
    let finding = Finding::warning(WHAT).wanted("ACTIVE");
    match field["ttlConfig"]["state"].as_str() {
        Some("ACTIVE") => Finding::fine(WHAT, "ACTIVE"),
        Some(other) => finding.found(other.to_owned()).remedy("wait until it is, or set it again"),
        None => finding
            .found("not set")
            .remedy("run what `FirestoreStore::setup_gcloud` prints, or expired records stay for ever"),
    }
}

fn emulated() -> Finding {
    Finding::warning("server")
        .found("an emulator")
        .wanted("Firestore")
        .remedy("use it for tests: it keeps its documents in memory")
}

fn hidden(what: &'static str, permission: &str) -> Finding {
    Finding::warning(what)
        .found("not to be seen with these credentials")
        .remedy(format!("grant `{permission}` to have it checked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;
    use serde_json::json;

    #[test]
    fn datastore_mode_is_refused_and_a_database_without_recovery_is_said() {
        let report = |database| described(Report::new(STORE, Tier::A), &database);
        let native = report(json!({ "type": "FIRESTORE_NATIVE", "locationId": "eur3" }));
        assert!(!native.is_refused());
        assert_eq!(native.findings[2].severity, Severity::Warning);
        assert!(report(json!({ "type": "DATASTORE_MODE" })).is_refused());
    }

    #[test]
    fn only_an_active_policy_removes_what_expired() {
        let severity = |field| ttl(&field).severity;
        assert_eq!(severity(json!({ "ttlConfig": { "state": "ACTIVE" } })), Severity::Fine);
        assert_eq!(severity(json!({ "ttlConfig": { "state": "CREATING" } })), Severity::Warning);
        assert_eq!(severity(json!({ "indexConfig": {} })), Severity::Warning);
    }
}
