//! From what the file says of functions to what the runtime runs.

use crate::{
    config::{Content, DeadLetterSettings, FunctionSettings, RateSettings},
    exit::Failure,
};
use semel_runtime::{Aim, DeadLetter, Function, FunctionName, Rate};
use std::num::NonZeroU32;

/// The functions of a file, with their secrets looked up.
pub(super) fn functions(all: &[FunctionSettings]) -> Result<Vec<Function>, Failure> {
    all.iter().map(function).collect()
}

fn function(settings: &FunctionSettings) -> Result<Function, Failure> {
    let mut function = Function::new(named(&settings.name), Aim::Url(settings.url.clone()));
    for (is_said, what) in [
        (settings.filter.is_some(), "filter"),
        (!settings.key.is_empty(), "key"),
        (!settings.order.is_empty(), "order"),
        (!settings.secrets.is_empty(), "secret"),
    ] {
        if is_said {
            return Err(Failure::usage(format!(
                "function `{}`: the runtime has no `{what}` yet",
                settings.name
            )));
        }
    }
    function.policy = settings.policy.clone();
    function.answers = settings.answers;
    if let Some(concurrency) = settings.concurrency.and_then(NonZeroU32::new) {
        function.concurrency = concurrency;
    }
    function.rate = settings.rate.and_then(|RateSettings { events, per }| Rate::new(events, per));
    function.dead_letter = match &settings.dead_letter {
        DeadLetterSettings::Keep => DeadLetter::Keep,
        DeadLetterSettings::None => DeadLetter::Forget,
        DeadLetterSettings::Url(url) => DeadLetter::Url(url.clone()),
        DeadLetterSettings::Function(name) => DeadLetter::Function(named(name)),
    };
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
