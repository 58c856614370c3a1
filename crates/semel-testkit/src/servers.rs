//! Real servers, and a place of its own on them for every test.
//!
//! 1. Where a server is stands in an environment variable. `cargo xtask test` starts the servers and sets them;
//!    `cargo xtask servers` starts them for one's own runs and prints them.
//! 2. A server that is not there fails the test, with the words that tell how to get it. Nothing is skipped.
//! 3. What a test is given nobody else has: a database, a prefix, a bucket or a table with a fresh name. Tests
//!    may run side by side, and again on the same server.
//!
//! It does not connect: that is what the stores under test are for. Only a database of PostgreSQL has to be made
//! beforehand, by `psql`.

use std::{
    env,
    hash::{BuildHasher, RandomState},
    process::{Command, Stdio},
};

/// A database of PostgreSQL, removed when this is dropped.
#[derive(Debug)]
pub struct Database {
    /// With user, password and the database's name.
    pub url: String,
    server: String,
    name: String,
}

/// A fresh, empty database on the server that `SEMEL_TEST_POSTGRES` names.
///
/// # Panics
///
/// If there is no server, or `psql` cannot make a database on it.
// Async although it does not wait, so that it may once be made by a client of our own.
#[expect(clippy::unused_async, reason = "see above")]
pub async fn postgres() -> Database {
    let server = variable("SEMEL_TEST_POSTGRES");
    let name = fresh_name();
    psql(&server, &format!("CREATE DATABASE {name}")).unwrap_or_else(|error| panic!("{error}"));
    let url = with_database(&server, &name);
    Database { url, server, name }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The server is thrown away after the tests: what cannot be removed now goes then.
        let _removed = psql(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// A place on a server that speaks the protocol of Redis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redis {
    /// Of the server.
    pub url: String,
    /// For the names of everything that the test stores.
    pub prefix: String,
}

/// A fresh prefix on the server that `SEMEL_TEST_REDIS` names.
pub fn redis() -> Redis {
    Redis { url: variable("SEMEL_TEST_REDIS"), prefix: fresh_name() }
}

/// A fresh prefix on the server that `SEMEL_TEST_VALKEY` names.
pub fn valkey() -> Redis {
    Redis { url: variable("SEMEL_TEST_VALKEY"), prefix: fresh_name() }
}

/// A bucket's name on a NATS server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nats {
    /// Of the server.
    pub url: String,
    /// Of a bucket that is not there yet.
    pub bucket: String,
}

/// A fresh bucket name on the server that `SEMEL_TEST_NATS` names.
pub fn nats() -> Nats {
    Nats { url: variable("SEMEL_TEST_NATS"), bucket: fresh_name() }
}

/// A table's name on a server that speaks the protocol of DynamoDB. It takes any credentials and region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DynamoDb {
    /// Of the server.
    pub endpoint: String,
    /// Of a table that is not there yet.
    pub table: String,
}

/// A fresh table name on the server that `SEMEL_TEST_DYNAMODB` names.
pub fn dynamodb() -> DynamoDb {
    DynamoDb { endpoint: variable("SEMEL_TEST_DYNAMODB"), table: fresh_name() }
}

/// A collection's name on Google's Firestore emulator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Firestore {
    /// `host:port` of the emulator.
    pub host: String,
    /// Of a project that nobody else uses.
    pub project: String,
}

/// A fresh project on the emulator that `SEMEL_TEST_FIRESTORE` names.
///
/// The emulator cannot be had everywhere. Where it is missing `cargo xtask test` leaves its tests out, and says so.
pub fn firestore() -> Firestore {
    // Projects are named without underscores.
    Firestore { host: variable("SEMEL_TEST_FIRESTORE"), project: fresh_name().replace('_', "-") }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{}", missing(name)))
}

fn missing(name: &str) -> String {
    format!(
        "this test needs a server, and `{name}` does not say where it is\n\
         hint: `cargo xtask test` starts every server by itself; for runs of your own, start them with \
         `cargo xtask servers` and set the variables that it prints"
    )
}

/// Lowercase letters, digits and an underscore: a valid name everywhere.
fn fresh_name() -> String {
    // Randomly keyed in every process and at every call.
    format!("semel_{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// The same server, another database.
fn with_database(url: &str, name: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or(rest);
    let mark = if options.is_empty() { "" } else { "?" };
    format!("{scheme}://{authority}/{name}{mark}{options}")
}

fn psql(url: &str, statement: &str) -> Result<(), String> {
    let mut command = Command::new("psql");
    command.args(["--no-psqlrc", "--quiet", "--dbname", url, "--command", statement]).stdin(Stdio::null());
    let output = command.output().map_err(|error| {
        format!("cannot start `psql`: {error}\nhint: `cargo xtask servers` installs what is missing")
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`psql` could not `{statement}`: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_is_told_with_its_remedy() {
        let told = missing("SEMEL_TEST_NATS");
        for words in ["`SEMEL_TEST_NATS`", "`cargo xtask test`", "`cargo xtask servers`"] {
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn names_are_never_given_twice() {
        let names: std::collections::BTreeSet<String> = (0..1000).map(|_| fresh_name()).collect();
        assert_eq!(names.len(), 1000);
    }

    #[test]
    fn only_the_database_of_a_url_changes() {
        for (url, expected) in [
            ("postgres://u:p@h:1/postgres", "postgres://u:p@h:1/mine"),
            ("postgres://u:p@h:1", "postgres://u:p@h:1/mine"),
            ("postgres://h/a?sslmode=disable", "postgres://h/mine?sslmode=disable"),
        ] {
            assert_eq!(with_database(url, "mine"), expected);
        }
    }
}
