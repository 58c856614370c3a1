//! From what the file says of functions to what the runtime runs.

use crate::{
    config::{Content, DeadLetterSettings, FunctionSettings, NoSecret, OnLost, RateSettings, Secret},
    exit::Failure,
};
use semel_events::{
    auth::{BadSecret, standard_webhooks::StandardWebhooks},
    expression::Expression,
};
use semel_runtime::{Aim, DeadLetter, Function, FunctionName, KeyRule, Rate, deliver::Protocol};
use std::num::NonZeroU32;

/// The functions of a file, with their secrets looked up.
pub(crate) fn functions(all: &[FunctionSettings]) -> Result<Vec<Function>, Failure> {
    all.iter().map(function).collect()
}

/// A function, with its secrets looked up.
pub(crate) fn function(settings: &FunctionSettings) -> Result<Function, Failure> {
    let mut function = Function::new(named(&settings.name), Aim::Url(settings.url.clone()));
    function.filter.clone_from(&settings.filter);
    function.key = expression(&settings.key).map_or(KeyRule::SourceAndId, KeyRule::Expression);
    function.order = expression(&settings.order);
    function.policy = settings.policy.clone();
    function.answers = settings.answers;
    if let Some(concurrency) = settings.concurrency.and_then(NonZeroU32::new) {
        function.concurrency = concurrency;
    }
    function.rate = settings.rate.and_then(|RateSettings { events, per }| Rate::new(events, per));
    function.on_lost = match settings.on_lost {
        OnLost::Retry => semel_runtime::OnLost::Retry,
        OnLost::Report => semel_runtime::OnLost::Report,
    };
    if settings.http2 {
        function.protocol = Protocol::Http2;
    }
    function.dead_letter = match &settings.dead_letter {
        DeadLetterSettings::Keep => DeadLetter::Keep,
        DeadLetterSettings::None => DeadLetter::Forget,
        DeadLetterSettings::Url(url) => DeadLetter::Url(url.clone()),
        DeadLetterSettings::Function(name) => DeadLetter::Function(named(name)),
    };
    function.signing = signing(settings)?;
    function.strict_mismatch = settings.strict;
    function.content = match settings.content {
        Content::Binary => semel_runtime::Content::Binary,
        Content::Structured => semel_runtime::Content::Structured,
    };
    Ok(function)
}

fn named(name: &str) -> FunctionName {
    name.parse().expect("the file was checked")
}

fn expression(texts: &[String]) -> Option<Expression> {
    match texts {
        [] => None,
        [one] => Some(one.parse().expect("the file was checked")),
        several => {
            let texts = several.iter().map(String::as_str);
            Some(Expression::all(texts).expect("the file was checked"))
        }
    }
}

/// What requests are signed with.
fn signing(settings: &FunctionSettings) -> Result<Option<StandardWebhooks>, Failure> {
    if settings.secrets.is_empty() {
        return Ok(None);
    }
    let secrets: Result<Vec<_>, NoSecret> = settings.secrets.iter().map(Secret::look_up).collect();
    let secrets = secrets.map_err(|error| no_secret(&settings.name).because(&error))?;
    let signing = StandardWebhooks::new(secrets.iter().map(String::as_str));
    let signing = signing.map_err(|error: BadSecret| no_secret(&settings.name).because(&error))?;
    Ok(Some(signing))
}

fn no_secret(name: &str) -> Failure {
    Failure::usage(format!("function `{name}` has no secret to sign with"))
        .hint("a secret is base64, with or without `whsec_` in front: `openssl rand -base64 24` makes one")
}
