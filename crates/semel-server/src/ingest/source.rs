//! Sources, ready to receive from.
//!
//! 1. Where a signature covers the body alone, headers do not say what came: unless the configuration names a format, it is
//!    JSON by rules, or SNS's own where SNS signs.

use super::auth::{Auth, Fetch};
use crate::config::{AuthSettings, Mode, NoSecret, RuleSettings, SourceSettings};
use semel_core::sabotage::is_on;
use semel_events::{
    auth::BadSecret,
    expression::BadExpression,
    format::{
        Format, Settings,
        any::{Id, Rules},
    },
    handshake::Senders,
};
use std::{collections::BTreeMap, sync::Arc};

/// Somebody who sends events.
#[derive(Debug)]
pub(crate) struct Source {
    /// As the log and the metrics name it: `/events`, or `/sources/NAME`.
    pub(super) path: String,
    pub(super) format: Option<Format>,
    pub(super) settings: Settings,
    pub(super) auth: Auth,
    pub(super) mode: Mode,
    /// The functions it may reach; all, if nothing was said.
    pub(super) functions: Option<Arc<[Arc<str>]>>,
    pub(super) senders: Senders,
}

/// Everybody who sends events. Replaced as a whole.
#[derive(Debug)]
pub(crate) struct Sources {
    events: Source,
    named: BTreeMap<String, Source>,
}

/// Why a source cannot be received from.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSource {
    /// A secret is not where it should be.
    #[error(transparent)]
    Secret(NoSecret),
    /// A secret is none of its kind.
    #[error(transparent)]
    BadSecret(BadSecret),
    /// An expression is none.
    #[error(transparent)]
    Expression(#[from] BadExpression),
}

impl Sources {
    /// What was configured; or which one cannot be received from, and why.
    pub(crate) fn new(
        events: &SourceSettings,
        named: &[SourceSettings],
        fetch: &Arc<dyn Fetch>,
    ) -> Result<Self, (String, NoSource)> {
        let source = |it: &SourceSettings| Source::new(it, fetch).map_err(|no| (it.path(), no));
        let named: Result<_, _> = named.iter().map(|it| Ok((it.name.clone(), source(it)?))).collect();
        Ok(Self { events: source(events)?, named: named? })
    }

    /// Who sends to `/events`.
    pub(crate) fn events(&self) -> &Source {
        &self.events
    }

    /// Who sends to `/sources/NAME`.
    pub(crate) fn named(&self, name: &str) -> Option<&Source> {
        self.named.get(name)
    }
}

impl Source {
    fn new(settings: &SourceSettings, fetch: &Arc<dyn Fetch>) -> Result<Self, NoSource> {
        let path = settings.path();
        let rules = match (&settings.rules, &settings.auth) {
            (Some(rules), _) => Some(rules_of(rules, &path)?),
            (None, AuthSettings::Stripe { .. }) => Some(Rules::stripe()),
            (None, AuthSettings::GitHub { .. }) => Some(Rules::github()),
            (None, AuthSettings::StandardWebhooks { .. }) => Some(Rules::standard_webhooks(&path)?),
            (None, _) => None,
        };
        let is_body_signed =
            settings.auth.signs_body() && !is_on("ingest_believes_headers_that_nobody_signed");
        let functions = settings.functions.as_ref();
        let functions = functions.map(|it| it.iter().map(|it| it.as_str().into()).collect());
        Ok(Self {
            format: settings.format.or_else(|| settings.auth.format().filter(|_| is_body_signed)),
            settings: Settings {
                pubsub_topic: settings.topic.as_deref().map(Into::into),
                rules,
                is_body_signed,
            },
            auth: Auth::new(&settings.auth, fetch)?,
            mode: settings.mode,
            functions,
            senders: Senders {
                origins: settings.origins.iter().map(|it| it.as_str().into()).collect(),
                rate_max: settings.origin_rate_max,
            },
            path,
        })
    }
}

fn rules_of(settings: &RuleSettings, path: &str) -> Result<Rules, BadExpression> {
    let source = settings.source.clone().unwrap_or_else(|| format!("literal:{path}"));
    let parsed = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
    Ok(Rules {
        id: Id::parse(&settings.id)?,
        kind: settings.kind.parse()?,
        source: source.parse()?,
        subject: parsed(&settings.subject)?,
        time: parsed(&settings.time)?,
    })
}
