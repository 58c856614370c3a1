//! Amazon SNS's signatures.
//!
//! 1. Before anything is fetched: the topic is one of the expected, and the certificate's URL is one of SNS itself,
//!    `https://sns.<region>.amazonaws.com/<name>.pem` (or `.com.cn`), without user, port, query, fragment or a
//!    second step in its path.
//! 2. The certificate that was fetched from there is an argument. Its key must give the signature: SHA-256 for
//!    version 2, and SHA-1 for version 1, which is off unless it is switched on.
//! 3. With roots, the certificate must also be valid now, be for a server, have SNS's name, be no root itself, and lead to
//!    one of the roots where its issuer is at hand; SNS's own files hold the certificate alone. Without roots, that the
//!    certificate is SNS's is what the TLS connection to the checked host says, and no more.
//! 4. Nothing but the members that are signed is believed, and where each of them ends is as certain as that it was signed:
//!    one that ends with its line has one line.
//! 5. What says that it is of raw delivery is refused: nothing is signed then, so that this cannot say who sent it.
//! 6. A subscription is confirmed at a URL of SNS, or nothing is believed of it.
//!
//! It does not look at the message's age: SNS retries for hours. Replays are stopped by `MessageId`.

mod certificate;

pub use certificate::{CERTIFICATE_BYTES_MAX, Roots};

use super::Refused;
use crate::{format::sns::is_raw, json::Object};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;
use semel_core::{sabotage::is_on, time::Timestamp};
use std::borrow::Cow;

/// The type of a message that is an event.
const NOTIFICATION: &str = "Notification";
/// Most topics of one source.
pub const TOPICS_MAX: usize = 1_000;

/// Why a message of SNS is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnsError {
    /// It is no message of SNS.
    #[error("the body is no message of SNS")]
    Malformed,
    /// It says that it is of raw delivery.
    #[error(
        "raw delivery is not signed: switch the subscription's `RawMessageDelivery` off, or authenticate it otherwise"
    )]
    Raw,
    /// A subscription would be confirmed elsewhere.
    #[error("the URL that confirms the subscription is not one of SNS")]
    SubscribeUrl,
    /// Its topic is not expected.
    #[error("the topic is not one of the configured ones")]
    Topic,
    /// Its certificate is elsewhere.
    #[error("the certificate's URL is not one of SNS")]
    CertificateUrl,
    /// Its signature is of a version that is not accepted.
    #[error("the signature's version is not accepted: set the topic's `SignatureVersion` to 2")]
    Version,
    /// What was fetched is no certificate, or not one of SNS.
    #[error("the certificate is none, is not valid now, or does not lead to a root")]
    Certificate,
    /// Its signature is wrong.
    #[error("the signature is wrong")]
    Signature,
}

/// What is expected of SNS.
#[derive(Clone, Debug)]
pub struct Sns {
    /// The topics that may send, by their ARN. No other can, and no other's subscription is confirmed.
    pub topics: Vec<Box<str>>,
    /// Whether version 1, which is SHA-1, is accepted as well.
    pub accepts_version_1: bool,
    /// What the certificate must lead to, if that is to be checked.
    pub roots: Option<Roots>,
}

/// A message whose certificate is to be fetched.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "nothing is verified yet"]
pub struct Unverified {
    /// Where the certificate is. It is a URL of SNS.
    certificate_url: Box<str>,
    /// What was signed.
    signed: Vec<u8>,
    signature: Vec<u8>,
    version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

impl Sns {
    /// Checks that the headers do not say that nothing is signed.
    pub fn inspect_head(&self, headers: &HeaderMap) -> Result<(), Refused> {
        if is_raw(headers) && !is_on("events_sns_takes_raw_delivery") {
            return Err(SnsError::Raw.into());
        }
        Ok(())
    }

    /// Checks all that can be checked before anything is fetched.
    pub fn inspect(&self, body: &[u8]) -> Result<Unverified, Refused> {
        let message = Object::read(body).map_err(|_| SnsError::Malformed)?;
        let text = |name: &str| message.text(name).ok_or(SnsError::Malformed);
        let topic = text("TopicArn")?;
        if !self.topics.iter().any(|it| **it == *topic) {
            return Err(SnsError::Topic.into());
        }
        let url = message.text("SigningCertURL").or_else(|| message.text("SigningCertUrl"));
        let url = url.ok_or(SnsError::Malformed)?;
        if !is_certificate_url(&url) {
            return Err(SnsError::CertificateUrl.into());
        }
        let version = match &*text("SignatureVersion")? {
            "2" => Version::Two,
            "1" if self.accepts_version_1 => Version::One,
            _ => return Err(SnsError::Version.into()),
        };
        if message.text("Type").is_some_and(|it| it != NOTIFICATION)
            && !message.text("SubscribeURL").is_some_and(|it| is_sns_url(&it))
        {
            return Err(SnsError::SubscribeUrl.into());
        }
        let signature = STANDARD.decode(text("Signature")?.as_bytes()).map_err(|_| SnsError::Malformed)?;
        Ok(Unverified { certificate_url: (*url).into(), signed: signed(&message)?, signature, version })
    }

    /// Checks the signature with the certificate that was fetched.
    pub fn verify(&self, message: &Unverified, pem: &[u8], now: Timestamp) -> Result<(), Refused> {
        let host = host(&message.certificate_url).ok_or(SnsError::CertificateUrl)?;
        let is_version_1 = message.version == Version::One;
        let signed =
            certificate::Signed { message: &message.signed, signature: &message.signature, is_version_1 };
        Ok(certificate::verify(pem, &signed, self.roots.as_ref(), host, now)?)
    }
}

impl Unverified {
    /// Where to fetch the certificate. It is a URL of SNS.
    pub fn certificate_url(&self) -> &str {
        &self.certificate_url
    }
}

/// What SNS signs: names and values of some members, one below the other.
fn signed(message: &Object<'_>) -> Result<Vec<u8>, SnsError> {
    let names: &[&str] = match message.text("Type").as_deref() {
        Some(NOTIFICATION) => &["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"],
        Some("SubscriptionConfirmation" | "UnsubscribeConfirmation") => {
            &["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
        }
        Some(_) | None => return Err(SnsError::Malformed),
    };
    let mut signed = Vec::new();
    for name in names {
        let value: Option<Cow<'_, str>> = message.text(name);
        match value {
            // The message may have several lines: all behind it have one, so that it is seen from the end where it ends.
            Some(value) if *name != "Message" && value.contains('\n') => return Err(SnsError::Malformed),
            Some(value) => {
                [name.as_bytes(), b"\n", value.as_bytes(), b"\n"].map(|it| signed.extend_from_slice(it))
            }
            // A notification without a subject is signed without one.
            None if *name == "Subject" => continue,
            None => return Err(SnsError::Malformed),
        };
    }
    Ok(signed)
}

/// Whether a URL is one of SNS: where a subscription is confirmed.
pub fn is_sns_url(url: &str) -> bool {
    host(url).is_some() && url.bytes().all(|it| it.is_ascii_graphic())
}

/// Whether a URL is one of SNS's certificates.
pub fn is_certificate_url(url: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'_' | b'-');
    let path = host(url).and_then(|host| url.strip_prefix("https://")?.strip_prefix(host)?.strip_prefix('/'));
    let name = path.and_then(|it| it.strip_suffix(".pem"));
    name.is_some_and(|it| !it.is_empty() && it.bytes().all(is_plain) && !it.contains(".."))
}

/// The host of a URL, if it is SNS: `sns.<region>.amazonaws.com`, or that in China.
fn host(url: &str) -> Option<&str> {
    let (host, _) = url.strip_prefix("https://")?.split_once('/')?;
    if is_on("events_sns_any_host") {
        return Some(host);
    }
    let domain = host.strip_prefix("sns.")?;
    let region =
        domain.strip_suffix(".amazonaws.com").or_else(|| domain.strip_suffix(".amazonaws.com.cn"))?;
    let is_letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    (region.len() >= 3 && region.bytes().all(is_letter)).then_some(host)
}
