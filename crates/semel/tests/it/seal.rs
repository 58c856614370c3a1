//! Results at rest: nobody without a key reads them, and nobody with one is given another's.

mod errors;
mod files;
mod keys;
mod opening;
mod results;

use semel::{
    Call, ErrorKind, Key, MemoryStore, Once, Record, State, Store as _, Stored, Swap,
    seal::{KeyId, Keyring},
};
use semel_core::record::Body;
use std::sync::Arc;

/// A text that must not be found where it should be sealed.
const CANARY: &str = "canary-4242-4242-4242";

/// A keyring of one key, which is this byte over and over.
fn keyring(name: &str, byte: u8) -> Keyring {
    Keyring::new(KeyId::new(name).unwrap(), [byte; 32])
}

/// A store, to look into and to tamper with.
struct Vault(Arc<MemoryStore>);

impl Vault {
    fn new() -> Self {
        Self(Arc::new(MemoryStore::new()))
    }

    fn sealed_with(&self, keyring: Keyring) -> Once {
        Once::builder().sealed_with(keyring).from_store(self.0.clone())
    }

    fn plain(&self) -> Once {
        Once::from_store(self.0.clone())
    }

    async fn stored(&self, key: &Key) -> Stored {
        self.0.load(key).await.unwrap().unwrap()
    }

    /// What is stored as the result.
    async fn body(&self, key: &Key) -> Vec<u8> {
        match self.stored(key).await.record.state {
            State::Completed(Body::Kept { bytes, .. }) => bytes,
            other => panic!("there is no result: {other:?}"),
        }
    }

    /// What is stored as the error.
    async fn text(&self, key: &Key) -> String {
        match self.stored(key).await.record.state {
            State::Failed { error, .. } | State::Pending { error: Some(error), .. } => error,
            other => panic!("there is no error: {other:?}"),
        }
    }

    /// Writes as somebody does who can write to the store.
    async fn put(&self, key: &Key, record: &Record) {
        let fence = self.0.load(key).await.unwrap().map(|it| it.fence);
        assert!(matches!(self.0.swap(key, fence, record).await, Ok(Swap::Won(_))));
    }

    /// Puts these bytes in the place of a result.
    async fn put_body(&self, key: &Key, bytes: Vec<u8>) {
        let mut record = self.stored(key).await.record;
        let State::Completed(Body::Kept { bytes: stored, .. }) = &mut record.state else {
            panic!("there is no result")
        };
        *stored = bytes;
        self.put(key, &record).await;
    }
}

fn key(scope: &str) -> Key {
    Key::new(scope, 1).unwrap()
}

/// Completes the call under [`key`] with the canary.
async fn completed(once: &Once, scope: &str) {
    once.call_key(key(scope)).run(async |_| Ok(CANARY.to_owned())).await.unwrap();
}

/// Calls again, and must get an error that says nothing of the result; gives what it says.
async fn refused(call: Call) -> String {
    let again = call.run(async |_| -> Result<String, _> { panic!("it ran again") });
    let error = again.await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Sealed, false), "{error}");
    let (told, shown) = (error.to_string(), format!("{error:?}"));
    assert!(!told.contains(CANARY) && !shown.contains(CANARY), "{shown}");
    told
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|it| it == needle.as_bytes())
}
