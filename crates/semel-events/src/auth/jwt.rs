//! OpenID Connect tokens, as Pub/Sub and Eventarc send them.
//!
//! 1. RS256, whatever the token says: `none`, HS256 and everything else are refused before any key is looked at.
//! 2. The key is one of the given set, found by `kid`. A token that brings its own key, or says where to find one
//!    (`jwk`, `jku`, `x5u`, `x5c`), or has a `crit`, is refused.
//! 3. The signature is checked before any claim is read.
//! 4. `exp` is there and not past; `nbf` and `iat` are not to come; all within [`LEEWAY`].
//! 5. `aud` is the expected one, `iss` one of the expected. If an `email` is expected, it is that and verified.
//!
//! A token may be an hour old and come with every message, so it does not stop replays: the message's id does.

mod keys;

pub use keys::{BadKeys, JWKS_BYTES_MAX, JWKS_KEYS_MAX, Jwks};

use super::Refused;
use crate::json::{self, Object};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, header::AUTHORIZATION};
use semel_core::{sabotage::is_on, time::Timestamp};
use std::{borrow::Cow, time::Duration};

/// Longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// How far the sender's clock may be from ours.
pub const LEEWAY: Duration = Duration::from_mins(1);
/// Who signs the tokens of Pub/Sub and Eventarc.
pub const GOOGLE_ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];
/// Where Google keeps its keys.
pub const GOOGLE_JWKS_URL: &str = "https://www.googleapis.com/oauth2/v3/certs";

/// Why a token is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// There is no `Authorization: Bearer …`.
    #[error("the token is missing")]
    Missing,
    /// It is there twice, is too long, or is no token.
    #[error("the token cannot be read in one way only")]
    Malformed,
    /// Its `alg` is not RS256.
    #[error("the token's `alg` is not RS256")]
    Algorithm,
    /// It brings its own key, or has a `crit`.
    #[error("the token brings a key of its own, or asks for what is not known here")]
    ForeignKey,
    /// Its `kid` is none of the given keys: they may have been changed since they were fetched.
    #[error("the token's `kid` is not among the keys")]
    UnknownKey,
    /// Its signature is wrong.
    #[error("the token's signature is wrong")]
    Signature,
    /// It has no `exp`, or is past it.
    #[error("the token has expired")]
    Expired,
    /// Its `nbf` or `iat` is to come.
    #[error("the token is not valid yet")]
    Early,
    /// Somebody else made it.
    #[error("the token's `iss` is not the expected one")]
    Issuer,
    /// It is for somebody else.
    #[error("the token's `aud` is not the expected one")]
    Audience,
    /// It is not of the expected account, or that is not verified.
    #[error("the token's `email` is not the expected one, or is not verified")]
    Email,
}

/// What a token must say.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Whom it is for.
    pub audience: Box<str>,
    /// Who may have made it.
    pub issuers: Vec<Box<str>>,
    /// The account that sends, if it matters.
    pub email: Option<Box<str>>,
}

impl Expected {
    /// A token by Google for this audience.
    pub fn google(audience: impl Into<Box<str>>) -> Self {
        Self { audience: audience.into(), issuers: GOOGLE_ISSUERS.map(Into::into).into(), email: None }
    }

    /// Of this account.
    #[must_use]
    pub fn email(self, email: impl Into<Box<str>>) -> Self {
        Self { email: Some(email.into()), ..self }
    }

    /// Checks the token of a request.
    pub fn verify(&self, headers: &HeaderMap, keys: &Jwks, now: Timestamp) -> Result<(), Refused> {
        Ok(self.verify_token(bearer(headers)?, keys, now)?)
    }

    fn verify_token(&self, token: &str, keys: &Jwks, now: Timestamp) -> Result<(), TokenError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        if claims.contains('.') {
            return Err(TokenError::Malformed);
        }
        let decode = |it: &str| URL_SAFE_NO_PAD.decode(it).map_err(|_| TokenError::Malformed);
        let (header, claims, signature) = (decode(header)?, decode(claims)?, decode(signature)?);
        let header = Object::read(&header).map_err(|_| TokenError::Malformed)?;
        let key = check_header(&header)?;
        if !is_on("events_token_unverified") {
            keys.verify(&key, signed.as_bytes(), &signature)?;
        }
        let claims = Object::read(&claims).map_err(|_| TokenError::Malformed)?;
        check_times(&claims, now)?;
        self.check_claims(&claims)
    }

    fn check_claims(&self, claims: &Object<'_>) -> Result<(), TokenError> {
        let issuer = claims.text("iss").ok_or(TokenError::Issuer)?;
        if !self.issuers.iter().any(|it| **it == *issuer) {
            return Err(TokenError::Issuer);
        }
        if !audiences(claims).contains(&Cow::Borrowed(&*self.audience)) {
            return Err(TokenError::Audience);
        }
        let Some(expected) = &self.email else { return Ok(()) };
        let is_verified = claims.get("email_verified").is_some_and(|it| it.get() == "true");
        let is_expected = claims.text("email").is_some_and(|it| *it == **expected);
        if is_verified && is_expected { Ok(()) } else { Err(TokenError::Email) }
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, TokenError> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let value = match (all.next(), all.next()) {
        (None, _) => return Err(TokenError::Missing),
        (Some(one), None) if one.len() <= TOKEN_BYTES_MAX => {
            one.to_str().map_err(|_| TokenError::Malformed)?
        }
        (Some(_), _) => return Err(TokenError::Malformed),
    };
    let (scheme, token) = value.split_once(' ').ok_or(TokenError::Missing)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token.trim()) } else { Err(TokenError::Missing) }
}

/// Checks what the token says of itself, and gives the name of its key.
fn check_header<'a>(header: &Object<'a>) -> Result<Cow<'a, str>, TokenError> {
    if header.text("alg").as_deref() != Some("RS256") {
        return Err(TokenError::Algorithm);
    }
    let foreign = ["jwk", "jku", "x5u", "x5c", "crit"];
    if header.members().any(|(name, _)| foreign.contains(&name)) {
        return Err(TokenError::ForeignKey);
    }
    header.text("kid").ok_or(TokenError::UnknownKey)
}

fn check_times(claims: &Object<'_>, now: Timestamp) -> Result<(), TokenError> {
    let seconds =
        |name: &str| claims.get(name).map(|it| seconds(it.get()).ok_or(TokenError::Malformed)).transpose();
    let now = now.as_millis() / 1_000;
    let expires = seconds("exp")?.ok_or(TokenError::Expired)?;
    if expires.saturating_add(LEEWAY.as_secs()) <= now {
        return Err(TokenError::Expired);
    }
    for name in ["nbf", "iat"] {
        if seconds(name)?.is_some_and(|it| it > now.saturating_add(LEEWAY.as_secs())) {
            return Err(TokenError::Early);
        }
    }
    Ok(())
}

/// A whole number of seconds; a fraction is cut off.
fn seconds(json: &str) -> Option<u64> {
    let whole = json.split_once('.').map_or(json, |(whole, _)| whole);
    whole.parse().ok()
}

fn audiences<'a>(claims: &Object<'a>) -> Vec<Cow<'a, str>> {
    let Some(value) = claims.get("aud") else { return Vec::new() };
    match json::text(value) {
        Some(one) => vec![one],
        None => json::list(value.get().as_bytes()).into_iter().flatten().filter_map(json::text).collect(),
    }
}
