//! Stripe's signatures.
//!
//! 1. `Stripe-Signature: t=…,v1=…,v1=…`: what is signed is `t.body`, by the endpoint's secret as it is written,
//!    `whsec_` included.
//! 2. One `v1` must be right, by one of the secrets. `v0` and what else there may be do not count.
//! 3. There is one `t`.

use super::{BadSecret, Refused, SIGNATURES_MAX, Secrets, SignatureError, check_time, only, unhex};
use http::HeaderMap;
use semel_core::time::Timestamp;

/// Checks Stripe's signatures.
#[derive(Clone, Debug)]
pub struct Stripe(Secrets);

impl Stripe {
    /// With these secrets of the endpoint.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Result<Self, BadSecret> {
        Secrets::new(secrets.into_iter().map(Ok)).map(Self)
    }

    /// Checks that a request was signed with one of the secrets, and not long ago.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<(), Refused> {
        let header = only(headers, "stripe-signature")?;
        let pairs: Option<Vec<_>> = header.split(',').map(|it| it.trim().split_once('=')).collect();
        let pairs = pairs.filter(|it| it.len() <= SIGNATURES_MAX).ok_or(SignatureError::Malformed)?;
        let of = |name| pairs.iter().filter(move |(it, _)| *it == name).map(|(_, value)| *value);
        let mut times = of("t");
        let (Some(time), None) = (times.next(), times.next()) else {
            return Err(SignatureError::Malformed.into());
        };
        check_time(time, now)?;
        let message = [time.as_bytes(), b".", body];
        let is_right = |hex: &&str| unhex(hex).is_some_and(|it| self.0.is_signature(&message, &it));
        if of("v1").filter(is_right).count() > 0 { Ok(()) } else { Err(SignatureError::Wrong.into()) }
    }
}
