//! The keys that tokens are checked with: a JSON Web Key Set.
//!
//! 1. Only RSA keys for signatures are taken. Others may be in the set, and are left aside.
//! 2. A key is found by its `kid`; two of one name are refused.
//!
//! Fetching it, from the configured URL and at most once a minute, is the caller's.

use super::TokenError;
use crate::json::{self, Object};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use serde_json::value::RawValue;

/// Largest set of keys, in bytes.
pub const JWKS_BYTES_MAX: usize = 256 * 1024;
/// Most keys of a set.
pub const JWKS_KEYS_MAX: usize = 64;

/// Why something is no set of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadKeys {
    /// More than [`JWKS_BYTES_MAX`] bytes or [`JWKS_KEYS_MAX`] keys.
    #[error("the set has more than {JWKS_KEYS_MAX} keys or {JWKS_BYTES_MAX} bytes")]
    TooLarge,
    /// No JSON object with a list `keys`.
    #[error("the set is no JSON object with a list `keys`")]
    Malformed,
    /// An RSA key lacks something, or two have one `kid`.
    #[error("a key of the set lacks its `n` or `e`, or has the `kid` of another")]
    Key,
    /// There is no RSA key for signatures in it.
    #[error("the set has no RSA key for signatures")]
    Empty,
}

/// A set of keys.
#[derive(Clone, Debug)]
pub struct Jwks(Vec<Key>);

#[derive(Clone, Debug)]
struct Key {
    id: Box<str>,
    parts: RsaPublicKeyComponents<Vec<u8>>,
}

impl Jwks {
    /// Reads a set as it was fetched.
    pub fn parse(text: &[u8]) -> Result<Self, BadKeys> {
        if text.len() > JWKS_BYTES_MAX {
            return Err(BadKeys::TooLarge);
        }
        let set = Object::read(text).map_err(|_| BadKeys::Malformed)?;
        let list = set.get("keys").ok_or(BadKeys::Malformed)?;
        let list = json::list(list.get().as_bytes()).map_err(|_| BadKeys::Malformed)?;
        if list.len() > JWKS_KEYS_MAX {
            return Err(BadKeys::TooLarge);
        }
        let mut keys: Vec<Key> =
            list.into_iter().filter_map(|it| key(it).transpose()).collect::<Result<_, _>>()?;
        keys.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        match keys.windows(2).any(|pair| pair[0].id == pair[1].id) {
            true => Err(BadKeys::Key),
            false if keys.is_empty() => Err(BadKeys::Empty),
            false => Ok(Self(keys)),
        }
    }

    /// Whether there is a key of this name: if not, a newer set may have it.
    pub fn has(&self, id: &str) -> bool {
        self.0.iter().any(|it| *it.id == *id)
    }

    pub(super) fn verify(&self, id: &str, message: &[u8], signature: &[u8]) -> Result<(), TokenError> {
        let key = self.0.iter().find(|it| *it.id == *id).ok_or(TokenError::UnknownKey)?;
        let verdict = key.parts.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature);
        verdict.map_err(|_| TokenError::Signature)
    }
}

/// An RSA key for signatures; nothing if it is another kind of key.
fn key(value: &RawValue) -> Result<Option<Key>, BadKeys> {
    let key = Object::within(value).ok_or(BadKeys::Malformed)?;
    let is = |name: &str, value: &str| key.text(name).is_none_or(|it| it == value);
    if key.text("kty").is_none_or(|it| it != "RSA") || !is("use", "sig") || !is("alg", "RS256") {
        return Ok(None);
    }
    let number = |name: &str| {
        let bytes = key.text(name).and_then(|it| URL_SAFE_NO_PAD.decode(it.as_bytes()).ok())?;
        let leading = bytes.iter().take_while(|it| **it == 0).count();
        Some(bytes[leading..].to_vec())
    };
    let (id, n, e) = (key.text("kid"), number("n"), number("e"));
    let (Some(id), Some(n), Some(e)) = (id, n, e) else { return Err(BadKeys::Key) };
    Ok(Some(Key { id: (*id).into(), parts: RsaPublicKeyComponents { n, e } }))
}
