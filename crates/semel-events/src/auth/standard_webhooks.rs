//! Standard Webhooks: checking and signing.
//!
//! 1. `webhook-id`, `webhook-timestamp` and `webhook-signature`; what Svix called them before (`svix-…`) is read as
//!    well, but not a mixture.
//! 2. What is signed is `id.timestamp.body`. An id or a time with a `.` is refused before anything is computed,
//!    because `.` is where they end.
//! 3. One of the signatures must be right, by one of the secrets. Only `v1` counts: `v1a` has another kind of key.
//! 4. What is sent is signed with every secret, so that the receiver can change its own in its own time.

use super::{BadSecret, Refused, SIGNATURES_MAX, Secrets, SignatureError, check_time, only};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use semel_core::time::Timestamp;

/// Longest id of a message, in bytes.
pub const ID_BYTES_MAX: usize = 512;

const PREFIX: &str = "whsec_";
const NAMES: [[&str; 3]; 2] = [
    ["webhook-id", "webhook-timestamp", "webhook-signature"],
    ["svix-id", "svix-timestamp", "svix-signature"],
];

/// Checks and signs by Standard Webhooks.
///
/// ```
/// use semel_events::auth::standard_webhooks::StandardWebhooks;
/// use semel_core::time::Timestamp;
/// let webhooks = StandardWebhooks::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])?;
/// let now = Timestamp::from_millis(1_614_265_330_000);
/// let headers = webhooks.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", now, br#"{"test": 2432232314}"#).expect("an id");
/// assert_eq!(headers["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
/// webhooks.verify(&headers, br#"{"test": 2432232314}"#, now)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StandardWebhooks(Secrets);

impl StandardWebhooks {
    /// With these secrets, as base64, with or without `whsec_` in front.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Result<Self, BadSecret> {
        let decoded = |secret: &str| {
            let base64 = secret.strip_prefix(PREFIX).unwrap_or(secret);
            STANDARD.decode(base64).map_err(|_| BadSecret::Base64)
        };
        Secrets::new(secrets.into_iter().map(decoded)).map(Self)
    }

    /// Checks that a request was signed with one of the secrets, and not long ago.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<(), Refused> {
        let names = NAMES.iter().find(|[id, ..]| headers.contains_key(*id)).ok_or(SignatureError::Missing)?;
        let [id, time, signatures] = names.map(|it| only(headers, it));
        let (id, time, signatures) = (id?, time?, signatures?);
        if !is_id(id) {
            return Err(SignatureError::Malformed.into());
        }
        check_time(time, now)?;
        let signatures: Vec<&str> = signatures.split(' ').collect();
        if signatures.len() > SIGNATURES_MAX {
            return Err(SignatureError::Malformed.into());
        }
        let message = [id.as_bytes(), b".", time.as_bytes(), b".", body];
        let is_right = |signature: &&str| {
            let base64 = signature.strip_prefix("v1,");
            let bytes = base64.and_then(|it| STANDARD.decode(it).ok());
            bytes.is_some_and(|it| self.0.is_signature(&message, &it))
        };
        // All of them are tried, too.
        let right = signatures.iter().filter(|it| is_right(it)).count();
        if right > 0 { Ok(()) } else { Err(SignatureError::Wrong.into()) }
    }

    /// The three headers for a message of this id, sent now; nothing if the id cannot be signed.
    pub fn sign(&self, id: &str, now: Timestamp, body: &[u8]) -> Option<HeaderMap> {
        is_id(id).then_some(())?;
        let time = (now.as_millis() / 1_000).to_string();
        let message = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
        let signature = |key: &hmac::Key| format!("v1,{}", STANDARD.encode(hmac::sign(key, &message)));
        let signatures: Vec<String> = self.0.0.iter().map(signature).collect();
        let values = [id, &time, &signatures.join(" ")];
        let mut headers = HeaderMap::with_capacity(values.len());
        for (name, value) in NAMES[0].into_iter().zip(values) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).ok()?);
        }
        Some(headers)
    }
}

/// Whether it can be told where the id ends.
fn is_id(id: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|it| it.is_ascii_graphic() && it != b'.')
}
