//! Records in DynamoDB.
//!
//! 1. A swap is one conditional `PutItem`, in one round trip also where it is lost: DynamoDB hands back the item
//!    that stood in the way. There is no unconditional write and no delete.
//! 2. A load is one strongly consistent `GetItem`.
//! 3. One request on the wire for each swap: the SDK's own retries are off for the store's calls, because the
//!    driver repeats a swap and recognises its own record.
//! 4. The condition is the fence, which is `max(time in µs, the last + 1)`. Whoever finds a record expired names
//!    its fence too, so that expiry stands in the condition: a record that was renewed meanwhile is not
//!    overwritten.
//! 5. Expired items are removed by DynamoDB's own TTL, an hour ([`TTL_MARGIN`]) after they expired and at its
//!    leisure; until then the library counts them as absent. A fence issued after such a removal is still higher,
//!    as long as the writer's clock is not that hour behind. Unfinished records carry no TTL attribute.
//! 6. DynamoDB tells no time but in the `Date` of its replies, to the second. The store's clock is this machine's,
//!    corrected to agree with that date; two callers may differ by up to [`MARGIN`], for which a lease is left alone
//!    past its end.
//!
//! It does not purge (TTL does) and it does not scan or query: every access is by the full key.
//!
//! # What is promised
//!
//! Tier A in one region: what was acknowledged is on the disks of several availability zones. A global table that
//! replicates asynchronously is written in each region without regard to the others: claims in two regions may
//! both win. [`DynamoStore::doctor`] says so.
//!
//! # The table
//!
//! [`DynamoStore::create_table`] makes it; [`DynamoStore::create_table_cli`] and
//! [`DynamoStore::cloudformation`] print the same for somebody else to run.
//!
//! | attribute | type | what |
//! |---|---|---|
//! | `id` | S, partition key | the prefix, and the key's identity in hexadecimal |
//! | *(a sort key)* | S | a fixed value, for tables that have one |
//! | `fence` | N | of the last write; what every condition names |
//! | `record` | B | the record, versioned and checksummed |
//! | `expires_at` | N | TTL, in seconds; absent until the call is finished |
//! | `key`, `status` | S | for people who look at the table |
//!
//! # Permissions
//!
//! `dynamodb:GetItem` and `dynamodb:PutItem` on the table. [`DynamoStore::doctor`] asks for
//! `dynamodb:DescribeTable`, `dynamodb:DescribeTimeToLive` and `dynamodb:DescribeContinuousBackups`, and reports
//! what it may not see; [`DynamoStore::create_table`] needs `dynamodb:CreateTable` and
//! `dynamodb:UpdateTimeToLive` besides.

mod date;
mod doctor;
mod documents;
mod error;
mod layout;
mod table;

pub use documents::{DOCUMENTS_PREFIX, DynamoDocuments};

use self::{
    date::LearnDate,
    error::{Doing, in_time},
    layout::Layout,
};
use super::offset::LearnedClock;
use aws_sdk_dynamodb::{
    Client, Config,
    config::{Builder, retry::RetryConfig},
    operation::put_item::PutItemError,
    types::ReturnValuesOnConditionCheckFailure,
};
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{Store, StoreError, Swap},
    time::{Clock, Timestamp},
};
use std::{fmt, future::ready, sync::Arc, time::Duration};

/// How much the clocks of two callers may disagree: the `Date` of replies is told to the second, and a reply takes
/// its time. [`Once`](crate::Once) leaves a lease alone for at least this long past its end.
pub const MARGIN: Duration = Duration::from_secs(2);
/// Longest that a request waits for its answer, whatever the client's own timeouts are.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long after its expiry an item is handed to DynamoDB's TTL: the clocks of writers may be wrong by this much,
/// and fences still grow over a removal.
pub const TTL_MARGIN: Duration = Duration::from_hours(1);

/// The store's name in errors and reports.
const STORE: &str = "dynamodb";

/// Records in a DynamoDB table. Cheap to clone.
///
/// ```no_run
/// # async fn start(config: aws_sdk_dynamodb::Config) -> Result<(), Box<dyn std::error::Error>> {
/// use semel::{Once, store::dynamodb::DynamoStore};
/// let client = aws_sdk_dynamodb::Client::from_conf(config);
/// let store = DynamoStore::new(client, "orders-idempotency");
/// store.doctor().await?.accepted()?;
/// let once = Once::new(store);
/// # Ok(()) }
/// ```
///
/// In a table that other things live in, too, give its names, and a prefix of your own:
///
/// ```no_run
/// # fn start(client: aws_sdk_dynamodb::Client) {
/// use semel::store::dynamodb::DynamoStore;
/// let store = DynamoStore::new(client, "everything")
///     .partition_key("PK")
///     .sort_key("SK", "idempotency")
///     .prefix("idempotency#orders#")
///     .expires_attribute("ttl");
/// # }
/// ```
#[derive(Clone)]
pub struct DynamoStore {
    client: Client,
    layout: Layout,
    clock: Arc<LearnedClock>,
}

impl DynamoStore {
    /// Records in this table, whose partition key is `id` unless [`DynamoStore::partition_key`] says otherwise.
    /// Nothing is sent yet.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, layout: Layout::new(table.into()), clock: Arc::new(LearnedClock::within(MARGIN)) }
    }

    /// The name of the table's partition key, which must be a string; `id` unless set.
    #[must_use]
    pub fn partition_key(mut self, name: impl Into<String>) -> Self {
        self.layout.partition_key = name.into();
        self
    }

    /// The name of the table's sort key, which must be a string, and the value that all records have there; no
    /// sort key unless set.
    ///
    /// The identity always stands in the partition key: records of one fixed partition would share the
    /// throughput of one.
    #[must_use]
    pub fn sort_key(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.layout.sort_key = Some((name.into(), value.into()));
        self
    }

    /// What partition keys begin with, so that several applications share a table; nothing unless set.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.layout.prefix = prefix.into();
        self
    }

    /// The attribute of the fence; `fence` unless set.
    #[must_use]
    pub fn fence_attribute(mut self, name: impl Into<String>) -> Self {
        self.layout.fence = name.into();
        self
    }

    /// The attribute of the record's bytes; `record` unless set.
    #[must_use]
    pub fn record_attribute(mut self, name: impl Into<String>) -> Self {
        self.layout.record = name.into();
        self
    }

    /// The attribute that the table's TTL is set to; `expires_at` unless set.
    #[must_use]
    pub fn expires_attribute(mut self, name: impl Into<String>) -> Self {
        self.layout.expires_at = name.into();
        self
    }

    /// The attribute of the readable key; `key` unless set.
    #[must_use]
    pub fn key_attribute(mut self, name: impl Into<String>) -> Self {
        self.layout.key = name.into();
        self
    }

    /// The attribute of the readable status; `status` unless set.
    #[must_use]
    pub fn status_attribute(mut self, name: impl Into<String>) -> Self {
        self.layout.status = name.into();
        self
    }

    async fn get(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let (layout, doing) = (&self.layout, Doing::new("load a record", &self.layout));
        let get = self.client.get_item().table_name(&layout.table).set_key(Some(layout.key_of(key)?));
        let get = get.consistent_read(true).customize();
        let got = get.config_override(one_request()).interceptor(self.learn_date()).send();
        let got = in_time(got).await;
        match got.map_err(|error| doing.failed(error))?.item {
            Some(item) => layout.stored(key, &item).map(Some),
            None => Ok(None),
        }
    }

    async fn put(&self, key: &Key, expected: Option<Fence>, record: &Record) -> Result<Swap, StoreError> {
        let (layout, doing) = (&self.layout, Doing::new("swap a record", &self.layout));
        let fence = Fence::next(expected, self.clock.now());
        let condition = layout.condition(expected);
        let put = self
            .client
            .put_item()
            .table_name(&layout.table)
            .set_item(Some(layout.item(key, fence, record)?))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .customize();
        let sent = put.config_override(one_request()).interceptor(self.learn_date()).send();
        let Err(error) = in_time(sent).await else { return Ok(Swap::Won(fence)) };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(lost)) => {
                let found = lost.item().map(|item| layout.stored(key, item)).transpose()?;
                Ok(Swap::Lost(found))
            }
            // The SDK's errors, not ours: whatever else it may be, nobody can tell what happened.
            _ => Err(doing.failed(error)),
        }
    }

    /// Notes what time the reply to what is sent now says it is.
    fn learn_date(&self) -> LearnDate {
        LearnDate::of_what_is_sent_now(&self.clock)
    }
}

/// Retries would hide from the driver that a reply was lost.
fn one_request() -> Builder {
    Config::builder().retry_config(RetryConfig::disabled())
}

impl fmt::Debug for DynamoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoStore").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Store for DynamoStore {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(self.get(key))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(self.put(key, expected, record))
    }

    /// Nothing: DynamoDB's TTL removes what has expired.
    fn purge(&self, _expired_at: Timestamp, _limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(ready(Ok(0)))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}
