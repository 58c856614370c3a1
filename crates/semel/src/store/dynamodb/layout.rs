//! How a record lies in a table: names of attributes, the item, and the condition of a swap.
//!
//! It does not talk to DynamoDB.

use super::{STORE, TTL_MARGIN};
use crate::store::unreadable::unreadable;
use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use semel_core::{
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
    time::Timestamp,
    wire,
};
use std::collections::HashMap;

pub(super) type Item = HashMap<String, AttributeValue>;

/// The table, and what its attributes are called.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) table: String,
    pub(super) partition_key: String,
    /// Its name and the value that all records have there.
    pub(super) sort_key: Option<(String, String)>,
    /// What partition keys begin with.
    pub(super) prefix: String,
    pub(super) fence: String,
    pub(super) record: String,
    pub(super) expires_at: String,
    /// Readable, for people.
    pub(super) key: String,
    /// Readable, for people.
    pub(super) status: String,
}

/// What must hold for a write to happen.
pub(super) struct Condition {
    pub(super) expression: &'static str,
    pub(super) names: HashMap<String, String>,
    pub(super) values: Option<Item>,
}

impl Layout {
    pub(super) fn new(table: String) -> Self {
        Self {
            table,
            partition_key: "id".to_owned(),
            sort_key: None,
            prefix: String::new(),
            fence: "fence".to_owned(),
            record: "record".to_owned(),
            expires_at: "expires_at".to_owned(),
            key: "key".to_owned(),
            status: "status".to_owned(),
        }
    }

    /// The item's primary key.
    pub(super) fn key_of(&self, key: &Key) -> Result<Item, StoreError> {
        let partition = format!("{}{}", self.prefix, key.identity());
        let sort = self.sort_key.iter().map(|(name, value)| (name, value.clone()));
        distinct(
            [(&self.partition_key, partition)]
                .into_iter()
                .chain(sort)
                .map(|(name, text)| (name, AttributeValue::S(text))),
        )
    }

    /// The whole item.
    pub(super) fn item(&self, key: &Key, fence: Fence, record: &Record) -> Result<Item, StoreError> {
        let bytes = Blob::new(wire::encode(key, record));
        let mut attributes = vec![
            (self.fence.clone(), AttributeValue::N(fence.to_string())),
            (self.record.clone(), AttributeValue::B(bytes)),
            (self.key.clone(), AttributeValue::S(key.to_string())),
            (self.status.clone(), AttributeValue::S(record.status().to_string())),
        ];
        attributes.extend(self.key_of(key)?);
        attributes.extend(
            ttl(record).map(|seconds| (self.expires_at.clone(), AttributeValue::N(seconds.to_string()))),
        );
        distinct(attributes)
    }

    /// That nothing is there, or that the fence is still this one.
    pub(super) fn condition(&self, expected: Option<Fence>) -> Condition {
        let name = |name: &str| HashMap::from([("#it".to_owned(), name.to_owned())]);
        match expected {
            None => Condition {
                expression: "attribute_not_exists(#it)",
                names: name(&self.partition_key),
                values: None,
            },
            Some(_) if is_on("dynamodb_fence_ignored") => {
                Condition { expression: "attribute_exists(#it)", names: name(&self.fence), values: None }
            }
            Some(fence) => Condition {
                expression: "#it = :expected",
                names: name(&self.fence),
                values: Some(HashMap::from([(":expected".to_owned(), AttributeValue::N(fence.to_string()))])),
            },
        }
    }

    /// Reads an item back.
    pub(super) fn stored(&self, key: &Key, item: &Item) -> Result<Stored, StoreError> {
        let fence = item.get(&self.fence).and_then(|it| it.as_n().ok()).and_then(|it| it.parse().ok());
        let fence = fence.and_then(Fence::new).ok_or_else(|| self.foreign(&self.fence, "a fence"))?;
        let bytes = item.get(&self.record).and_then(|it| it.as_b().ok());
        let bytes = bytes.ok_or_else(|| self.foreign(&self.record, "a record"))?;
        let record = wire::decode_record(key, bytes.as_ref())
            .map_err(|error| unreadable(STORE, format!("read a record of table `{}`", self.table), error))?;
        Ok(Stored { fence, record })
    }

    fn foreign(&self, attribute: &str, what: &str) -> StoreError {
        let context = format!(
            "read an item of table `{}`: its attribute `{attribute}` is not {what}, so something else wrote it; \
             use a prefix or a table of its own",
            self.table
        );
        StoreError::new(StoreErrorKind::Corrupt, STORE, context)
    }
}

/// When DynamoDB may remove it, in seconds since the epoch, rounded up; `None` if it never expires.
fn ttl(record: &Record) -> Option<u64> {
    if is_on("dynamodb_unfinished_expires") {
        return Some((record.updated_at + TTL_MARGIN).as_millis().div_ceil(1_000));
    }
    let is_finite = record.expires_at != Timestamp::NEVER;
    is_finite.then(|| (record.expires_at + TTL_MARGIN).as_millis().div_ceil(1_000))
}

/// Attributes by name; one name for two of them would overwrite the first.
fn distinct(
    attributes: impl IntoIterator<Item = (impl Into<String>, AttributeValue)>,
) -> Result<Item, StoreError> {
    let mut item = Item::new();
    for (name, value) in attributes {
        let name = name.into();
        if item.contains_key(&name) {
            let context = format!("two attributes are called `{name}`: give each a name of its own");
            return Err(StoreError::new(StoreErrorKind::Misconfigured, STORE, context));
        }
        item.insert(name, value);
    }
    Ok(item)
}
