//! Who sends: what the configuration says, ready to check.
//!
//! 1. What the headers alone tell is checked before the body is read, the rest over the raw body.
//! 2. Keys are fetched by the guarded client, kept, and asked for at most once in [`FETCH_EVERY`], however many requests name
//!    one that is not known. For certificates see [`Certificates`].
//! 3. Where keys cannot be had, nobody can tell: that is `503`, and not `401`.

use super::{certificates::Certificates, source::NoSource};
use crate::config::{AuthSettings, Secret};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use semel::BoxFuture;
use semel_core::{sabotage::is_on, time::Timestamp};
use semel_events::auth::{
    BadSecret, Cause, Refused,
    credentials::Credentials,
    github::Github,
    jwt::{Expected, GOOGLE_ISSUERS, JWKS_BYTES_MAX, Jwks, TokenError},
    sns::{Roots, Sns},
    standard_webhooks::StandardWebhooks,
    stripe::Stripe,
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use tracing::warn;

/// How often the same keys are fetched at most.
pub(crate) const FETCH_EVERY: Duration = Duration::from_mins(1);
/// How long keys are believed before they are fetched again.
const FRESH: Duration = Duration::from_hours(1);

/// Fetches what signatures are checked with.
pub(crate) trait Fetch: Send + Sync + 'static {
    /// What encrypted connections are believed by.
    fn roots(&self) -> Roots;
    /// What is at this URL, of at most so many bytes; or why it is not there.
    fn fetch<'a>(&'a self, url: &'a str, bytes_max: usize) -> BoxFuture<'a, Result<Bytes, String>>;
}

/// Why a request is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// It is not shown who sends it.
    Refused(Cause),
    /// Nobody can tell.
    NoKeys,
}

impl From<Refused> for Denied {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused.cause())
    }
}

/// How a source shows who it is.
pub(crate) enum Auth {
    Nobody,
    Credentials(Credentials),
    StandardWebhooks(StandardWebhooks),
    Stripe(Stripe),
    Github(Github),
    Sns(Sns, Certificates),
    Oidc(Expected, Keys),
}

impl Auth {
    /// What was configured, with its secrets looked up.
    pub(super) fn new(settings: &AuthSettings, fetch: &Arc<dyn Fetch>) -> Result<Self, NoSource> {
        let secrets = looked_up(settings.secrets())?;
        let secrets = || secrets.iter().map(String::as_str);
        Ok(match settings {
            AuthSettings::Unsaid | AuthSettings::None => Self::Nobody,
            AuthSettings::ApiKey { header, .. } => {
                Self::Credentials(Credentials::api_key(header.clone(), secrets())?)
            }
            AuthSettings::Bearer { .. } => Self::Credentials(Credentials::bearer(secrets())?),
            AuthSettings::Basic { user, .. } => {
                Self::Credentials(Credentials::basic(secrets().map(|it| (user.as_str(), it)))?)
            }
            AuthSettings::StandardWebhooks { .. } => {
                Self::StandardWebhooks(StandardWebhooks::new(secrets())?)
            }
            AuthSettings::Stripe { .. } => Self::Stripe(Stripe::new(secrets())?),
            AuthSettings::GitHub { .. } => Self::Github(Github::new(secrets())?),
            AuthSettings::Sns { topics, allows_v1 } => {
                let topics = topics.iter().map(|it| it.as_str().into()).collect();
                let sns = Sns { topics, accepts_version_1: *allows_v1, roots: Some(fetch.roots()) };
                Self::Sns(sns, Certificates::new(Arc::clone(fetch)))
            }
            AuthSettings::Oidc { audience, issuer, email, jwks } => {
                let is_google = GOOGLE_ISSUERS.contains(&issuer.as_str());
                let issuers = if is_google {
                    GOOGLE_ISSUERS.map(Into::into).into()
                } else {
                    vec![issuer.as_str().into()]
                };
                let email = email.as_deref().map(Into::into);
                let expected = Expected { audience: audience.as_str().into(), issuers, email };
                Self::Oidc(expected, Keys::new(jwks.clone(), Arc::clone(fetch)))
            }
        })
    }

    /// Checks what the headers tell.
    pub(super) async fn check_head(&self, headers: &HeaderMap, now: Timestamp) -> Result<(), Denied> {
        match self {
            _ if is_on("ingest_lets_anybody_in") => Ok(()),
            Self::Credentials(credentials) => Ok(credentials.verify(headers)?),
            // Boxed, as everything that may have to fetch something.
            Self::Oidc(expected, keys) => Box::pin(keys.verify(expected, headers, now)).await,
            Self::Sns(sns, _) => Ok(sns.inspect_head(headers)?),
            Self::Nobody | Self::StandardWebhooks(_) | Self::Stripe(_) | Self::Github(_) => Ok(()),
        }
    }

    /// Checks what the raw body tells.
    pub(super) async fn check_body(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), Denied> {
        match self {
            Self::Nobody | Self::Credentials(_) | Self::Oidc(..) => Ok(()),
            Self::StandardWebhooks(webhooks) => Ok(webhooks.verify(headers, body, now)?),
            Self::Stripe(stripe) => Ok(stripe.verify(headers, body, now)?),
            Self::Github(github) => Ok(github.verify(headers, body)?),
            Self::Sns(sns, certificates) => {
                let message = sns.inspect(body)?;
                let found = Box::pin(certificates.get(message.certificate_url())).await;
                let certificate = found.ok_or(Denied::NoKeys)?;
                sns.verify(&message, certificate.pem(), now)?;
                certificate.has_proven_itself();
                Ok(())
            }
        }
    }

    /// What a request that is not let in is told to come with.
    pub(super) fn challenge(&self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Credentials(_) => "ApiKey, Basic, Bearer",
            Self::Oidc(..) => "Bearer",
            Self::Nobody | Self::StandardWebhooks(_) | Self::Stripe(_) | Self::Github(_) | Self::Sns(..) => {
                "Signature"
            }
        })
    }

    /// The way to confirm that a topic may send here, if there is one.
    pub(super) fn confirms(&self) -> Option<&Arc<dyn Fetch>> {
        match self {
            Self::Sns(_, certificates) => Some(certificates.fetch()),
            _ => None,
        }
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auth")
    }
}

/// Secrets, wherever they are.
pub(super) fn looked_up(secrets: &[Secret]) -> Result<Vec<String>, NoSource> {
    secrets.iter().map(|it| it.look_up().map_err(NoSource::Secret)).collect()
}

impl From<BadSecret> for NoSource {
    fn from(bad: BadSecret) -> Self {
        Self::BadSecret(bad)
    }
}

/// Who may try now, and when somebody did last.
#[derive(Default)]
struct Tries(tokio::sync::Mutex<Option<Instant>>);

impl Tries {
    /// Lets one through, if nobody tried for a while; those who come meanwhile wait for it.
    async fn one<T>(
        &self,
        found: impl Fn() -> Option<T>,
        fetch: impl AsyncFnOnce() -> Option<T>,
    ) -> Option<T> {
        let mut last = self.0.lock().await;
        if let Some(found) = found() {
            return Some(found);
        }
        if last.is_some_and(|it| it.elapsed() < FETCH_EVERY) && !is_on("ingest_fetches_keys_each_time") {
            return None;
        }
        *last = Some(Instant::now());
        fetch().await
    }
}

/// Keys that tokens are signed with.
pub(crate) struct Keys {
    url: String,
    fetch: Arc<dyn Fetch>,
    /// As they were fetched last, and when.
    known: Mutex<Option<(Arc<Jwks>, Instant)>>,
    tries: Tries,
}

impl Keys {
    fn new(url: String, fetch: Arc<dyn Fetch>) -> Self {
        Self { url, fetch, known: Mutex::new(None), tries: Tries::default() }
    }

    fn known(&self, is_enough: impl Fn(&Instant) -> bool) -> Option<Arc<Jwks>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|(_, at)| is_enough(at)).map(|(keys, _)| Arc::clone(keys))
    }

    /// Checks a token. One with a key that is not known may have been signed with a new one.
    async fn verify(&self, expected: &Expected, headers: &HeaderMap, now: Timestamp) -> Result<(), Denied> {
        let asked = Instant::now();
        let keys = match self.known(|at| at.elapsed() < FRESH) {
            Some(keys) => keys,
            None => match self.fetched_since(asked).await.or_else(|| self.known(|_| true)) {
                Some(keys) => keys,
                None => return Err(Denied::NoKeys),
            },
        };
        let verified = expected.verify(headers, &keys, now);
        let is_unknown = |it: &Refused| matches!(it.cause(), Cause::Token(TokenError::UnknownKey));
        match verified {
            Err(refused) if is_unknown(&refused) => match self.fetched_since(asked).await {
                Some(keys) => Ok(expected.verify(headers, &keys, now)?),
                None => Err(refused.into()),
            },
            verified => Ok(verified?),
        }
    }

    /// Keys that were fetched after this moment.
    async fn fetched_since(&self, moment: Instant) -> Option<Arc<Jwks>> {
        let found = || self.known(|at| *at >= moment);
        self.tries
            .one(found, async || {
                let fetched = self.fetch.fetch(&self.url, JWKS_BYTES_MAX).await;
                let parsed = fetched.and_then(|it| Jwks::parse(&it).map_err(|bad| bad.to_string()));
                match parsed {
                    Ok(keys) => {
                        let (keys, now) = (Arc::new(keys), Instant::now());
                        *self.known.lock().unwrap_or_else(PoisonError::into_inner) =
                            Some((Arc::clone(&keys), now));
                        Some(keys)
                    }
                    Err(error) => {
                        warn!(url = self.url, error, "keys cannot be fetched");
                        None
                    }
                }
            })
            .await
    }
}
