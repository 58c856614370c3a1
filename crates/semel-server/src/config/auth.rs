//! How a source shows who it is.
//!
//! 1. It must be said, also that anybody may send: `auth = "none"`.
//! 2. Each way has what it needs, and nothing else.

use super::{
    function::{read_secrets, read_secrets_as, wanted_instead},
    read::Section,
    secret::Secret,
    value::{self, Wanted, one_of},
};
use http::HeaderName;
use semel_events::{
    auth::{BadSecret, SECRET_BYTES_MIN, standard_webhooks::StandardWebhooks},
    format::Format,
};
use semel_runtime::deliver::guard::{Policy, check_url};

/// Whose keys Google signs tokens with, and where they are.
const GOOGLE: (&str, &str) = ("https://accounts.google.com", "https://www.googleapis.com/oauth2/v3/certs");
/// Most topics or addresses that are listed.
const LISTED_MAX: usize = 100;

/// How a source shows who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuthSettings {
    /// Nothing was said.
    Unsaid,
    /// Anybody may send.
    None,
    /// One of these secrets, in a header.
    ApiKey {
        /// Which header.
        header: HeaderName,
        /// Any of them.
        secrets: Vec<Secret>,
    },
    /// One of these secrets, after `Bearer`.
    Bearer {
        /// Any of them.
        secrets: Vec<Secret>,
    },
    /// A user and one of these secrets.
    Basic {
        /// Who.
        user: String,
        /// Any of them.
        secrets: Vec<Secret>,
    },
    /// Signed as Standard Webhooks are.
    StandardWebhooks {
        /// Any of them.
        secrets: Vec<Secret>,
    },
    /// Signed as Stripe does.
    Stripe {
        /// Any of them.
        secrets: Vec<Secret>,
    },
    /// Signed as GitHub does.
    GitHub {
        /// Any of them.
        secrets: Vec<Secret>,
    },
    /// Signed as SNS does.
    Sns {
        /// The topics that may send.
        topics: Vec<String>,
        /// Whether the first version, with SHA-1, is good enough.
        allows_v1: bool,
    },
    /// A token as Pub/Sub and Eventarc send.
    Oidc {
        /// Whom it must be for.
        audience: String,
        /// Who must have made it.
        issuer: String,
        /// Whose it must be; anybody's, unless this is said.
        email: Option<String>,
        /// Where the keys are.
        jwks: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    ApiKey,
    Bearer,
    Basic,
    StandardWebhooks,
    Stripe,
    GitHub,
    Sns,
    Oidc,
}

const KINDS: [(&str, Kind); 9] = [
    ("none", Kind::None),
    ("api-key", Kind::ApiKey),
    ("bearer", Kind::Bearer),
    ("basic", Kind::Basic),
    ("standard-webhooks", Kind::StandardWebhooks),
    ("stripe", Kind::Stripe),
    ("github", Kind::GitHub),
    ("sns", Kind::Sns),
    ("oidc", Kind::Oidc),
];

impl AuthSettings {
    /// What a section says: `auth = "github"`, and beside it what that needs.
    pub(super) fn read(section: &Section<'_>, guard: &Policy) -> Self {
        let Some(kind) = section.text("auth", |text| one_of(text, &KINDS)) else { return Self::Unsaid };
        let secrets = || {
            let is_base64 = kind == Kind::StandardWebhooks;
            let secrets = if is_base64 { read_signing_secrets(section) } else { read_secrets(section) };
            if secrets.is_empty() && !section.has("secret") && !section.has("secrets") {
                section.missing("secret", "a secret, `env:NAME` or `file:PATH`");
            }
            secrets
        };
        match kind {
            Kind::None => Self::None,
            Kind::ApiKey => {
                let header = section.text("header", value::header);
                Self::ApiKey {
                    header: header.unwrap_or(HeaderName::from_static("x-api-key")),
                    secrets: secrets(),
                }
            }
            Kind::Bearer => Self::Bearer { secrets: secrets() },
            Kind::Basic => {
                let user = section.needed("user", user, "the name of the user");
                Self::Basic { user: user.unwrap_or_default(), secrets: secrets() }
            }
            Kind::StandardWebhooks => Self::StandardWebhooks { secrets: secrets() },
            Kind::Stripe => Self::Stripe { secrets: secrets() },
            Kind::GitHub => Self::GitHub { secrets: secrets() },
            Kind::Sns => Self::Sns {
                topics: listed(section, "topics", topic),
                allows_v1: section.flag("allow_signature_v1").unwrap_or_default(),
            },
            Kind::Oidc => {
                let audience = section.needed("audience", text, "whom tokens are for, as Pub/Sub was told");
                let issuer = section.text("issuer", value::https_url);
                let jwks = jwks(section, guard);
                Self::Oidc {
                    audience: audience.unwrap_or_default(),
                    issuer: issuer.unwrap_or_else(|| GOOGLE.0.to_owned()),
                    email: section.text("email", text),
                    jwks: jwks.unwrap_or_else(|| GOOGLE.1.to_owned()),
                }
            }
        }
    }

    /// Whether it is a signature of the body: then nothing in the headers is the sender's for certain.
    pub(crate) const fn signs_body(&self) -> bool {
        match self {
            Self::StandardWebhooks { .. } | Self::Stripe { .. } | Self::GitHub { .. } | Self::Sns { .. } => {
                true
            }
            Self::Unsaid
            | Self::None
            | Self::ApiKey { .. }
            | Self::Bearer { .. }
            | Self::Basic { .. }
            | Self::Oidc { .. } => false,
        }
    }

    /// What such a sender speaks; any format, if that does not say.
    pub(crate) const fn format(&self) -> Option<Format> {
        match self {
            Self::Sns { .. } => Some(Format::Sns),
            it if it.signs_body() => Some(Format::Json),
            _ => None,
        }
    }

    /// All its secrets.
    pub(crate) fn secrets(&self) -> &[Secret] {
        match self {
            Self::ApiKey { secrets, .. }
            | Self::Bearer { secrets }
            | Self::Basic { secrets, .. }
            | Self::StandardWebhooks { secrets }
            | Self::Stripe { secrets }
            | Self::GitHub { secrets } => secrets,
            Self::Unsaid | Self::None | Self::Sns { .. } | Self::Oidc { .. } => &[],
        }
    }
}

/// Secrets of Standard Webhooks. One that stands in the file is tried; the others are looked up at the start.
pub(super) fn read_signing_secrets(section: &Section<'_>) -> Vec<Secret> {
    read_secrets_as(section, |text| {
        let secret = Secret::parse(text)?;
        let tried = match &secret {
            Secret::Literal(text) => StandardWebhooks::new([text.as_str()]).map(|_| ()),
            Secret::Env(_) | Secret::File(_) => Ok(()),
        };
        tried.map(|()| secret).map_err(|bad| match bad {
            BadSecret::Short => {
                format!("base64 of {SECRET_BYTES_MIN} bytes or more, with or without `whsec_` in front")
            }
            _ => {
                "a secret in base64, as `openssl rand -base64 24` makes one, with or without `whsec_` in front; `env:NAME` or `file:PATH`".to_owned()
            }
        })
    })
}

/// Where keys are: fetched from where functions may be, and encrypted unless that is this machine.
fn jwks(section: &Section<'_>, guard: &Policy) -> Option<String> {
    let text = section.text("jwks", |text| Ok(text.to_owned()))?;
    let is_plain = !text.starts_with("https://");
    match check_url(&text, guard) {
        Err(refusal) => section.wrong("jwks", &text, &wanted_instead(&refusal.to_string())),
        Ok(_) if is_plain && !guard.loopback => {
            section.wrong("jwks", &text, "a URL that begins with `https://`");
        }
        Ok(_) => return Some(text),
    }
    None
}

fn listed<'a>(section: &Section<'a>, key: &'a str, parse: fn(&str) -> Result<String, Wanted>) -> Vec<String> {
    let listed = section.one_or_more(key, parse).unwrap_or_default();
    let wanted = format!("1 to {LISTED_MAX} of them, in a list");
    if !section.has(key) {
        section.missing(key, &wanted);
    } else if section.is_empty_list(key) || listed.len() > LISTED_MAX {
        section.wrong(key, &section.found(key), &wanted);
    }
    listed
}

fn topic(text: &str) -> Result<String, Wanted> {
    let is_right = text.starts_with("arn:aws") && text.split(':').count() == 6 && text.contains(":sns:");
    if is_right {
        Ok(text.to_owned())
    } else {
        Err("the ARN of a topic: `arn:aws:sns:REGION:ACCOUNT:NAME`".to_owned())
    }
}

fn text(text: &str) -> Result<String, Wanted> {
    if (1..=1_024).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err("a text of 1 to 1024 bytes".to_owned())
    }
}

fn user(text: &str) -> Result<String, Wanted> {
    let is_right = !text.contains(':') && (1..=256).contains(&text.len());
    if is_right { Ok(text.to_owned()) } else { Err("a name without a colon".to_owned()) }
}
