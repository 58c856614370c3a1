//! Where records are kept, as a URL.
//!
//! | URL | store |
//! |---|---|
//! | `./semel-data`, `file:./semel-data` | the embedded one, in a directory: durable, for one process at a time |
//! | `memory:` | the memory of this process: forgotten when it ends |
//! | `postgres://user:password@host/database?table=…&schema=…` | PostgreSQL |
//! | `sqlite://path?table=…` | SQLite |
//! | `redis://…`, `rediss://…`, `?prefix=…` | Redis or Valkey |
//! | `nats://host:4222?bucket=…&replicas=…&syncs_always=true` | a key-value bucket of NATS JetStream; the last is what somebody vouches for, because its clients cannot see it |
//! | `dynamodb://table?region=…&endpoint=…` | DynamoDB, if it is built in |
//! | `firestore://project/database?collection=…` | Firestore |
//!
//! 1. What a URL means is known before anything is reached.
//! 2. Parameters of ours are taken out of the URL before a driver sees it; one that nobody knows is refused, except for
//!    PostgreSQL and SQLite, whose drivers have their own.
//! 3. A URL is shown and logged without its password.

#[cfg(feature = "firestore")]
mod google;
mod open;
mod seal;

pub(crate) use open::open;

use crate::config::{Wanted, nearest, quoted, redacted};
use std::{fmt, path::PathBuf};

/// Where the embedded store is, unless said otherwise.
const DIRECTORY: &str = "./semel-data";
const WANTED: &str = "a directory such as `./semel-data`, or a URL that begins with `memory:`, `postgres://`, `sqlite://`, \
                      `redis://`, `rediss://`, `nats://`, `dynamodb://` or `firestore://`";

/// Where records are kept.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// As it may be shown.
    shown: String,
    pub(crate) place: Place,
}

/// What a URL means.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    Embedded(PathBuf),
    Postgres {
        url: String,
        table: Option<String>,
        schema: Option<String>,
        connections_max: Option<u32>,
        creates: bool,
    },
    Sqlite {
        url: String,
        table: Option<String>,
    },
    Redis {
        url: String,
        prefix: Option<String>,
    },
    Nats {
        url: String,
        bucket: String,
        replicas: usize,
        syncs_always: bool,
    },
    DynamoDb {
        table: String,
        region: Option<String>,
        endpoint: Option<String>,
    },
    Firestore {
        project: String,
        database: Option<String>,
        collection: Option<String>,
    },
}

impl Default for StoreUrl {
    fn default() -> Self {
        Self { shown: DIRECTORY.to_owned(), place: Place::Embedded(PathBuf::from(DIRECTORY)) }
    }
}

impl StoreUrl {
    /// What was typed.
    pub(crate) fn parse(text: &str) -> Result<Self, Wanted> {
        Ok(Self { shown: redacted(text), place: place(text)? })
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({})", self.shown)
    }
}

fn place(text: &str) -> Result<Place, Wanted> {
    if text == "memory:" {
        return Ok(Place::Memory);
    }
    let scheme_end = text.find(':').filter(|it| text[..*it].bytes().all(|it| it.is_ascii_alphanumeric()));
    let Some(end) = scheme_end.filter(|it| *it > 1) else { return directory(text) };
    let mut query = Query::new(text);
    let place = match &text[..end] {
        "file" => return directory(text["file:".len()..].trim_start_matches("//")),
        "postgres" | "postgresql" => Place::Postgres {
            table: query.take("table"),
            schema: query.take("schema"),
            connections_max: query.number("connections_max", 1, 1_000)?,
            creates: query.flag("create")?.unwrap_or(true),
            url: query.rest(),
        },
        "sqlite" => Place::Sqlite { table: query.take("table"), url: query.rest() },
        "redis" | "rediss" => {
            let prefix = query.take("prefix");
            query.finish(&["prefix"])?;
            Place::Redis { prefix, url: query.rest() }
        }
        "nats" | "tls" => {
            let bucket = query.take("bucket").unwrap_or_else(|| "semel".to_owned());
            let replicas = query.number("replicas", 1, 5)?.unwrap_or(1) as usize;
            let syncs_always = query.flag("syncs_always")?.unwrap_or(false);
            query.finish(&["bucket", "replicas", "syncs_always"])?;
            Place::Nats { bucket, replicas, syncs_always, url: query.rest() }
        }
        "dynamodb" => {
            let (region, endpoint) = (query.take("region"), query.take("endpoint"));
            query.finish(&["region", "endpoint"])?;
            let table = query.path(end).filter(|it| !it.contains('/'));
            Place::DynamoDb { table: table.ok_or("a table: `dynamodb://table`")?, region, endpoint }
        }
        "firestore" => {
            let collection = query.take("collection");
            query.finish(&["collection"])?;
            let path = query
                .path(end)
                .ok_or("a project: `firestore://project` or `firestore://project/database`")?;
            let (project, database) =
                path.split_once('/').map_or((&*path, None), |(it, rest)| (it, Some(rest)));
            let database = database.filter(|it| !it.is_empty()).map(str::to_owned);
            Place::Firestore { project: project.to_owned(), database, collection }
        }
        _ => return Err(WANTED.to_owned()),
    };
    Ok(place)
}

fn directory(text: &str) -> Result<Place, Wanted> {
    if text.is_empty() || text.contains("://") {
        return Err(WANTED.to_owned());
    }
    Ok(Place::Embedded(PathBuf::from(text)))
}

/// The parameters of a URL, of which some are ours.
struct Query<'a> {
    before: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Query<'a> {
    fn new(text: &'a str) -> Self {
        let (before, query) = text.split_once('?').unwrap_or((text, ""));
        let parameters = query.split('&').filter(|it| !it.is_empty());
        Self { before, parameters: parameters.map(|it| it.split_once('=').unwrap_or((it, ""))).collect() }
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.parameters.iter().position(|(it, _)| *it == name)?;
        Some(self.parameters.remove(at).1.to_owned())
    }

    fn number(&mut self, name: &str, least: u32, most: u32) -> Result<Option<u32>, Wanted> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|it| (least..=most).contains(it));
        number.map(Some).ok_or_else(|| format!("a URL whose `{name}` is a number from {least} to {most}"))
    }

    fn flag(&mut self, name: &str) -> Result<Option<bool>, Wanted> {
        let Some(text) = self.take(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("a URL whose `{name}` is `true` or `false`"))
    }

    /// Refuses what is left.
    fn finish(&self, known: &[&str]) -> Result<(), Wanted> {
        let Some((name, _)) = self.parameters.first() else { return Ok(()) };
        Err(match nearest(name, known) {
            Some(near) => format!("`{near}` instead of `{name}`"),
            None => format!("no parameters but {}", quoted(known)),
        })
    }

    /// The URL without what was taken.
    fn rest(self) -> String {
        let parameters: Vec<_> =
            self.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if parameters.is_empty() {
            self.before.to_owned()
        } else {
            format!("{}?{}", self.before, parameters.join("&"))
        }
    }

    /// What follows the scheme, if there is anything.
    fn path(&self, scheme_end: usize) -> Option<String> {
        let path = self.before[scheme_end..].strip_prefix("://")?.trim_end_matches('/');
        (!path.is_empty()).then(|| path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(text: &str, expected: &Place) {
        let url = StoreUrl::parse(text).unwrap_or_else(|wanted| panic!("{text}: wanted {wanted}"));
        assert!(url.place == *expected, "{text}");
    }

    #[test]
    fn a_url_means_a_place() {
        is("memory:", &Place::Memory);
        is("./data", &Place::Embedded("./data".into()));
        is("/var/lib/semel", &Place::Embedded("/var/lib/semel".into()));
        is("file:data", &Place::Embedded("data".into()));
        is("file:///var/lib/semel", &Place::Embedded("/var/lib/semel".into()));
        let (table, schema) = (Some("t".to_owned()), Some("s".to_owned()));
        let url = "postgres://u:p@h/db?sslmode=require".to_owned();
        is(
            "postgres://u:p@h/db?table=t&sslmode=require&schema=s&create=false&connections_max=8",
            &Place::Postgres { url, table, schema, connections_max: Some(8), creates: false },
        );
        is(
            "sqlite://a.db?table=t",
            &Place::Sqlite { url: "sqlite://a.db".to_owned(), table: Some("t".to_owned()) },
        );
        let prefix = Some("billing".to_owned());
        is("rediss://h/0?prefix=billing", &Place::Redis { url: "rediss://h/0".to_owned(), prefix });
        let (url, bucket) = ("nats://t@h".to_owned(), "b".to_owned());
        is(
            "nats://t@h?bucket=b&replicas=3&syncs_always=true",
            &Place::Nats { url, bucket, replicas: 3, syncs_always: true },
        );
        let (url, bucket) = ("nats://h".to_owned(), "semel".to_owned());
        is("nats://h", &Place::Nats { url, bucket, replicas: 1, syncs_always: false });
        let region = Some("eu-central-1".to_owned());
        is(
            "dynamodb://t?region=eu-central-1",
            &Place::DynamoDb { table: "t".to_owned(), region, endpoint: None },
        );
        let (database, collection) = (Some("(default)".to_owned()), Some("c".to_owned()));
        is(
            "firestore://p/(default)?collection=c",
            &Place::Firestore { project: "p".to_owned(), database, collection },
        );
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in [
            "",
            "mysql://h/db",
            "http://h",
            "memory:x",
            "dynamodb://",
            "dynamodb://a/b",
            "firestore://",
            "redis://h?prefx=a",
            "nats://h?replicas=0",
            "nats://h?replicas=x",
            "nats://h?syncs_always=yes",
            "postgres://h/d?create=maybe",
            "file:",
            "dynamodb:t",
        ] {
            assert!(StoreUrl::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let url = StoreUrl::parse("postgres://app:s3cret@db/shop").unwrap();
        assert!(!format!("{url} {url:?}").contains("s3cret"));
    }
}
