//! Keys by their names, and what they do: the only code that encrypts.

use super::{
    Unopened,
    envelope::{KEY_ID_BYTES_MAX, MARK},
    error::KeyringError,
    key::{KeyId, SealKey},
};
use crate::codec::SEALED;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use chacha20poly1305::{AeadInOut as _, KeyInit as _, Tag, XChaCha20Poly1305, XNonce};
use semel_core::{key::Key, record::ERROR_BYTES_MAX, sabotage};
use std::{fmt, str::FromStr};

/// Most keys that one keyring has.
pub const KEYS_MAX: usize = 64;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// Longest text that is sealed, in bytes; a longer one is cut at a character, so that it fits where errors are kept.
const TEXT_BYTES_MAX: usize =
    (ERROR_BYTES_MAX - MARK.len() - KEY_ID_BYTES_MAX - 1) * 3 / 4 - NONCE_BYTES - TAG_BYTES;

/// What a seal is for: a result put in the place of an error does not open.
#[derive(Clone, Copy)]
enum Purpose {
    Result = 1,
    Error = 2,
}

/// The keys that results are sealed with and opened by. Its `Debug` shows their names only.
///
/// ```
/// use semel::seal::{KeyId, Keyring};
/// let keyring = Keyring::new(KeyId::new("2026")?, [7; 32]).and_open(KeyId::new("2025")?, [8; 32])?;
/// assert_eq!(format!("{keyring:?}"), "Keyring { seals: \"2026\", opens: [\"2025\"], refuses_plain: false }");
/// # Ok::<(), semel::seal::KeyringError>(())
/// ```
#[derive(Clone)]
pub struct Keyring {
    /// The first one seals. Each cipher wipes its key when it is dropped.
    keys: Vec<(KeyId, XChaCha20Poly1305)>,
    refuses_plain: bool,
}

impl Keyring {
    /// Seals with this key, and opens what it sealed.
    pub fn new(id: KeyId, key: impl Into<SealKey>) -> Self {
        Self { keys: vec![(id, cipher(&key.into()))], refuses_plain: false }
    }

    /// Also opens what this key sealed: for rotation.
    pub fn and_open(mut self, id: KeyId, key: impl Into<SealKey>) -> Result<Self, KeyringError> {
        if self.cipher(id.as_str()).is_some() {
            return Err(KeyringError::IdTaken { id });
        }
        if self.keys.len() == KEYS_MAX {
            return Err(KeyringError::TooMany);
        }
        self.keys.push((id, cipher(&key.into())));
        Ok(self)
    }

    /// Does not give results that are plain, such as those from before sealing was switched on: they may have been put
    /// there by somebody without a key. Texts of failures are not refused.
    #[must_use]
    pub fn refuse_plain(self) -> Self {
        Self { refuses_plain: true, ..self }
    }

    pub(super) fn refuses_plain(&self) -> bool {
        self.refuses_plain && !sabotage::is_on("refused_plain_is_served")
    }

    /// An encoded result, sealed.
    pub(super) fn seal(&self, key: &Key, encoded: &[u8]) -> Vec<u8> {
        let (id, cipher) = self.first();
        let mut sealed = Vec::with_capacity(2 + id.len() + NONCE_BYTES + encoded.len() + TAG_BYTES);
        sealed.extend([SEALED, id.len() as u8]);
        sealed.extend(id.as_bytes());
        encrypt(cipher, &context(id, key, Purpose::Result), encoded, &mut sealed);
        sealed
    }

    /// The encoded result in what a key of this name sealed.
    pub(super) fn open(&self, key: &Key, id: &str, sealed: &[u8]) -> Result<Vec<u8>, Unopened> {
        self.decrypt(key, id, Purpose::Result, sealed)
    }

    /// A text, sealed.
    pub(super) fn seal_text(&self, key: &Key, text: &str) -> String {
        let (id, cipher) = self.first();
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        let mut sealed = Vec::with_capacity(NONCE_BYTES + text.len() + TAG_BYTES);
        encrypt(cipher, &context(id, key, Purpose::Error), text.as_bytes(), &mut sealed);
        format!("{MARK}{id}:{}", STANDARD_NO_PAD.encode(sealed))
    }

    /// The text in what a key of this name sealed.
    pub(super) fn open_text(&self, key: &Key, id: &str, sealed: &str) -> Result<String, Unopened> {
        let damaged = || Unopened::Damaged { key_id: id.to_owned() };
        let sealed = STANDARD_NO_PAD.decode(sealed).map_err(|_| damaged())?;
        let text = self.decrypt(key, id, Purpose::Error, &sealed)?;
        String::from_utf8(text).map_err(|_| damaged())
    }

    fn decrypt(&self, key: &Key, id: &str, purpose: Purpose, sealed: &[u8]) -> Result<Vec<u8>, Unopened> {
        let key_id = || id.to_owned();
        let cipher = self.cipher(id).ok_or_else(|| Unopened::UnknownKey { key_id: key_id() })?;
        decrypted(cipher, &context(id, key, purpose), sealed)
            .ok_or_else(|| Unopened::Damaged { key_id: key_id() })
    }

    fn first(&self) -> (&str, &XChaCha20Poly1305) {
        let (id, cipher) = self.keys.first().expect("a keyring begins with a key");
        (id.as_str(), cipher)
    }

    fn cipher(&self, id: &str) -> Option<&XChaCha20Poly1305> {
        self.keys.iter().find(|(it, _)| it.as_str() == id).map(|(_, cipher)| cipher)
    }
}

fn cipher(key: &SealKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.as_bytes().into())
}

/// What a seal is bound to: the key's name, the record, and what it is for. Each part has a length that can be told.
fn context(id: &str, key: &Key, purpose: Purpose) -> Vec<u8> {
    let mut context = vec![SEALED, id.len() as u8];
    context.extend(id.as_bytes());
    if !sabotage::is_on("seal_ignores_identity") {
        context.extend(key.identity().as_bytes());
    }
    context.push(purpose as u8);
    context
}

/// Appends the nonce, what is encrypted, and the tag.
fn encrypt(cipher: &XChaCha20Poly1305, context: &[u8], plain: &[u8], out: &mut Vec<u8>) {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).expect("the operating system has random numbers");
    out.extend(nonce);
    let start = out.len();
    out.extend(plain);
    let tag = cipher
        .encrypt_inout_detached(&nonce.into(), context, out[start..].as_mut().into())
        .expect("a result is shorter than 256 GB");
    out.extend(tag);
}

fn decrypted(cipher: &XChaCha20Poly1305, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let (encrypted, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
    let mut plain = encrypted.to_vec();
    let (nonce, tag) = (XNonce::from(*nonce), Tag::from(*tag));
    cipher.decrypt_inout_detached(&nonce, context, plain.as_mut_slice().into(), &tag).ok()?;
    Some(plain)
}

/// Reads `2026:KEY,2025:KEY`: names and keys as [`KeyId::new`] and [`SealKey::from_text`] read them. The first one
/// seals.
///
/// ```
/// use semel::seal::Keyring;
/// # let (this_year, last_year) = ("n0Dm4d7oRk3cJrHmJc3cUX9Pi0Pqf9C8kBEdqZ5rrbI=", "00".repeat(32));
/// let keyring: Keyring = format!("2026:{this_year},2025:{last_year}").parse()?;
/// assert!("2026".parse::<Keyring>().is_err());
/// # Ok::<(), semel::seal::KeyringError>(())
/// ```
impl FromStr for Keyring {
    type Err = KeyringError;

    fn from_str(text: &str) -> Result<Self, KeyringError> {
        let mut entries = text.split(',').enumerate().map(|(at, entry)| {
            let (id, key) = entry.split_once(':').ok_or(KeyringError::NoColon { entry: at + 1 })?;
            let id = KeyId::new(id.trim())?;
            let key = SealKey::from_text(key)
                .map_err(|why| KeyringError::Key { id: id.clone(), why: Box::new(why) })?;
            Ok((id, key))
        });
        let (id, key) = entries.next().expect("a split has a first part")?;
        entries.try_fold(Self::new(id, key), |keyring, entry| {
            let (id, key) = entry?;
            keyring.and_open(id, key)
        })
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.keys.iter().map(|(id, _)| id.as_str()).collect();
        f.debug_struct("Keyring")
            .field("seals", &names[0])
            .field("opens", &&names[1..])
            .field("refuses_plain", &self.refuses_plain)
            .finish()
    }
}
