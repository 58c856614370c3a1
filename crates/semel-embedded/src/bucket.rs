//! A SQLite file of finished records that expire together.
//!
//! 1. It is built once, in the order of its keys, under a temporary name; it is synced, then named; nobody
//!    writes to it again. Removing it is how its records expire.
//! 2. Its name tells the end of its bucket (when its last record has expired), a serial number, and the
//!    checksum of the whole file.
//! 3. A row that is found proves itself by its own checksum. A key that the bloom filter denies is not there.
//!    Only "maybe, but no row" relies on SQLite's pages, so the file's checksum is verified before such an
//!    answer is given for the first time.
//! 4. The rows are ordered by the first 64 bits of the identity. Whoever shares these with another stands in
//!    the table `collided`.
//!
//! People may read it with `sqlite3`: `SELECT key, status, datetime(expires_at/1000, 'unixepoch') FROM record`.

use crate::{
    bloom::{Bloom, Probe},
    disk::{Disk, DiskFile, SLICE_BYTES, Temporary},
    error::{corrupt, disk as disk_error, misconfigured, sqlite as sqlite_error},
    lock,
    owner::Layout,
    pace::Pace,
    segment::RESTORE,
};
use rusqlite::{
    Connection, OpenFlags, OptionalExtension, Row as SqlRow, params, params_from_iter,
    types::{ToSqlOutput, Value, ValueRef},
};
use semel_core::{fence::Fence, key::Identity, sabotage, store::StoreError, time::Timestamp};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

const FORMAT: u32 = 1;
const PREFIX: &str = "finished-";
const SUFFIX: &str = ".sqlite";
const BUILDING: &str = "build a file of records";
/// After so many of SQLite's own steps the housekeeper looks whether it is time to rest.
const BREATH_STEPS: i32 = 1_000;
// An index is made of rows that were written before: mapped, they are not copied once more for each.
const PRAGMAS: &str = "
    PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
    PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -4096; PRAGMA mmap_size = 4294967296;
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;";
const FIND: &str = "SELECT identity, fence, expires_at, record FROM record WHERE prefix = ?1";
const FIND_COLLIDED: &str = "SELECT identity, fence, expires_at, record FROM collided WHERE identity = ?1";
const RANGE: &str = "SELECT identity, fence, expires_at, record FROM record WHERE prefix BETWEEN ?1 AND ?2";
const RANGE_COLLIDED: &str = "SELECT identity, fence, expires_at, record FROM collided";

/// The tables for the values of an owner. What is large stands last, so that nobody reads past it.
fn schema(layout: &Layout) -> String {
    let rest = format!(
        "fence INTEGER NOT NULL, expires_at INTEGER NOT NULL, {}, record BLOB NOT NULL",
        layout.columns
    );
    format!(
        "{PRAGMAS}
        CREATE TABLE record (prefix INTEGER PRIMARY KEY, identity BLOB NOT NULL, {rest}) STRICT;
        CREATE TABLE collided (identity BLOB PRIMARY KEY, {rest}) STRICT, WITHOUT ROWID;
        {}
        BEGIN",
        layout.rare_indexes
    )
}

/// Inserts a row of so many columns.
fn insert(table: &str, columns: usize) -> String {
    format!("INSERT INTO {table} VALUES (?{})", ", ?".repeat(columns - 1))
}

/// How many values there are, by a text and a number that their owner counts them by.
pub(crate) type Tally = BTreeMap<(String, i64), u64>;

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) identity: Identity,
    pub(crate) fence: Fence,
    pub(crate) expires_at: Timestamp,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct Bucket {
    pub(crate) name: String,
    /// When its last record has expired.
    pub(crate) end: Timestamp,
    pub(crate) rows: usize,
    /// The last segment whose values it holds: it counts only once the journal notes that this was moved.
    pub(crate) covers: u32,
    /// The buckets that were merged into it: should they be there after a crash, they are not.
    pub(crate) replaces: Vec<u32>,
    /// How long the file is.
    pub(crate) bytes: u64,
    serial: u32,
    bloom: Bloom,
    has_collided: bool,
    file: Arc<dyn DiskFile>,
    path: std::path::PathBuf,
    checksum: u32,
    /// Set once the whole file was compared with its checksum.
    is_verified: AtomicBool,
    /// Idle connections: one for each thread that ever read here at the same time as another.
    idle: Mutex<Vec<Connection>>,
}

pub(crate) struct Name {
    pub(crate) end: Timestamp,
    pub(crate) serial: u32,
    checksum: u32,
}

pub(crate) fn parse_name(name: &str) -> Option<Name> {
    let mut parts = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split('-');
    let end = Timestamp::from_millis(parts.next()?.parse().ok()?);
    let (serial, checksum) = (parts.next()?.parse().ok()?, u32::from_str_radix(parts.next()?, 16).ok()?);
    parts.next().is_none().then_some(Name { end, serial, checksum })
}

/// The identity's first 64 bits, as a signed number of the same order.
fn prefix(identity: &Identity) -> i64 {
    let bytes = identity.as_bytes().first_chunk::<8>().expect("an identity has 32 bytes");
    (u64::from_be_bytes(*bytes) ^ (1 << 63)).cast_signed()
}

impl Bucket {
    pub(crate) fn open(disk: &dyn Disk, name: &str) -> Result<Self, StoreError> {
        let damaged = || corrupt(format!("`{name}` is damaged: {RESTORE}"));
        let Name { end, serial, checksum } = parse_name(name).ok_or_else(damaged)?;
        let file = disk.open(name).map_err(disk_error(format_args!("open `{name}`")))?;
        let path = disk.path(name);
        let connection = connect(&path)?;
        let read = |name: &str| {
            let row = |row: &SqlRow<'_>| row.get::<_, Vec<u8>>(0);
            let sql = "SELECT CAST(value AS BLOB) FROM meta WHERE name = ?1";
            connection.query_row(sql, [name], row).optional().map_err(sqlite_error("open a file of records"))
        };
        let text = |name: &str| -> Result<String, StoreError> {
            read(name)?.and_then(|it| String::from_utf8(it).ok()).ok_or_else(damaged)
        };
        let number = |name: &str| -> Result<u64, StoreError> { text(name)?.parse().map_err(|_| damaged()) };
        let format = number("format")?;
        if format > FORMAT.into() {
            return Err(misconfigured(format!(
                "`{name}` was written by a newer Semel (format {format}, this one knows {FORMAT}): upgrade Semel"
            )));
        }
        let bytes = read("bloom")?.ok_or_else(damaged)?;
        if u64::from(crc32fast::hash(&bytes)) != number("bloom_checksum")? {
            return Err(damaged());
        }
        Ok(Self {
            name: name.to_owned(),
            end,
            rows: number("rows")? as usize,
            covers: number("covers")? as u32,
            replaces: text("replaces")?.split_whitespace().filter_map(|it| it.parse().ok()).collect(),
            bytes: file.length().map_err(disk_error(format_args!("open `{name}`")))?,
            serial,
            bloom: Bloom::from_bytes(&bytes).ok_or_else(damaged)?,
            has_collided: number("collided")? > 0,
            file,
            path,
            checksum,
            is_verified: AtomicBool::new(false),
            idle: Mutex::new(vec![connection]),
        })
    }

    pub(crate) const fn serial(&self) -> u32 {
        self.serial
    }

    /// What it holds of a key, of which this is asked of every filter.
    pub(crate) fn find(&self, identity: &Identity, probe: &Probe) -> Result<Option<Found>, StoreError> {
        if self.bloom.may_hold(probe) { self.search(identity) } else { Ok(None) }
    }

    #[cold]
    fn search(&self, identity: &Identity) -> Result<Option<Found>, StoreError> {
        let connection = self.connection()?;
        let found =
            self.select(&connection, identity).map_err(sqlite_error(format_args!("read `{}`", self.name)));
        lock(&self.idle).push(connection);
        let found = found?;
        if found.is_none() {
            self.verify()?;
        }
        Ok(found)
    }

    fn select(&self, connection: &Connection, identity: &Identity) -> rusqlite::Result<Option<Found>> {
        let mut statement = connection.prepare_cached(FIND)?;
        let found = statement.query_row([prefix(identity)], row).optional()?;
        if !self.has_collided || found.as_ref().is_none_or(|it| it.identity == *identity) {
            return Ok(found.filter(|it| it.identity == *identity));
        }
        connection.prepare_cached(FIND_COLLIDED)?.query_row([&identity.as_bytes()[..]], row).optional()
    }

    /// Adds to these the rows of one of `parts` equal parts of all identities.
    pub(crate) fn collect(&self, part: u64, parts: u64, rows: &mut Vec<Found>) -> Result<(), StoreError> {
        self.verify()?;
        let connection = connect(&self.path)?;
        let width = u64::MAX / parts + 1;
        let bound = |part: u64| (part.wrapping_mul(width) ^ (1 << 63)).cast_signed();
        let range = (bound(part), bound(part + 1).wrapping_sub(1));
        let mut read = || -> rusqlite::Result<()> {
            for it in connection.prepare(RANGE)?.query_map([range.0, range.1], row)? {
                rows.push(it?);
            }
            for it in connection.prepare(RANGE_COLLIDED)?.query_map([], row)? {
                rows.extend(Some(it?).filter(|it| (range.0..=range.1).contains(&prefix(&it.identity))));
            }
            Ok(())
        };
        read().map_err(sqlite_error(format_args!("read `{}`", self.name)))
    }

    /// At most so many rows that pass these conditions, the latest accepted first; and behind them all rows of
    /// those that share the front of an identity with another.
    pub(crate) fn listed(
        &self,
        conditions: &str,
        by: &str,
        values: &[Value],
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        let columns = "SELECT identity, accepted_at, code, type FROM";
        let sql =
            format!("{columns} record WHERE {conditions} ORDER BY {by} DESC, prefix DESC LIMIT {limit}");
        let connection = self.connection()?;
        let read = || -> rusqlite::Result<Vec<Listed>> {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows: Vec<_> =
                statement.query_map(params_from_iter(values), listed)?.collect::<Result<_, _>>()?;
            if self.has_collided {
                let mut statement = connection.prepare_cached(&format!("{columns} collided"))?;
                rows.extend(statement.query_map([], listed)?.collect::<Result<Vec<_>, _>>()?);
            }
            Ok(rows)
        };
        let rows = read().map_err(sqlite_error(format_args!("read `{}`", self.name)));
        lock(&self.idle).push(connection);
        rows
    }

    fn connection(&self) -> Result<Connection, StoreError> {
        let idle = lock(&self.idle).pop();
        idle.map_or_else(|| connect(&self.path), Ok)
    }

    /// Shows every value with the text and the number that its owner counts it by, until it is told to stop.
    pub(crate) fn each(
        &self,
        counted_by: &str,
        mut see: impl FnMut(Row) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let failed = || sqlite_error(format!("read `{}`", self.name));
        let connection = connect(&self.path)?;
        for table in ["record", "collided"] {
            let sql = format!("SELECT identity, fence, {counted_by} FROM {table}");
            let mut statement = connection.prepare(&sql).map_err(failed())?;
            let mut rows = statement.query([]).map_err(failed())?;
            while let Some(row) = rows.next().map_err(failed())? {
                let Some(row) = Row::read(row).map_err(failed())? else { continue };
                if see(row).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Compares the file with its checksum, the first time.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        if self.is_verified.load(Ordering::Acquire) {
            return Ok(());
        }
        let sum = checksum(&*self.file).map_err(disk_error(format_args!("read `{}`", self.name)))?;
        if sum != self.checksum && !sabotage::is_on("embedded_files_unverified") {
            return Err(corrupt(format!("`{}` does not match its checksum: {RESTORE}", self.name)));
        }
        self.is_verified.store(true, Ordering::Release);
        Ok(())
    }
}

/// What of a row is counted.
pub(crate) struct Row {
    pub(crate) identity: Identity,
    pub(crate) fence: Fence,
    pub(crate) text: String,
    pub(crate) number: i64,
}

impl Row {
    /// `None` if it has no fence: nobody wrote such a row.
    fn read(row: &SqlRow<'_>) -> rusqlite::Result<Option<Self>> {
        let fence = Fence::new(row.get::<_, i64>(1)?.cast_unsigned());
        let (identity, text, number) = (Identity::from_bytes(row.get(0)?), row.get(2)?, row.get(3)?);
        Ok(fence.map(|fence| Self { identity, fence, text, number }))
    }
}

/// What of a row a list is made of.
pub(crate) struct Listed {
    pub(crate) identity: Identity,
    pub(crate) accepted_at: Timestamp,
    pub(crate) code: i64,
    pub(crate) kind: Value,
}

fn listed(row: &SqlRow<'_>) -> rusqlite::Result<Listed> {
    let accepted_at: i64 = row.get(1)?;
    Ok(Listed {
        identity: Identity::from_bytes(row.get(0)?),
        accepted_at: Timestamp::from_millis(accepted_at.cast_unsigned()),
        code: row.get(2)?,
        kind: row.get(3)?,
    })
}

fn row(row: &SqlRow<'_>) -> rusqlite::Result<Found> {
    let fence: i64 = row.get(1)?;
    let expires_at: i64 = row.get(2)?;
    Ok(Found {
        identity: Identity::from_bytes(row.get(0)?),
        fence: Fence::new(fence.cast_unsigned()).ok_or(rusqlite::Error::InvalidQuery)?,
        expires_at: Timestamp::from_millis(expires_at.cast_unsigned()),
        payload: row.get(3)?,
    })
}

/// Opens a finished file: nobody changes it, so SQLite need neither lock nor look again.
fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let failed = || sqlite_error(format!("open `{}`", path.display()));
    let connection = Connection::open_with_flags(uri(path), flags).map_err(failed())?;
    connection.execute_batch("PRAGMA mmap_size = 4294967296; PRAGMA cache_size = -64").map_err(failed())?;
    Ok(connection)
}

/// The path as an SQLite URI, with what has a meaning there escaped.
fn uri(path: &Path) -> String {
    let path = path.to_string_lossy();
    let escaped = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{escaped}?immutable=1")
}

fn checksum(file: &dyn DiskFile) -> std::io::Result<u32> {
    let length = file.length()?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    let mut offset = 0;
    while offset < length {
        let chunk = buffer.len().min((length - offset) as usize);
        file.read_at(&mut buffer[..chunk], offset)?;
        hasher.update(&buffer[..chunk]);
        offset += chunk as u64;
    }
    Ok(hasher.finalize())
}

/// A bucket's file that is being written.
pub(crate) struct Builder<'a> {
    disk: &'a dyn Disk,
    layout: &'static Layout,
    inserts: [String; 2],
    temporary: Temporary<'a>,
    /// How much was added since it was last synced, about.
    unsynced_bytes: usize,
    end: Timestamp,
    covers: u32,
    serial: u32,
    connection: Connection,
    last: Option<Identity>,
    /// For the bloom filter, whose size depends on how many there will be.
    identities: Vec<Identity>,
    collided: usize,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(
        disk: &'a dyn Disk,
        layout: &'static Layout,
        end: Timestamp,
        covers: u32,
        serial: u32,
    ) -> Result<Self, StoreError> {
        let temporary = Temporary::new(disk, format!("building-{serial:08}.tmp"));
        // SQLite would go on with what a crash left there.
        disk.create(&temporary.name).map_err(disk_error(BUILDING))?;
        let connection = Connection::open(disk.path(&temporary.name)).map_err(sqlite_error(BUILDING))?;
        connection.execute_batch(&schema(layout)).map_err(sqlite_error(BUILDING))?;
        let columns = layout.count + 4;
        Ok(Self {
            disk,
            layout,
            inserts: [insert("record", columns + 1), insert("collided", columns)],
            temporary,
            unsynced_bytes: 0,
            end,
            covers,
            serial,
            connection,
            last: None,
            identities: Vec::new(),
            collided: 0,
        })
    }

    /// Lets others go first while SQLite works: it makes its indexes in one go.
    pub(crate) fn paced(self, pace: &Arc<Pace>) -> Result<Self, StoreError> {
        let pace = Arc::clone(pace);
        let breathe = move || {
            pace.breathe();
            false
        };
        self.connection.progress_handler(BREATH_STEPS, Some(breathe)).map_err(sqlite_error(BUILDING))?;
        Ok(self)
    }

    /// Adds a row; they must come in the order of their identities.
    pub(crate) fn push(&mut self, found: &Found, columns: &[Value]) -> Result<(), StoreError> {
        assert!(self.last < Some(found.identity), "rows come in the order of their identities");
        let is_collided = self.last.is_some_and(|it| prefix(&it) == prefix(&found.identity));
        let write = || -> rusqlite::Result<usize> {
            let first = (!is_collided).then(|| ValueRef::Integer(prefix(&found.identity)));
            let values = first.into_iter().chain([
                ValueRef::Blob(found.identity.as_bytes()),
                ValueRef::Integer(found.fence.get().cast_signed()),
                ValueRef::Integer(found.expires_at.as_millis().cast_signed()),
            ]);
            let values = values.chain(columns.iter().map(ValueRef::from));
            let values = values.chain([ValueRef::Blob(&found.payload)]).map(ToSqlOutput::Borrowed);
            let insert = &self.inserts[usize::from(is_collided)];
            self.connection.prepare_cached(insert)?.execute(params_from_iter(values))
        };
        write().map_err(sqlite_error(BUILDING))?;
        self.collided += usize::from(is_collided);
        self.last = Some(found.identity);
        self.identities.push(found.identity);
        self.unsynced_bytes += found.payload.len();
        if self.unsynced_bytes >= SLICE_BYTES {
            let file = self.disk.open(&self.temporary.name);
            file.and_then(|it| it.sync()).map_err(disk_error(BUILDING))?;
            self.unsynced_bytes = 0;
        }
        Ok(())
    }

    /// Makes the file durable, names it, and opens it, in place of those that were merged into it.
    pub(crate) fn finish(mut self, merged: &[Arc<Bucket>]) -> Result<Bucket, StoreError> {
        let replaces: Vec<_> = merged.iter().map(|it| it.serial.to_string()).collect();
        let failed = || disk_error(BUILDING);
        let mut bloom = Bloom::for_keys(self.identities.len());
        self.identities.iter().for_each(|it| bloom.insert(it));
        let bloom = bloom.to_bytes();
        let meta = || -> rusqlite::Result<()> {
            let put = |name: &str, value: &dyn rusqlite::ToSql| {
                self.connection.execute("INSERT INTO meta VALUES (?1, ?2)", params![name, value])
            };
            put("format", &FORMAT)?;
            put("rows", &self.identities.len().to_string())?;
            put("covers", &self.covers)?;
            put("replaces", &replaces.join(" "))?;
            put("collided", &self.collided.to_string())?;
            put("bloom_checksum", &crc32fast::hash(&bloom))?;
            put("bloom", &bloom)?;
            self.connection.execute_batch(self.layout.indexes)?;
            self.connection.execute_batch("COMMIT")
        };
        meta().map_err(sqlite_error(BUILDING))?;
        drop(self.connection);
        let file = self.disk.open(&self.temporary.name).map_err(failed())?;
        let sum = checksum(&*file).map_err(failed())?;
        file.sync().map_err(failed())?;
        let name = format!("{PREFIX}{:020}-{:08}-{sum:08x}{SUFFIX}", self.end.as_millis(), self.serial);
        self.temporary.rename(&name).map_err(failed())?;
        self.disk.sync_directory().map_err(failed())?;
        let bucket = Bucket::open(self.disk, &name)?;
        bucket.is_verified.store(true, Ordering::Release);
        Ok(bucket)
    }
}
