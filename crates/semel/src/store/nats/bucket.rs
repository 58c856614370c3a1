//! The bucket that records live in.
//!
//! 1. It is a key-value bucket as every NATS client knows it, with one value per key, and two things more: values
//!    may have a time to live of their own, and the stream counts from the time of its making.
//! 2. One that would lose records, or bring old ones back, is refused when it is opened.
//!
//! It is not changed once it is there: `nats stream edit` does that.

use super::{
    error::{asking, creating, finding, misconfigured},
    moment,
};
use async_nats::jetstream::{
    Context, ErrorCode,
    context::{self, CreateStreamErrorKind, GetStreamErrorKind},
    stream::{Config, DiscardPolicy, StorageType, Stream},
};
use semel_core::{store::StoreError, time::Timestamp};
use serde::Deserialize;
use std::time::{SystemTime, UNIX_EPOCH};

/// Streams that count from less than this (2020, in µs) do not count from the time of their making.
const FIRST_SEQUENCE_MIN: u64 = 1_577_836_800_000_000;

/// A bucket to be made.
///
/// ```
/// use semel::store::nats::{Bucket, Storage};
/// let bucket = Bucket::new("semel").replicas(3).storage(Storage::File);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a bucket is not there until it is created"]
pub struct Bucket {
    name: String,
    replicas: usize,
    storage: Storage,
    bytes_max: Option<u64>,
}

/// Where the servers keep a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Storage {
    /// On disk.
    File,
    /// In memory: gone with the servers.
    Memory,
}

impl Bucket {
    /// A bucket of this name, of letters, digits, `-` and `_`, with one replica on disk.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), replicas: 1, storage: Storage::File, bytes_max: None }
    }

    /// On so many servers; three or more for tier B.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Kept there.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Not larger than this. Claims are refused when it is full; nothing is dropped.
    pub fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = Some(bytes);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the bucket. One that is there already is left as it is.
    pub async fn create(&self, context: &Context) -> Result<(), StoreError> {
        match context.get_key_value(&self.name).await {
            Ok(_) => return Ok(()),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(finding(&self.name, error)),
        }
        match context.create_stream(self.config()).await {
            Ok(_) => Ok(()),
            // Another process was faster.
            Err(error) if code_of(&error) == Some(ErrorCode::STREAM_NAME_EXIST) => Ok(()),
            Err(error) => Err(creating(&self.name, error)),
        }
    }

    fn config(&self) -> Config {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Config {
            name: format!("KV_{}", self.name),
            description: Some("records of Semel".to_owned()),
            subjects: vec![format!("$KV.{}.>", self.name)],
            max_messages_per_subject: 1,
            max_bytes: self.bytes_max.map_or(-1, |it| i64::try_from(it).unwrap_or(i64::MAX)),
            discard: DiscardPolicy::New,
            storage: match self.storage {
                Storage::File => StorageType::File,
                Storage::Memory => StorageType::Memory,
            },
            num_replicas: self.replicas,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: false,
            allow_message_ttl: true,
            first_sequence: Some(since.as_micros() as u64),
            ..Config::default()
        }
    }
}

/// A bucket that is there, and may be used.
pub(super) struct Found {
    pub(super) stream: Stream,
    /// What subjects begin with.
    pub(super) prefix: String,
}

pub(super) async fn find(context: &Context, name: &str) -> Result<Found, StoreError> {
    let bucket = context.get_key_value(name).await.map_err(|it| finding(name, it))?;
    let fault = if bucket.use_jetstream_prefix || bucket.put_prefix.is_some() {
        Some("it lies in another domain, or is a mirror: connect to where it is written")
    } else {
        fault(&bucket.stream.cached_info().config)
    };
    match fault {
        None => Ok(Found { stream: bucket.stream, prefix: bucket.prefix }),
        Some(fault) => Err(misconfigured(format!("open the bucket `{name}`: {fault}"))),
    }
}

/// Why records cannot be kept in such a bucket.
fn fault(config: &Config) -> Option<&'static str> {
    let drops_old = config.discard == DiscardPolicy::Old && (config.max_bytes > 0 || config.max_messages > 0);
    if config.max_messages_per_subject != 1 {
        return Some(
            "it keeps a history, which would come back when a record expires: make one with `history` 1",
        );
    }
    if !config.max_age.is_zero() || drops_old {
        return Some("it drops records by age or size (`max_age`, `discard: old`): make one that does not");
    }
    if !config.allow_message_ttl {
        return Some(
            "it has no `allow_msg_ttl`, so that nothing would ever expire: make it with `Bucket::create`",
        );
    }
    if config.first_sequence.unwrap_or(0) < FIRST_SEQUENCE_MIN {
        return Some(
            "its `first_seq` is not the time of its making in µs, so that fences would start again if it were \
             made again: make it with `Bucket::create`",
        );
    }
    None
}

/// The time of the stream's leader.
pub(super) async fn time(context: &Context, stream: &Stream) -> Result<Timestamp, StoreError> {
    /// The one thing that the client's own type leaves out.
    #[derive(Deserialize)]
    struct Told {
        ts: Option<String>,
    }
    let subject = format!("STREAM.INFO.{}", stream.cached_info().config.name);
    let told: Told = context.request(subject, &()).await.map_err(|it| asking("the server's time", it))?;
    let told = told.ts.and_then(|it| moment(&it));
    told.ok_or_else(|| misconfigured("ask for the server's time: it does not tell; NATS 2.11 or newer does"))
}

fn is_missing(error: &context::KeyValueError) -> bool {
    let source = std::error::Error::source(error).and_then(|it| it.downcast_ref::<context::GetStreamError>());
    match source.map(context::GetStreamError::kind) {
        Some(GetStreamErrorKind::JetStream(error)) => error.error_code() == ErrorCode::STREAM_NOT_FOUND,
        Some(_) | None => false,
    }
}

fn code_of(error: &context::CreateStreamError) -> Option<ErrorCode> {
    match error.kind() {
        CreateStreamErrorKind::JetStream(error) => Some(error.error_code()),
        _ => None,
    }
}
