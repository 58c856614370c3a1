//! Records in a key-value bucket of NATS JetStream.
//!
//! 1. A record is the last message under `$KV.bucket.identity`, the identity in hex: no character of a user's key
//!    reaches the server.
//! 2. A swap is one publication that names the sequence it expects to be the last of its subject, and one round
//!    trip. Whoever loses reads what is there: one more. With replicas one may lose to a write that is not to be
//!    read yet; it is waited for, because it may be one's own whose answer was lost.
//! 3. A fence is the message's sequence in the bucket's stream, which grows with every message and is not taken
//!    back by removal or restart. A bucket that [`Bucket`] makes begins to count at the time of its making in µs,
//!    so that one that was deleted and made again goes on above the old one's; buckets that do not are refused.
//! 4. Reads go to the stream's leader, never to a replica.
//! 5. Finished records are removed by the server, [`EXPIRY_MARGIN`] after they expired: each message carries its
//!    own time to live, which needs NATS 2.11. Unfinished ones are never. There is nothing to purge.
//! 6. Leases are judged by the clock of the stream's leader, which is asked for it at the start and every
//!    [`LEARN_EVERY`]: replies to writes do not tell it. The servers should agree on the time to within the
//!    margin of [`OnceBuilder::margin`](crate::OnceBuilder::margin), for when the leader changes.
//!
//! # What is promised
//!
//! Tier B with three replicas or more on disk and `sync_interval: always`: a write is acknowledged when a majority has it
//! on disk, and nothing that was acknowledged is lost while a majority lives. With fewer replicas, in memory, or with
//! another interval, tier C.
//!
//! Unless that is set, servers write to their disks in the background, every two minutes. Then a power cut of several
//! replicas, and with one replica that of one machine, forgets acknowledged records: **the next duplicate runs again**,
//! and sequences that were lost are issued again. Clients cannot see this setting, so [`NatsStore::doctor`] says tier C
//! until somebody vouches for it with [`NatsStore::syncs_always`].
//!
//! A bucket that is restored from a backup has forgotten what came after it.
//!
//! It does not use JetStream domains or mirrors, and it does not watch the bucket.

mod bucket;
mod connection;
mod doctor;
mod error;

pub use bucket::{Bucket, Storage};
pub use connection::{CONNECT_MAX, RESPONSE_MAX};

use crate::store::offset::LearnedClock;
use async_nats::jetstream::{
    Context,
    message::{PublishMessage, StreamMessage},
    stream::{LastRawMessageErrorKind, Stream},
};
use connection::open;
use error::{corrupt, is_lost, loading, publishing, undecided, unreadable};
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    sabotage::is_on,
    store::{Store, StoreError, Swap},
    time::{Clock, Timestamp},
    wire,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How long past its expiry a record is kept.
pub const EXPIRY_MARGIN: Duration = Duration::from_mins(10);
/// How often the server is asked for its time.
pub const LEARN_EVERY: Duration = Duration::from_mins(5);

/// What is to be remembered for longer than this is kept for ever.
const LIFE_MAX: Duration = Duration::from_hours(24 * 365 * 100);
/// How often a swap is tried again that was lost to a write which nobody can see yet.
const RACES_MAX: usize = 100;
/// How long such a write is waited for, each time.
const RACE_PAUSE: Duration = Duration::from_millis(10);
/// Headers that stand on a message which says that there is nothing.
const MARKERS: [&str; 2] = ["KV-Operation", "Nats-Marker-Reason"];

/// Records in a key-value bucket of NATS JetStream.
///
/// ```no_run
/// use semel::{Once, store::nats::{Bucket, NatsStore}};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = NatsStore::connect_or_create("nats://127.0.0.1:4222", &Bucket::new("semel").replicas(3)).await?;
/// println!("{}", store.doctor().await?.accepted()?);
/// let once = Once::new(store);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct NatsStore {
    context: Context,
    stream: Stream,
    /// What subjects begin with.
    prefix: Arc<str>,
    clock: Arc<LearnedClock>,
    /// When the server was last asked for its time, in milliseconds of the monotonic clock.
    asked_at: Arc<AtomicU64>,
    /// As somebody vouches.
    syncs_always: bool,
}

impl NatsStore {
    /// Connects to a server, `nats://user:password@host:4222` or `nats://token@host:4222`, and to a bucket that is
    /// there. Several servers of one cluster are separated by commas.
    pub async fn connect(url: &str, bucket: &str) -> Result<Self, StoreError> {
        Self::new(open(url).await?, bucket).await
    }

    /// As [`NatsStore::connect`], and makes the bucket if it is not there.
    pub async fn connect_or_create(url: &str, bucket: &Bucket) -> Result<Self, StoreError> {
        let context = open(url).await?;
        bucket.create(&context).await?;
        Self::new(context, bucket.name()).await
    }

    /// Over the user's own connection, in a bucket that is there. The connection's timeouts hold.
    ///
    /// Refuses a bucket that cannot be right, and asks the server for its time.
    pub async fn new(context: Context, bucket: &str) -> Result<Self, StoreError> {
        let found = bucket::find(&context, bucket).await?;
        let store = Self {
            stream: found.stream,
            prefix: Arc::from(found.prefix),
            context,
            clock: Arc::new(LearnedClock::new()),
            asked_at: Arc::default(),
            syncs_always: false,
        };
        store.ask_time().await?;
        Ok(store)
    }

    /// Vouches that every server of the bucket has `jetstream { sync_interval: always }`, which clients cannot see:
    /// [`NatsStore::doctor`] then believes it. It changes nothing else.
    #[must_use]
    pub fn syncs_always(self) -> Self {
        Self { syncs_always: true, ..self }
    }

    /// The subject under which the record of this key stands, for those who look with `nats`.
    pub fn subject(&self, key: &Key) -> String {
        format!("{}{}", self.prefix, key.identity())
    }

    async fn ask_time(&self) -> Result<(), StoreError> {
        let sent = self.clock.monotonic();
        self.asked_at.store(sent.as_millis() as u64, Ordering::Relaxed);
        let told = bucket::time(&self.context, &self.stream).await?;
        self.clock.learn(told, sent, self.clock.monotonic());
        Ok(())
    }

    /// Asks for the time if that is due. If nothing comes of it, what was learnt before still stands.
    async fn ask_time_if_due(&self) {
        let due = self.asked_at.load(Ordering::Relaxed) + LEARN_EVERY.as_millis() as u64;
        if self.clock.monotonic().as_millis() as u64 >= due {
            drop(self.ask_time().await);
        }
    }

    /// The last message under the subject, from the stream's leader.
    async fn last(&self, subject: &str) -> Result<Option<StreamMessage>, StoreError> {
        match self.stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(loading(error)),
        }
    }

    /// Publishes if the last sequence of the subject is this one; `None` if it is not.
    async fn publish(
        &self,
        subject: &str,
        expected: u64,
        record: &Encoded,
    ) -> Result<Option<Fence>, StoreError> {
        let message = PublishMessage::build().payload(record.bytes.clone().into());
        let message = if is_on("nats_revision_ignored") {
            message
        } else {
            message.expected_last_subject_sequence(expected)
        };
        let message = match record.life {
            Some(life) => message.ttl(life),
            None => message,
        };
        let acknowledged = match self.context.send_publish(subject.to_owned(), message).await {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        match acknowledged {
            Ok(it) => {
                Fence::new(it.sequence).map(Some).ok_or_else(|| corrupt("a message without a sequence"))
            }
            Err(error) if is_lost(&error) => Ok(None),
            Err(error) => Err(publishing(error)),
        }
    }
}

/// A record as it is sent.
struct Encoded {
    bytes: Vec<u8>,
    /// When the server is to remove it, from now; `None` for never.
    life: Option<Duration>,
}

impl Encoded {
    fn new(key: &Key, record: &Record, now: Timestamp) -> Self {
        let left = record.expires_at.since(now);
        // Whole seconds, and never too few.
        let left = if is_on("nats_unfinished_expires") { left.min(EXPIRY_MARGIN) } else { left };
        let life = (left < LIFE_MAX).then(|| left + EXPIRY_MARGIN + Duration::from_secs(1));
        Self { bytes: wire::encode(key, record), life }
    }
}

/// What a message says: a record, or that there is nothing.
fn read(key: &Key, message: &StreamMessage) -> Result<Option<Stored>, StoreError> {
    if is_marker(message) {
        return Ok(None);
    }
    let record = wire::decode_record(key, &message.payload).map_err(unreadable)?;
    let fence = Fence::new(message.sequence).ok_or_else(|| corrupt("a message without a sequence"))?;
    Ok(Some(Stored { fence, record }))
}

/// What follows from a lost publication.
#[derive(PartialEq, Eq, Debug)]
enum Next {
    /// Something else is there.
    Lost,
    /// Nothing is there, and a message that says so: that is what has to be last.
    Expect(u64),
    /// What we expected is still there: a write that we lost to is on its way, and whether it comes to be, and
    /// whether it is our own of a moment ago, cannot be told yet.
    Wait,
}

fn judge(expected: Option<Fence>, expected_last: u64, last: Option<&StreamMessage>) -> Next {
    match last {
        Some(last) if last.sequence == expected_last => Next::Wait,
        None if expected_last == 0 => Next::Wait,
        Some(last) if expected.is_none() && is_marker(last) => Next::Expect(last.sequence),
        None if expected.is_none() => Next::Expect(0),
        Some(_) | None => Next::Lost,
    }
}

/// Whether somebody has deleted or purged the key by other means.
fn is_marker(message: &StreamMessage) -> bool {
    MARKERS.iter().any(|name| message.headers.get(*name).is_some_and(|it| it.as_str() != "PUT"))
}

/// A moment as the server writes it.
fn moment(text: &str) -> Option<Timestamp> {
    let moment = SystemTime::from(async_nats::datetime::parse_rfc3339(text).ok()?);
    Some(Timestamp::EPOCH + moment.duration_since(UNIX_EPOCH).ok()?)
}

impl Store for NatsStore {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            let message = self.last(&self.subject(key)).await?;
            message.map_or(Ok(None), |it| read(key, &it))
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let subject = self.subject(key);
            let encoded = Encoded::new(key, record, self.clock.now());
            let mut expected_last = expected.map_or(0, Fence::get);
            for _ in 0..RACES_MAX {
                if let Some(fence) = self.publish(&subject, expected_last, &encoded).await? {
                    self.ask_time_if_due().await;
                    return Ok(Swap::Won(fence));
                }
                let last = self.last(&subject).await?;
                match judge(expected, expected_last, last.as_ref()) {
                    Next::Lost => return Ok(Swap::Lost(last.map_or(Ok(None), |it| read(key, &it))?)),
                    Next::Expect(sequence) => expected_last = sequence,
                    Next::Wait => self.clock.sleep(RACE_PAUSE).await,
                }
            }
            Err(undecided())
        })
    }

    /// Nothing: the server removes what has expired.
    fn purge(&self, _expired_at: Timestamp, _limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }
}
