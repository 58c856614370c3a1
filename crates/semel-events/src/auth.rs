//! Who sent it: checks over the raw bytes, before anything of them is believed.
//!
//! 1. Every check is a pure function of headers, body, secrets and the time. What must be fetched (keys,
//!    certificates) is an argument, and where it may be fetched from is checked first.
//! 2. Every comparison with a secret takes the same time wherever the difference is.
//! 3. A header that is there twice is refused: readers disagree on which one counts.
//! 4. Several secrets may be right at once, so that they can be changed while events come in.
//! 5. Whoever is refused sees one text, whatever the cause. The cause is for the log.
//!
//! It does not stop replays within the tolerated time: the event's id does.

pub mod credentials;
pub mod github;
pub mod jwt;
pub mod sns;
pub mod standard_webhooks;
pub mod stripe;

use http::HeaderMap;
use ring::hmac;
use semel_core::{sabotage::is_on, time::Timestamp};
use std::time::Duration;

/// How far a signature's time may be from now, in both directions.
pub const TOLERANCE: Duration = Duration::from_mins(5);
/// Most secrets that may be right at once.
pub const SECRETS_MAX: usize = 8;
/// Shortest secret, in bytes.
pub const SECRET_BYTES_MIN: usize = 8;
/// Most signatures of one request.
pub const SIGNATURES_MAX: usize = 16;
/// Longest header that is read here, in bytes.
pub const HEADER_BYTES_MAX: usize = 8 * 1024;

/// The request is refused. What it shows is always the same; its source is the cause, for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the request is not authenticated")]
pub struct Refused(#[source] Cause);

impl Refused {
    /// The cause, for the log. It never holds anything of a secret.
    pub const fn cause(&self) -> Cause {
        self.0
    }
}

impl<T: Into<Cause>> From<T> for Refused {
    fn from(cause: T) -> Self {
        Self(cause.into())
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// By its signature.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// By its token.
    #[error(transparent)]
    Token(#[from] jwt::TokenError),
    /// By its credentials.
    #[error(transparent)]
    Credentials(#[from] credentials::CredentialsError),
    /// By SNS's rules.
    #[error(transparent)]
    Sns(#[from] sns::SnsError),
}

/// Why a signature is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// A header is not there.
    #[error("a header of the signature is missing")]
    Missing,
    /// A header is there twice, is too long, or is not what the scheme says.
    #[error("a header of the signature cannot be read in one way only")]
    Malformed,
    /// It was made too long ago, or will be made.
    #[error("the signature's time is more than {} seconds from now", TOLERANCE.as_secs())]
    Time,
    /// No secret gives any of the signatures.
    #[error("no signature is right")]
    Wrong,
}

/// Why something cannot be a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadSecret {
    /// Too short to be one.
    #[error("a secret has at least {SECRET_BYTES_MIN} bytes")]
    Short,
    /// It should be base64, with or without `whsec_` in front.
    #[error("the secret is not base64")]
    Base64,
    /// There are none, or more than [`SECRETS_MAX`].
    #[error("there are 1 to {SECRETS_MAX} secrets")]
    Count,
}

/// Secrets of which any may be right, the newest first. Shows nothing of them.
#[derive(Clone)]
pub struct Secrets(Vec<hmac::Key>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    fn new<B: AsRef<[u8]>>(
        secrets: impl IntoIterator<Item = Result<B, BadSecret>>,
    ) -> Result<Self, BadSecret> {
        let key = |secret: Result<B, BadSecret>| {
            let secret = secret?;
            let is_long = secret.as_ref().len() >= SECRET_BYTES_MIN;
            is_long.then(|| hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref())).ok_or(BadSecret::Short)
        };
        let keys: Vec<_> = secrets.into_iter().map(key).collect::<Result<_, _>>()?;
        if (1..=SECRETS_MAX).contains(&keys.len()) { Ok(Self(keys)) } else { Err(BadSecret::Count) }
    }

    /// Whether this is the HMAC of the parts, one behind the other, by one of the secrets.
    fn is_signature(&self, parts: &[&[u8]], signature: &[u8]) -> bool {
        let message = parts.concat();
        // All of them are tried, so that the time does not tell which one was right.
        let right = self.0.iter().filter(|key| hmac::verify(key, &message, signature).is_ok()).count();
        right > 0 || is_on("events_any_signature")
    }
}

/// The one value of a header.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, SignatureError> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Err(SignatureError::Missing),
        (Some(one), None) if one.len() <= HEADER_BYTES_MAX => {
            one.to_str().map_err(|_| SignatureError::Malformed)
        }
        (Some(_), _) => Err(SignatureError::Malformed),
    }
}

/// Checks that a time in seconds, as digits, is near enough.
fn check_time(digits: &str, now: Timestamp) -> Result<(), SignatureError> {
    let is_number = (1..=12).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
    let seconds: u64 = is_number.then(|| digits.parse().ok()).flatten().ok_or(SignatureError::Malformed)?;
    let distance = seconds.abs_diff(now.as_millis() / 1_000);
    if distance <= TOLERANCE.as_secs() || is_on("events_signature_never_ages") {
        Ok(())
    } else {
        Err(SignatureError::Time)
    }
}

/// The bytes that these hexadecimal digits write.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |it: &u8| (*it as char).to_digit(16).map(|it| it as u8);
    let pair = |it: &[u8]| Some(digit(&it[0])? << 4 | digit(&it[1])?);
    text.len().is_multiple_of(2).then(|| text.as_bytes().chunks_exact(2).map(pair).collect()).flatten()
}
