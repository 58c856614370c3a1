//! Documents of repositories in DynamoDB.
//!
//! 1. A write is one conditional `PutItem` on the version, in one round trip also where it is lost.
//! 2. A load is one strongly consistent `GetItem`.
//! 3. They may share a table with records: their partition keys begin with [`DOCUMENTS_PREFIX`]. They carry no TTL.

use super::{
    DynamoStore, STORE,
    error::{Doing, in_time},
    layout::Item,
    one_request,
};
use crate::repository::{Document, Documents, Put, Version};
use aws_sdk_dynamodb::{
    operation::put_item::PutItemError,
    types::{AttributeValue, ReturnValuesOnConditionCheckFailure},
};
use semel_core::{
    BoxFuture,
    key::Key,
    store::{StoreError, StoreErrorKind},
};
use std::{collections::HashMap, fmt};

/// What partition keys begin with, after the store's own prefix.
pub const DOCUMENTS_PREFIX: &str = "document#";

const VERSION: &str = "version";
const WRITER: &str = "writer";
const BODY: &str = "body";
const COLLECTION: &str = "collection";
const NAME: &str = "document_id";

/// Documents of repositories in a table of DynamoDB, beside the records of a [`DynamoStore`] or in one of their own.
/// Cheap to clone.
///
/// ```no_run
/// # fn start(client: aws_sdk_dynamodb::Client) {
/// use semel::{repository::Repository, store::dynamodb::{DynamoDocuments, DynamoStore}};
/// let documents = DynamoDocuments::new(&DynamoStore::new(client, "orders-idempotency"));
/// let assets = Repository::<String>::new(documents, "assets");
/// # }
/// ```
#[derive(Clone)]
pub struct DynamoDocuments {
    store: DynamoStore,
}

impl DynamoDocuments {
    /// In the table of this store, whose key it is laid out by. [`DynamoStore::create_table`] makes it.
    pub fn new(store: &DynamoStore) -> Self {
        let prefix = format!("{}{DOCUMENTS_PREFIX}", store.layout.prefix);
        Self { store: store.clone().prefix(prefix) }
    }

    async fn get(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        let layout = &self.store.layout;
        let get = self.store.client.get_item().table_name(&layout.table);
        let get = get.set_key(Some(layout.key_of(key)?)).consistent_read(true).customize();
        let got = in_time(get.config_override(one_request()).send()).await;
        let got = got.map_err(|error| Doing::new("load a document", layout).failed(error))?;
        got.item.map(|item| document(key, &item)).transpose()
    }

    async fn write(
        &self,
        key: &Key,
        expected: Option<Version>,
        written: &Document,
    ) -> Result<Put, StoreError> {
        let layout = &self.store.layout;
        let put = self.store.client.put_item().table_name(&layout.table);
        let put = put.set_item(Some(self.item(key, written)?));
        let put = match expected {
            None => put
                .condition_expression("attribute_not_exists(#it)")
                .expression_attribute_names("#it", &layout.partition_key),
            Some(version) => put
                .condition_expression("#it = :expected")
                .expression_attribute_names("#it", VERSION)
                .expression_attribute_values(":expected", AttributeValue::N(version.to_string())),
        };
        let put = put.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let Err(error) = in_time(put.customize().config_override(one_request()).send()).await else {
            return Ok(Put::Written);
        };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(lost)) => {
                lost.item().map(|item| document(key, item)).transpose().map(Put::Lost)
            }
            // The SDK's errors, not ours: whatever else it may be, nobody can tell what happened.
            _ => Err(Doing::new("write a document", layout).failed(error)),
        }
    }

    fn item(&self, key: &Key, document: &Document) -> Result<Item, StoreError> {
        let mut item = self.store.layout.key_of(key)?;
        let attributes = HashMap::from([
            (VERSION.to_owned(), AttributeValue::N(document.version.to_string())),
            (WRITER.to_owned(), AttributeValue::S(format!("{:032x}", document.writer))),
            (BODY.to_owned(), AttributeValue::S(document.json.clone())),
            (COLLECTION.to_owned(), AttributeValue::S(key.scope())),
            (NAME.to_owned(), AttributeValue::S(key.id())),
        ]);
        if let Some(taken) = attributes.keys().find(|name| item.contains_key(*name)) {
            let context =
                format!("the table's key has the name `{taken}`, which documents use: take another table");
            return Err(StoreError::new(StoreErrorKind::Misconfigured, STORE, context));
        }
        item.extend(attributes);
        Ok(item)
    }
}

fn document(key: &Key, item: &Item) -> Result<Document, StoreError> {
    let text = |name| item.get(name).and_then(|it| it.as_s().ok());
    let version = item.get(VERSION).and_then(|it| it.as_n().ok()?.parse().ok()).and_then(Version::new);
    let writer = text(WRITER).and_then(|it| u128::from_str_radix(it, 16).ok());
    let read = || Some(Document { version: version?, writer: writer?, json: text(BODY)?.clone() });
    read().ok_or_else(|| {
        let context = format!("reading the document `{key}`: Semel did not write this item");
        StoreError::new(StoreErrorKind::Corrupt, STORE, context)
    })
}

impl Documents for DynamoDocuments {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        Box::pin(self.get(key))
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        document: &'a Document,
    ) -> BoxFuture<'a, Result<Put, StoreError>> {
        Box::pin(self.write(key, expected, document))
    }
}

impl fmt::Debug for DynamoDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoDocuments").field("store", &self.store).finish()
    }
}
