//! Records in Firestore (native mode).
//!
//! 1. A swap is one `commit` of one write with a precondition, in one round trip where it is won; where it is lost
//!    a read shows what stands in the way. There are no transactions, which crawl when they are contended, no
//!    unconditional writes and no deletes.
//! 2. The fence is the document's update time in microseconds: Firestore's own clock gives each write a later one
//!    than the document ever had, also after a removal, and takes it back as a precondition. Every write changes
//!    the field `after`, because a write that changes nothing would keep the old time.
//! 3. A load is one strongly consistent `batchGet` of one document.
//! 4. One request on the wire for each of these; the driver repeats them and recognises its own record.
//! 5. The clock is Firestore's: every reply tells it, so callers need no margin. A process that has heard nothing
//!    yet goes by its own clock; [`FirestoreStore::doctor`] at the start is a first reply.
//! 6. Expired documents are removed by a TTL policy on `expires_at`, an hour ([`TTL_MARGIN`]) after they expired
//!    and at Firestore's leisure; until then the library counts them as absent. Unfinished records do not have
//!    the field.
//!
//! It does not purge (TTL does), and it does not query: every access is by the document's name. It does not get
//! tokens: the user's own credentials do. It speaks REST instead of gRPC, because two small requests do not need
//! generated code for the whole of Google's API.
//!
//! # What is promised
//!
//! Tier A: what was acknowledged is on the disks of several zones (or of several regions, if the database's
//! location has them), and reads and preconditions see all of it.
//!
//! # The collection
//!
//! Firestore makes collections by itself. What it does not make is the TTL policy and the exemptions from
//! indexing, without which every write is paid for several times: [`FirestoreStore::setup_gcloud`] prints the
//! commands.
//!
//! | field | type | what |
//! |---|---|---|
//! | *(document id)* | | the key's identity in hexadecimal |
//! | `record` | bytes | the record, versioned and checksummed |
//! | `after` | integer | the fence that this write superseded; 0 for the first |
//! | `expires_at` | timestamp | for the TTL policy; absent until the call is finished |
//! | `key`, `status` | string | for people who look at the collection |
//!
//! # Permissions
//!
//! `datastore.entities.get`, `datastore.entities.create` and `datastore.entities.update` (all in
//! `roles/datastore.user`). [`FirestoreStore::doctor`] asks for `datastore.databases.getMetadata` and
//! `datastore.indexes.get` (`roles/datastore.viewer`), and reports what it may not see.

mod doctor;
mod document;
mod error;
mod http;
mod moment;

use self::{
    document::Place,
    error::{Failure, doing},
    http::{Http, Tokens},
};
use super::offset::LearnedClock;
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{Store, StoreError, StoreErrorKind, Swap},
    time::{Clock, Timestamp},
};
use serde_json::Value;
use std::{error::Error as StdError, fmt, future::ready, sync::Arc, time::Duration};

/// How long after its expiry a document is handed to Firestore's TTL policy: clocks may be wrong by this much, and
/// nothing is removed that somebody still counts on.
pub const TTL_MARGIN: Duration = Duration::from_hours(1);

/// The store's name in errors and reports.
const STORE: &str = "firestore";
/// Where Google serves it.
const GOOGLE: &str = "https://firestore.googleapis.com";

/// Records in a Firestore collection. Cheap to clone.
///
/// ```no_run
/// # async fn start() -> Result<(), semel::StoreError> {
/// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
/// use semel::{Once, store::firestore::FirestoreStore};
/// // `token` gives an OAuth access token, from a cache until it expires.
/// let store = FirestoreStore::new("my-project", token)?.collection("orders-idempotency");
/// store.doctor().await?.accepted()?;
/// let once = Once::new(store);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct FirestoreStore {
    http: Arc<Http>,
    place: Place,
    clock: Arc<LearnedClock>,
}

impl FirestoreStore {
    /// Records in this project's `(default)` database, in the collection `semel`. Nothing is sent yet.
    ///
    /// `token` is asked for an OAuth access token (scope `https://www.googleapis.com/auth/datastore`) before every
    /// request: it should keep one until it expires, as Google's libraries do.
    pub fn new<F, E>(
        project: impl Into<String>,
        token: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<Self, StoreError>
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let token: Tokens = Box::new(move || {
            let token = token();
            Box::pin(async move { token.await.map_err(Into::into) })
        });
        Ok(Self::over(Http::encrypted(GOOGLE.to_owned(), token)?, project.into()))
    }

    /// Records in Google's emulator at this `host:port`, as `FIRESTORE_EMULATOR_HOST` has it: for tests.
    pub fn emulator(host: &str, project: impl Into<String>) -> Self {
        Self::over(Http::plain(format!("http://{host}")), project.into())
    }

    fn over(http: Http, project: String) -> Self {
        let place = Place { project, database: "(default)".to_owned(), collection: "semel".to_owned() };
        Self { http: Arc::new(http), place, clock: Arc::new(LearnedClock::new()) }
    }

    /// The database; `(default)` unless set.
    #[must_use]
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.place.database = name.into();
        self
    }

    /// The collection, or the path of one below a document; `semel` unless set. Several applications in one
    /// database have one each.
    #[must_use]
    pub fn collection(mut self, path: impl Into<String>) -> Self {
        self.place.collection = path.into();
        self
    }

    /// The `gcloud` commands that set the TTL policy, and exempt from indexing what nobody searches for.
    pub fn setup_gcloud(&self) -> String {
        self.place.setup_gcloud()
    }

    async fn get(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let request = self.place.batch_get(key);
        let answered = self.ask("batchGet", &request).await;
        let answer = answered.map_err(|failure| doing("load a record", &self.place).failed(failure))?;
        self.place.found(key, &answer)
    }

    async fn commit(&self, key: &Key, expected: Option<Fence>, record: &Record) -> Result<Swap, StoreError> {
        // A time that no document can have is no document's fence.
        let Some(request) = self.place.commit(key, expected, record) else {
            return Ok(Swap::Lost(self.get(key).await?));
        };
        match self.ask("commit", &request).await {
            Ok(answer) => self.place.written(&answer).map(Swap::Won),
            Err(failure) if failure.is_lost() => self.lost(key, expected, failure).await,
            Err(failure) => Err(doing("swap a record", &self.place).failed(failure)),
        }
    }

    /// Looks at what stood in the way of a swap.
    async fn lost(&self, key: &Key, expected: Option<Fence>, failure: Failure) -> Result<Swap, StoreError> {
        let found = self.get(key).await?;
        if found.as_ref().map(|it| it.fence) != expected {
            return Ok(Swap::Lost(found));
        }
        let doing = doing("swap a record", &self.place);
        if failure.status() == "INVALID_ARGUMENT" {
            return Err(doing.failed(failure));
        }
        // Nothing did, any more: the write was given up under contention, or the document has gone since.
        let contended = (StoreErrorKind::Unavailable, "contended: it will be tried again");
        Err(doing.explained(contended).because(failure))
    }

    /// One request to the documents, whose reply tells the time.
    async fn ask(&self, method: &str, request: &Value) -> Result<Value, Failure> {
        let sent = self.clock.monotonic();
        let path = format!("/v1/{}:{method}", self.place.documents());
        let answer = self.http.post(&path, request).await?;
        if let Some(now) = document::time_of(&answer) {
            self.clock.learn(now, sent, self.clock.monotonic());
        }
        Ok(answer)
    }
}

impl fmt::Debug for FirestoreStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirestoreStore").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Store for FirestoreStore {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(self.get(key))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(self.commit(key, expected, record))
    }

    /// Nothing: Firestore's TTL policy removes what has expired.
    fn purge(&self, _expired_at: Timestamp, _limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(ready(Ok(0)))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}
