//! A key in a header, or a name and a password: what EventBridge's API destinations send.
//!
//! 1. What is presented is compared with every credential that may be right, in a time that tells nothing.
//! 2. The header is there once.
//!
//! Whoever sees such a request can send another: use them over TLS, and signatures where the sender has them.

use super::{BadSecret, HEADER_BYTES_MAX, Refused, SECRET_BYTES_MIN, SECRETS_MAX};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, header::AUTHORIZATION};
use ring::hmac;

/// Why credentials are not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The header is not there.
    #[error("the header with the credentials is missing")]
    Missing,
    /// The header is there twice, is too long, or is none of that kind.
    #[error("the header with the credentials cannot be read in one way only")]
    Malformed,
    /// They are not those.
    #[error("the credentials are wrong")]
    Wrong,
}

/// Credentials of which any may be right. Shows nothing of them.
#[derive(Clone)]
pub struct Credentials {
    header: HeaderName,
    scheme: Option<&'static str>,
    /// Each as a key, and what that key makes of itself: comparing those takes the same time for every text.
    known: Vec<(hmac::Key, hmac::Tag)>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({}, {})", self.header, self.known.len())
    }
}

impl Credentials {
    /// One of these keys in this header.
    pub fn api_key<'a>(
        header: HeaderName,
        keys: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, BadSecret> {
        let keys = keys.into_iter().map(|it| (it.len(), it.as_bytes().to_vec()));
        Self::new(header, None, keys)
    }

    /// One of these tokens as `Authorization: Bearer …`.
    pub fn bearer<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Result<Self, BadSecret> {
        let tokens = tokens.into_iter().map(|it| (it.len(), it.as_bytes().to_vec()));
        Self::new(AUTHORIZATION, Some("bearer"), tokens)
    }

    /// One of these names with its password as `Authorization: Basic …`.
    pub fn basic<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, BadSecret> {
        let encoded = |(name, password): (&str, &str)| {
            (password.len(), STANDARD.encode(format!("{name}:{password}")).into_bytes())
        };
        Self::new(AUTHORIZATION, Some("basic"), pairs.into_iter().map(encoded))
    }

    /// Of the length of what is secret in each, and what is sent.
    fn new(
        header: HeaderName,
        scheme: Option<&'static str>,
        secrets: impl Iterator<Item = (usize, Vec<u8>)>,
    ) -> Result<Self, BadSecret> {
        let known = |(length, text): (usize, Vec<u8>)| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &text);
            let tag = hmac::sign(&key, &text);
            (length >= SECRET_BYTES_MIN).then_some((key, tag)).ok_or(BadSecret::Short)
        };
        let known: Vec<_> = secrets.map(known).collect::<Result<_, _>>()?;
        let is_some = (1..=SECRETS_MAX).contains(&known.len());
        if is_some { Ok(Self { header, scheme, known }) } else { Err(BadSecret::Count) }
    }

    /// Checks that a request has one of them.
    pub fn verify(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let mut all = headers.get_all(&self.header).iter();
        let value = match (all.next(), all.next()) {
            (None, _) => return Err(CredentialsError::Missing.into()),
            (Some(one), None) if one.len() <= HEADER_BYTES_MAX => one.as_bytes(),
            (Some(_), _) => return Err(CredentialsError::Malformed.into()),
        };
        let presented = match self.scheme {
            None => value,
            Some(scheme) => {
                let (found, rest) =
                    value.split_at_checked(scheme.len()).ok_or(CredentialsError::Malformed)?;
                let rest = rest.strip_prefix(b" ").filter(|_| found.eq_ignore_ascii_case(scheme.as_bytes()));
                rest.ok_or(CredentialsError::Malformed)?.trim_ascii()
            }
        };
        let is_right =
            |(key, tag): &&(hmac::Key, hmac::Tag)| hmac::verify(key, presented, tag.as_ref()).is_ok();
        // All of them are tried, so that the time does not tell which one was right.
        if self.known.iter().filter(is_right).count() > 0 {
            Ok(())
        } else {
            Err(CredentialsError::Wrong.into())
        }
    }
}
