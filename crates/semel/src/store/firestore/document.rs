//! How a record lies in a document, and the requests and answers about it.
//!
//! It does not talk to Firestore.

use super::{STORE, TTL_MARGIN, moment};
use crate::store::unreadable::unreadable;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use semel_core::{
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
    time::Timestamp,
    wire,
};
use serde_json::{Value, json};

/// Which collection.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) project: String,
    pub(super) database: String,
    pub(super) collection: String,
}

impl Place {
    /// The resource name of the database.
    pub(super) fn database(&self) -> String {
        format!("projects/{}/databases/{}", self.project, self.database)
    }

    /// The resource name of the database's documents.
    pub(super) fn documents(&self) -> String {
        format!("{}/documents", self.database())
    }

    /// The last part of the collection's path, which indexes and TTL policies go by.
    pub(super) fn collection_group(&self) -> &str {
        self.collection.rsplit('/').next().unwrap_or(&self.collection)
    }

    fn name(&self, key: &Key) -> String {
        format!("{}/{}/{}", self.documents(), self.collection, key.identity())
    }

    pub(super) fn batch_get(&self, key: &Key) -> Value {
        json!({ "documents": [self.name(key)] })
    }

    /// The request of a swap; `None` if no document can have this fence.
    pub(super) fn commit(&self, key: &Key, expected: Option<Fence>, record: &Record) -> Option<Value> {
        let precondition = match expected {
            None => json!({ "exists": false }),
            Some(_) if is_on("firestore_fence_ignored") => json!({ "exists": true }),
            Some(fence) => json!({ "updateTime": moment::written(fence.get())? }),
        };
        let after =
            if is_on("firestore_equal_write_keeps_fence") { 0 } else { expected.map_or(0, Fence::get) };
        let mut fields = json!({
            "record": { "bytesValue": STANDARD.encode(wire::encode(key, record)) },
            "after": { "integerValue": after.to_string() },
            "key": { "stringValue": key.to_string() },
            "status": { "stringValue": record.status().as_str() },
        });
        if let Some(ttl) = ttl(record) {
            fields["expires_at"] = json!({ "timestampValue": ttl });
        }
        let document = json!({ "name": self.name(key), "fields": fields });
        Some(json!({ "writes": [{ "update": document, "currentDocument": precondition }] }))
    }

    /// The fence that a commit was given.
    pub(super) fn written(&self, answer: &Value) -> Result<Fence, StoreError> {
        let fence = fence_of(&answer["writeResults"][0]);
        fence.ok_or_else(|| self.unreadable("swap a record: the answer tells no update time in microseconds"))
    }

    /// What a `batchGet` of one document found.
    pub(super) fn found(&self, key: &Key, answer: &Value) -> Result<Option<Stored>, StoreError> {
        let entries = answer.as_array().map(Vec::as_slice).unwrap_or_default();
        if entries.iter().any(|it| it.get("missing").is_some()) {
            return Ok(None);
        }
        match entries.iter().find_map(|it| it.get("found")) {
            Some(document) => self.stored(key, document).map(Some),
            None => {
                Err(self
                    .unreadable("load a record: the answer tells neither a document nor that there is none"))
            }
        }
    }

    fn stored(&self, key: &Key, document: &Value) -> Result<Stored, StoreError> {
        let fence = fence_of(document);
        let fence = fence.ok_or_else(|| self.corrupt("its update time is no microsecond"))?;
        let bytes =
            document["fields"]["record"]["bytesValue"].as_str().and_then(|it| STANDARD.decode(it).ok());
        let bytes = bytes.ok_or_else(|| {
            self.corrupt(
                "its field `record` is none, so something else wrote it; use a collection of its own",
            )
        })?;
        let doing = || format!("read a record of collection `{}`", self.collection);
        let record = wire::decode_record(key, &bytes).map_err(|error| unreadable(STORE, doing(), error))?;
        Ok(Stored { fence, record })
    }

    /// Something answered that is not Firestore, or not as it is known here: nobody can tell what happened.
    fn unreadable(&self, what: &str) -> StoreError {
        let context = format!("{what} (collection `{}`)", self.collection);
        StoreError::new(StoreErrorKind::Unavailable, STORE, context)
    }

    fn corrupt(&self, what: &str) -> StoreError {
        let context = format!("read a document of collection `{}`: {what}", self.collection);
        StoreError::new(StoreErrorKind::Corrupt, STORE, context)
    }

    pub(super) fn setup_gcloud(&self) -> String {
        let group = quoted(self.collection_group());
        let whose = format!(
            "--collection-group={group} \\\n    --database={} --project={}",
            quoted(&self.database),
            quoted(&self.project)
        );
        let exempt =
            |field| format!("gcloud firestore indexes fields update {field} --disable-indexes {whose}\n");
        let ttl = format!("gcloud firestore fields ttls update expires_at --enable-ttl {whose}\n");
        let fields = ["record", "after", "expires_at", "key", "status"];
        fields.into_iter().map(exempt).chain([ttl]).collect()
    }
}

/// What time it was for Firestore when it answered.
pub(super) fn time_of(answer: &Value) -> Option<Timestamp> {
    let told = match answer {
        Value::Array(entries) => entries.iter().find_map(|it| it.get("readTime")),
        other => other.get("commitTime"),
    };
    let micros = told.and_then(Value::as_str).and_then(moment::read)?;
    Some(Timestamp::from_millis(micros / 1_000))
}

fn fence_of(document: &Value) -> Option<Fence> {
    document["updateTime"].as_str().and_then(moment::read).and_then(Fence::new)
}

/// When Firestore may remove it; `None` if it never expires, or beyond what Firestore can write.
fn ttl(record: &Record) -> Option<String> {
    if record.expires_at == Timestamp::NEVER {
        return None;
    }
    moment::written((record.expires_at + TTL_MARGIN).as_millis().checked_mul(1_000)?)
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
