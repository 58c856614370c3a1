//! GitHub's signatures.
//!
//! 1. `X-Hub-Signature-256: sha256=…` is the HMAC of the body, by one of the secrets.
//! 2. `X-Hub-Signature`, which is SHA-1, does not count.
//!
//! There is no time in it, so it never ages: replays are stopped by the id of the delivery alone.

use super::{BadSecret, Refused, Secrets, SignatureError, only, unhex};
use http::HeaderMap;

/// Checks GitHub's signatures.
///
/// ```
/// use semel_events::auth::github::Github;
/// let github = Github::new(["It's a Secret to Everybody"])?;
/// let mut headers = http::HeaderMap::new();
/// let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
/// headers.insert("x-hub-signature-256", signature.parse()?);
/// github.verify(&headers, b"Hello, World!")?;
/// assert!(github.verify(&headers, b"Hello, World").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Github(Secrets);

impl Github {
    /// With these secrets of the webhook.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Result<Self, BadSecret> {
        Secrets::new(secrets.into_iter().map(Ok)).map(Self)
    }

    /// Checks that a body was signed with one of the secrets.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Refused> {
        let header = only(headers, "x-hub-signature-256")?;
        let signature = header.strip_prefix("sha256=").and_then(unhex).ok_or(SignatureError::Malformed)?;
        if self.0.is_signature(&[body], &signature) { Ok(()) } else { Err(SignatureError::Wrong.into()) }
    }
}
