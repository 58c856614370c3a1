//! The certificate that SNS signs with.
//!
//! 1. The first certificate of the file signs; it has an RSA key of 2,048 bits or more.
//! 2. With roots, it must be valid now, for a server, for SNS's name, by a chain to one of them.

use super::SnsError;
use ring::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};
use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, ServerName, SignatureVerificationAlgorithm,
    TrustAnchor, UnixTime, alg_id::RSA_ENCRYPTION, pem::PemObject as _,
};
use semel_core::time::Timestamp;
use std::time::Duration;
use webpki::{
    ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert,
    ring::RSA_PKCS1_2048_8192_SHA256,
};

/// Largest file with a certificate, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 64 * 1024;

/// The name that SNS's certificates have, whatever their region.
const GLOBAL_NAME: &str = "sns.amazonaws.com";

/// What certificates must lead to.
#[derive(Clone, Debug)]
pub struct Roots {
    anchors: Vec<TrustAnchor<'static>>,
    intermediates: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// Of roots, and of certificates between them and SNS's, both as PEM. Nothing if there is no root, or one of
    /// them is none.
    pub fn from_pem(roots: &[u8], intermediates: &[u8]) -> Option<Self> {
        let anchor = |it: &CertificateDer<'static>| anchor_from_trusted_cert(it).ok().map(|it| it.to_owned());
        let anchors: Vec<_> = certificates(roots)?.iter().map(anchor).collect::<Option<_>>()?;
        (!anchors.is_empty()).then_some(())?;
        Some(Self { anchors, intermediates: certificates(intermediates)? })
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
    let between: Vec<_> = others.iter().chain(&roots.intermediates).cloned().collect();
    let time = UnixTime::since_unix_epoch(Duration::from_millis(now.as_millis()));
    let usage = KeyUsage::server_auth();
    certificate
        .verify_for_usage(ALL_VERIFICATION_ALGS, &roots.anchors, &between, time, usage, None, None)
        .ok()?;
    let is_named = |name: &str| {
        let name = ServerName::try_from(name).ok();
        name.is_some_and(|it| certificate.verify_is_valid_for_subject_name(&it).is_ok())
    };
    (is_named(GLOBAL_NAME) || is_named(host)).then_some(())
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
