//! Documents of repositories, in the words of rows.
//!
//! 1. A write is one statement, which gives a row if the expected version was there. If it was not, what is there is
//!    looked at.
//! 2. The texts are those of the database; what is bound to them, and in which order, is the same for all.
//!
//! It does not run statements: the adapters do.

use crate::repository::{Document, Put, Version};
use semel_core::{
    key::Key,
    store::{StoreError, StoreErrorKind},
};

/// A table of documents.
pub(crate) trait Rows: Sync {
    /// The adapter's name, for errors.
    const STORE: &'static str;
    /// A row in the words of the database.
    type Row: Send;

    /// The texts for this table.
    fn statements(&self) -> &Statements;

    /// The row that a statement gives, in bounded time.
    fn fetch(
        &self,
        request: Request<'_>,
    ) -> impl Future<Output = Result<Option<Self::Row>, StoreError>> + Send;

    /// The document in a row that was loaded.
    fn read(row: &Self::Row) -> Result<Row, StoreError>;
}

/// The statements on one table, and what is bound to them.
pub(crate) struct Statements {
    /// Identity; gives version, writer and body.
    pub(crate) load: String,
    /// Identity, version, writer, body, collection and id; no row if there is one of this identity.
    pub(crate) insert: String,
    /// Identity, version, writer, body, and the version that is expected; no row if another is there.
    pub(crate) update: String,
}

/// What is asked of a database.
pub(crate) struct Request<'a> {
    pub(crate) doing: &'static str,
    pub(crate) text: &'a str,
    /// In the order of their numbers.
    pub(crate) values: Vec<Value<'a>>,
}

/// What is bound to a statement.
pub(crate) enum Value<'a> {
    Bytes(&'a [u8]),
    Number(i64),
    Text(&'a str),
}

/// A document as its row holds it.
pub(crate) struct Row {
    pub(crate) version: i64,
    pub(crate) writer: Vec<u8>,
    pub(crate) body: String,
}

/// Makes sure that the table is there, and is one of documents.
pub(crate) async fn look(rows: &impl Rows) -> Result<(), StoreError> {
    let values = vec![Value::Bytes(&[])];
    let request =
        Request { doing: "looking at the table of documents", text: &rows.statements().load, values };
    rows.fetch(request).await.map(drop)
}

/// What stands under the key.
pub(crate) async fn load<R: Rows>(rows: &R, key: &Key) -> Result<Option<Document>, StoreError> {
    let values = vec![Value::Bytes(key.identity().as_bytes())];
    let request = Request { doing: "loading a document", text: &rows.statements().load, values };
    let row = rows.fetch(request).await?;
    row.map(|row| document(R::STORE, key, R::read(&row)?)).transpose()
}

/// Writes the document if the stored version is the expected one.
pub(crate) async fn put<R: Rows>(
    rows: &R,
    key: &Key,
    expected: Option<Version>,
    document: &Document,
) -> Result<Put, StoreError> {
    let (writer, collection, id) = (document.writer.to_be_bytes(), key.scope(), key.id());
    let mut values = vec![
        Value::Bytes(key.identity().as_bytes()),
        Value::Number(number(document.version)),
        Value::Bytes(&writer),
        Value::Text(&document.json),
    ];
    let Statements { insert, update, .. } = rows.statements();
    let text = if let Some(version) = expected {
        values.push(Value::Number(number(version)));
        update
    } else {
        values.extend([Value::Text(&collection), Value::Text(&id)]);
        insert
    };
    match rows.fetch(Request { doing: "writing a document", text, values }).await? {
        Some(_) => Ok(Put::Written),
        None => load(rows, key).await.map(Put::Lost),
    }
}

/// A version as databases hold it.
fn number(version: Version) -> i64 {
    version.get().cast_signed()
}

/// The document that a row of this key holds.
fn document(store: &'static str, key: &Key, row: Row) -> Result<Document, StoreError> {
    let version = u64::try_from(row.version).ok().and_then(Version::new);
    let writer = row.writer.as_slice().try_into().map(u128::from_be_bytes).ok();
    let read = || Some(Document { version: version?, writer: writer?, json: row.body });
    read().ok_or_else(|| {
        let context = format!("reading the document `{key}`: Semel did not write this row");
        StoreError::new(StoreErrorKind::Corrupt, store, context)
    })
}
