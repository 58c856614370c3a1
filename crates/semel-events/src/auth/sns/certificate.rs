//! The certificate that SNS signs with.
//!
//! 1. The first certificate of the file signs; it has an RSA key of 2,048 bits or more.
//! 2. With roots, it must be valid now, for a server, and have a name of SNS, as AWS's own SDK wants it: `sns.amazonaws.com`
//!    for most regions, and a name with the region for others.
//! 3. It must not be its own issuer, nor a certificate that issues others.
//! 4. If anything that could have issued it is at hand, in the file, among the certificates given with the roots, or as one
//!    of these, it must lead to a root.
//! 5. SNS's file holds the certificate alone, and its issuer, one of Amazon's many, is in no list of roots. AWS's SDK, which
//!    refuses any file with more than one certificate, checks no chain at all. So does this, for such a file, or nothing of
//!    SNS would be accepted: that SNS issued it is then what the TLS connection says, which was made to a host that SNS alone
//!    has, and did lead to a root. To fetch the issuer from where the certificate says would prove no more: who could put a
//!    certificate of his own there could leave that out. Whoever wants the chain checked all the same gives the issuers with
//!    the roots ([`Roots::requiring`]).

use super::SnsError;
use ring::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};
use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, ServerName, SignatureVerificationAlgorithm,
    TrustAnchor, UnixTime, alg_id::RSA_ENCRYPTION, pem::PemObject as _,
};
use semel_core::{sabotage::is_on, time::Timestamp};
use std::time::Duration;
use webpki::{
    ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert,
    ring::RSA_PKCS1_2048_8192_SHA256,
};

/// Largest file with a certificate, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 64 * 1024;

/// What certificates must lead to.
#[derive(Clone, Debug)]
pub struct Roots {
    anchors: Vec<TrustAnchor<'static>>,
    intermediates: Vec<CertificateDer<'static>>,
    /// Whether a certificate whose issuer is not at hand is refused.
    is_chain_required: bool,
}

impl Roots {
    /// Of roots, and of certificates between them and SNS's, both as PEM. Nothing if there is no root, or one of
    /// them is none.
    pub fn from_pem(roots: &[u8], intermediates: &[u8]) -> Option<Self> {
        let anchor = |it: &CertificateDer<'static>| anchor_from_trusted_cert(it).ok().map(|it| it.to_owned());
        let anchors: Vec<_> = certificates(roots)?.iter().map(anchor).collect::<Option<_>>()?;
        (!anchors.is_empty()).then_some(())?;
        Some(Self { anchors, intermediates: certificates(intermediates)?, is_chain_required: false })
    }

    /// Of roots that were read, such as those that encrypted connections are believed by.
    pub fn of_anchors(anchors: Vec<TrustAnchor<'static>>) -> Self {
        Self { anchors, intermediates: Vec::new(), is_chain_required: false }
    }

    /// Refusing what does not lead to a root, also if its issuer is not at hand.
    #[must_use]
    pub fn requiring(self) -> Self {
        Self { is_chain_required: true, ..self }
    }
}

/// What was signed, and how.
pub(super) struct Signed<'a> {
    pub(super) message: &'a [u8],
    pub(super) signature: &'a [u8],
    pub(super) is_version_1: bool,
}

/// Checks a signature with the certificate in a file.
pub(super) fn verify(
    pem: &[u8],
    signed: &Signed<'_>,
    roots: Option<&Roots>,
    host: &str,
    now: Timestamp,
) -> Result<(), SnsError> {
    let invalid = SnsError::Certificate;
    let mut all = (pem.len() <= CERTIFICATE_BYTES_MAX).then(|| certificates(pem)).flatten().ok_or(invalid)?;
    let first = if all.is_empty() { return Err(invalid) } else { all.remove(0) };
    let certificate = EndEntityCert::try_from(&first).map_err(|_| invalid)?;
    if let Some(roots) = roots {
        check_chain(&certificate, &all, roots, host, now).ok_or(invalid)?;
    }
    let algorithm = if signed.is_version_1 { &RsaSha1 } else { RSA_PKCS1_2048_8192_SHA256 };
    let verdict = certificate.verify_signature(algorithm, signed.message, signed.signature);
    verdict.map_err(|_| SnsError::Signature)
}

fn check_chain(
    certificate: &EndEntityCert<'_>,
    others: &[CertificateDer<'static>],
    roots: &Roots,
    host: &str,
    now: Timestamp,
) -> Option<()> {
    if certificate.issuer() == certificate.subject() && !is_on("events_sns_any_certificate") {
        return None;
    }
    let between: Vec<_> = others.iter().chain(&roots.intermediates).cloned().collect();
    let time = UnixTime::since_unix_epoch(Duration::from_millis(now.as_millis()));
    let usage = KeyUsage::server_auth();
    let chained = certificate.verify_for_usage(
        ALL_VERIFICATION_ALGS,
        &roots.anchors,
        &between,
        time,
        usage,
        None,
        None,
    );
    match chained {
        Ok(_) => {}
        // Found out after everything else about the certificate itself.
        Err(webpki::Error::UnknownIssuer) if is_alone(certificate, &between, roots) => {}
        Err(_) if is_on("events_sns_any_certificate") => {}
        Err(_) => return None,
    }
    let is_named = |name: &String| {
        let name = ServerName::try_from(name.as_str()).ok();
        name.is_some_and(|it| certificate.verify_is_valid_for_subject_name(&it).is_ok())
    };
    names(host).iter().any(is_named).then_some(())
}

/// Whether nothing is at hand that could have issued the certificate, and nothing need be.
fn is_alone(certificate: &EndEntityCert<'_>, between: &[CertificateDer<'_>], roots: &Roots) -> bool {
    let is_issuer = |it: &TrustAnchor<'_>| it.subject.as_ref() == certificate.issuer();
    between.is_empty() && !roots.is_chain_required && !roots.anchors.iter().any(is_issuer)
}

/// The names that SNS's certificates have, for the host of a URL of SNS: as AWS's SDK knows them.
fn names(host: &str) -> Vec<String> {
    let region = host.strip_prefix("sns.").and_then(|it| it.split_once('.'));
    let Some((region, domain)) = region else { return Vec::new() };
    // All regions of the government's have one.
    let shared = if region.starts_with("us-gov-") { "us-gov-west-1" } else { region };
    vec![
        format!("sns.{domain}"),
        format!("sns-{shared}.{domain}"),
        format!("sns-signing.{region}.{domain}"),
        host.to_owned(),
    ]
}

fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()
}

/// RSA with SHA-1, for version 1 of SNS's signatures and nothing else.
#[derive(Debug)]
struct RsaSha1;

impl SignatureVerificationAlgorithm for RsaSha1 {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, key);
        key.verify(message, signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        RSA_ENCRYPTION
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        // 1.2.840.113549.1.1.5, without parameters.
        AlgorithmIdentifier::from_slice(b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05\x05\x00")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_has_the_names_that_awss_sdk_knows() {
        for (host, name) in [
            ("sns.us-west-2.amazonaws.com", "sns.amazonaws.com"),
            ("sns.af-south-1.amazonaws.com", "sns-signing.af-south-1.amazonaws.com"),
            ("sns.us-gov-east-1.amazonaws.com", "sns-us-gov-west-1.amazonaws.com"),
            ("sns.cn-north-1.amazonaws.com.cn", "sns-cn-north-1.amazonaws.com.cn"),
        ] {
            assert!(names(host).iter().any(|it| it == name), "{host}: {:?}", names(host));
        }
        let elsewhere = |it: &String| !it.contains("us-west-2") && it != "sns.amazonaws.com";
        assert_eq!(names("sns.us-west-2.amazonaws.com").iter().find(|it| elsewhere(it)), None);
        assert!(names("evil.com").is_empty());
    }
}
