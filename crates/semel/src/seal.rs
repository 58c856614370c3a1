//! Results encrypted before they reach the store.
//!
//! 1. `Once::builder().sealed_with(keyring)` (feature `seal`) seals every result, of handlers, of effects and of
//!    operators, with XChaCha20-Poly1305 and a random nonce of 24 bytes. It is compressed before. What a handler or an
//!    effect says when it fails is sealed, too: it is as much about users as a result is. So are the documents of
//!    [`Once::documents`](crate::Once::documents).
//! 2. A seal names its key and is bound to its record: a row that was copied to another key, a flipped bit, and a
//!    result put in the place of an error do not open.
//! 3. What does not open is an error of the kind [`Sealed`](crate::ErrorKind::Sealed), which names the key that it needs
//!    and what to do, and nothing of the content. It is not served, and the call does not run again. A failure whose text
//!    does not open is still that failure.
//! 4. The first key of a [`Keyring`] seals, the others open what was sealed before: add the new key in front, and take
//!    the old one out when the retention has passed since.
//! 5. What was written before sealing was switched on stays readable, unless `Keyring::refuse_plain` says otherwise.
//! 6. Keys are wiped from memory when the keyring is dropped, and are in no message, log line or `Debug`.
#![cfg_attr(
    feature = "seal",
    doc = r#"
```
use semel::{MemoryStore, Once, seal::{KeyId, Keyring, SealKey}};
# let from_the_environment = "2f1b6c0d9a8e7f60514233241506f7e8d9cab0a19283746556473829100a1b2c";
let this_year = SealKey::from_text(from_the_environment)?; // 64 hexadecimal digits, or base64
let last_year = [7; 32];
let keyring = Keyring::new(KeyId::new("2026")?, this_year).and_open(KeyId::new("2025")?, last_year)?;
let once = Once::builder().sealed_with(keyring).store(MemoryStore::new());
# tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
let card: String = once.call("tokenise", "card-1").run(async |_| Ok("tok_4242".to_owned())).await?;
let again: String = once.call("tokenise", "card-1").run(async |_| Ok(String::new())).await?;
assert_eq!((card.as_str(), again.as_str()), ("tok_4242", "tok_4242"));
# Ok::<(), semel::Error>(()) }).unwrap();
# Ok::<(), Box<dyn std::error::Error>>(())
```
"#
)]
//!
//! It does not hide keys, the names of effects, times, attempts, statuses, how long a result is, or the hash of the
//! payload: do not put secrets into keys. It does not notice when a row is set back to an older value of its own, which
//! whoever can write to the store can do. And it does not keep keys: that is your vault's.

mod envelope;
#[cfg(feature = "seal")]
mod error;
#[cfg(feature = "seal")]
mod key;
#[cfg(feature = "seal")]
mod keyring;
mod unopened;
#[cfg(not(feature = "seal"))]
mod without;

pub use self::envelope::KEY_ID_BYTES_MAX;
#[cfg(not(feature = "seal"))]
use self::without::Keyring;
#[cfg(feature = "seal")]
pub use self::{
    error::KeyringError,
    key::{KeyId, SealKey},
    keyring::{KEYS_MAX, Keyring},
};

pub(crate) use self::unopened::Unopened;

use crate::codec::SEALED;
use semel_core::{
    key::Key,
    record::{Record, State},
    sabotage,
};
use std::{borrow::Cow, sync::Arc};

/// What results pass through on their way to the store and back.
#[derive(Clone, Default, Debug)]
pub(crate) struct Seal {
    keyring: Option<Arc<Keyring>>,
}

impl Seal {
    #[cfg(feature = "seal")]
    pub(crate) fn with(keyring: Keyring) -> Self {
        Self { keyring: Some(Arc::new(keyring)) }
    }

    /// An encoded result as it is stored under this key.
    pub(crate) fn close(&self, key: &Key, encoded: Vec<u8>) -> Vec<u8> {
        match &self.keyring {
            Some(keyring) if !sabotage::is_on("seal_writes_plain") => keyring.seal(key, &encoded),
            Some(_) | None => encoded,
        }
    }

    /// The encoded result in what is stored under this key.
    pub(crate) fn open<'a>(&self, key: &Key, stored: &'a [u8]) -> Result<Cow<'a, [u8]>, Unopened> {
        if stored.first() != Some(&SEALED) {
            let is_refused = self.keyring.as_ref().is_some_and(|it| it.refuses_plain());
            return if is_refused { Err(Unopened::Plain) } else { Ok(Cow::Borrowed(stored)) };
        }
        let (key_id, sealed) = envelope::of_bytes(stored).ok_or(Unopened::Malformed)?;
        self.keyring(key_id)?.open(key, key_id, sealed).map(Cow::Owned)
    }

    /// What a handler or an effect said, as it is stored under this key.
    pub(crate) fn close_text(&self, key: &Key, text: String) -> String {
        match &self.keyring {
            Some(keyring) if !sabotage::is_on("seal_leaves_errors_plain") => keyring.seal_text(key, &text),
            Some(_) | None => text,
        }
    }

    /// What was said, in what is stored under this key; why it cannot be told, if it cannot.
    pub(crate) fn open_text(&self, key: &Key, stored: String) -> String {
        let Some((key_id, sealed)) = envelope::of_text(&stored) else { return stored };
        let opened = self.keyring(key_id).and_then(|it| it.open_text(key, key_id, sealed));
        opened.unwrap_or_else(|unopened| format!("what was said cannot be opened: {unopened}"))
    }

    /// The record with what was said in plain text.
    pub(crate) fn readable(&self, key: &Key, mut record: Record) -> Record {
        match &mut record.state {
            State::Failed { error, .. } | State::Pending { error: Some(error), .. } => {
                *error = self.open_text(key, std::mem::take(error));
            }
            State::Pending { error: None, .. } | State::InProgress { .. } | State::Completed(_) => {}
        }
        record
    }

    fn keyring(&self, key_id: &str) -> Result<&Keyring, Unopened> {
        self.keyring.as_deref().ok_or_else(|| Unopened::NoKeyring { key_id: key_id.to_owned() })
    }
}
