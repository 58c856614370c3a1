//! What is known about services that remember an idempotency key.
//!
//! 1. A key is made from an effect's identity alone, so every attempt of a call sends the same one.
//! 2. It fits the provider: its length, and its form where the provider insists on one.
//! 3. A provider remembers a key for a while. Past that, sending it again is a new request, so a keyed effect
//!    is not sent again blindly.
//!
//! It does not send anything: the handler does, with the key it is given.

use semel_core::key::Identity;
use std::{
    fmt::{self, Write as _},
    time::Duration,
};

/// Fewest characters of a key: 128 bits, below which two effects might share one.
const KEY_BYTES_MIN: usize = 32;

/// A service that remembers idempotency keys.
///
/// ```
/// use semel::{OnMismatch, Provider};
/// use std::time::Duration;
/// const BANK: Provider = Provider::custom("Bank-Request-Id", Duration::from_secs(3_600))
///     .key_bytes_max(38)
///     .on_mismatch(OnMismatch::Replays);
/// assert_eq!(BANK.header_name(), "Bank-Request-Id");
/// assert_eq!(Provider::STRIPE.retention().as_secs(), 24 * 60 * 60);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Provider {
    header_name: &'static str,
    key_bytes_max: usize,
    retention: Duration,
    on_mismatch: OnMismatch,
    form: Form,
}

/// What a provider does with a known key and another request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnMismatch {
    /// It refuses the request.
    Refuses,
    /// It answers as it answered the first request: a changed request is silently not carried out.
    Replays,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Hex,
    Uuid,
}

impl Provider {
    /// Stripe's API v1: `Idempotency-Key` of up to 255 characters, remembered for 24 hours, with the first
    /// answer whatever it was, an error included; another request under the key is refused.
    pub const STRIPE: Self = Self::custom("Idempotency-Key", Duration::from_hours(24));

    /// Stripe's API v2: `Idempotency-Key` of up to 255 characters, remembered for 30 days; a failed request is
    /// carried out again; another request under the key is refused.
    pub const STRIPE_V2: Self = Self::custom("Idempotency-Key", Duration::from_hours(30 * 24));

    /// Resend: `Idempotency-Key` of up to 256 characters, remembered for 24 hours; another request under the
    /// key is refused.
    pub const RESEND: Self = Self::custom("Idempotency-Key", Duration::from_hours(24)).key_bytes_max(256);

    /// Any other: the header its key goes in, and how long it remembers one. It is taken to accept keys of 255
    /// characters and to refuse another request under a known key.
    pub const fn custom(header_name: &'static str, retention: Duration) -> Self {
        let (on_mismatch, form) = (OnMismatch::Refuses, Form::Hex);
        Self { header_name, key_bytes_max: 255, retention, on_mismatch, form }
    }

    /// The longest key it accepts.
    ///
    /// # Panics
    ///
    /// Below 32 characters, in which no two effects' keys are sure to differ.
    #[must_use]
    pub const fn key_bytes_max(mut self, bytes: usize) -> Self {
        assert!(bytes >= KEY_BYTES_MIN, "a key of fewer than 32 characters does not tell effects apart");
        self.key_bytes_max = bytes;
        self
    }

    /// It insists on keys that are UUIDs.
    #[must_use]
    pub const fn uuid_keys(mut self) -> Self {
        self.form = Form::Uuid;
        self
    }

    /// What it does with a known key and another request.
    #[must_use]
    pub const fn on_mismatch(mut self, on_mismatch: OnMismatch) -> Self {
        self.on_mismatch = on_mismatch;
        self
    }

    /// The header that the key goes in.
    pub const fn header_name(&self) -> &'static str {
        self.header_name
    }

    /// How long it remembers a key.
    pub const fn retention(&self) -> Duration {
        self.retention
    }

    /// Whether it notices another request under a known key.
    pub const fn refuses_mismatch(&self) -> bool {
        matches!(self.on_mismatch, OnMismatch::Refuses)
    }

    /// The key of the effect with this identity.
    pub(crate) fn key_for(&self, identity: &Identity) -> IdempotencyKey {
        let hex = identity.to_string();
        let value = match self.form {
            Form::Hex => hex[..hex.len().min(self.key_bytes_max)].to_owned(),
            Form::Uuid => uuid(identity),
        };
        IdempotencyKey { value, header_name: self.header_name }
    }
}

/// A UUID of version 8, which is for hashes of one's own, from the identity's first 16 bytes.
fn uuid(identity: &Identity) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&identity.as_bytes()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
    }
    text
}

/// A key to send with a request, so that sending it again is no second request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IdempotencyKey {
    value: String,
    header_name: &'static str,
}

impl IdempotencyKey {
    /// The key.
    pub fn as_str(&self) -> &str {
        &self.value
    }

    /// The header that the provider expects it in.
    pub fn header_name(&self) -> &'static str {
        self.header_name
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value)
    }
}

impl AsRef<str> for IdempotencyKey {
    fn as_ref(&self) -> &str {
        &self.value
    }
}

impl From<IdempotencyKey> for String {
    fn from(key: IdempotencyKey) -> Self {
        key.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::key::Key;

    #[test]
    fn a_key_is_stable_and_fits_the_provider() {
        let key = Key::new("pay", 1).unwrap().effect("charge").unwrap();
        let check = |provider: Provider, length| {
            let derived = provider.key_for(key.identity());
            assert_eq!(derived, provider.key_for(key.identity()));
            assert_eq!(derived.as_str().len(), length);
            assert!(derived.as_str().len() <= provider.key_bytes_max);
        };
        check(Provider::STRIPE, 64);
        check(Provider::RESEND, 64);
        check(Provider::STRIPE.key_bytes_max(38), 38);
        check(Provider::STRIPE.uuid_keys(), 36);
    }

    #[test]
    fn a_uuid_says_its_version_and_variant() {
        let text = uuid(&Identity::from_bytes([0xff; 32]));
        assert_eq!(text, "ffffffff-ffff-8fff-bfff-ffffffffffff");
    }
}
