//! What a file asks for and cannot have, though it is not wrong.
//!
//! 1. Every source that may send an event again after it was forgotten: where retention is shorter than the retry window and the
//!    source's own time together.
//! 2. More calls at once than a node holds.
//! 3. Sources to which others can send, besides the one that is meant: tokens that anybody at the issuer gets, and an event's
//!    name in what its sender does not sign.
//!
//! `semel plan` prints it, and `semel check` all but the first; the server writes it to its log, at the start and at every reload.

use super::{AuthSettings, FunctionSettings, ServerSettings, SourceSettings, value::duration_text};
use semel_events::{auth::jwt::GOOGLE_ISSUERS, format::Format};
use std::{fmt::Write as _, time::Duration};

/// What a file asks for and cannot have.
pub(crate) fn warnings(settings: &ServerSettings) -> Vec<String> {
    forgotten(settings).into_iter().chain(checked(settings)).collect()
}

/// What there is to say of a file without looking at times.
pub(crate) fn checked(settings: &ServerSettings) -> Vec<String> {
    crowded(settings).into_iter().chain(sources(settings).filter_map(open_to_others)).collect()
}

fn sources(settings: &ServerSettings) -> impl Iterator<Item = &SourceSettings> {
    std::iter::once(&settings.events).chain(&settings.sources)
}

/// What of a source others can make who are not its sender.
fn open_to_others(source: &SourceSettings) -> Option<String> {
    let path = source.path();
    if let AuthSettings::Oidc { email: None, issuer, .. } = &source.auth {
        let who =
            if GOOGLE_ISSUERS.contains(&issuer.as_str()) { ", which is any service account" } else { "" };
        return Some(format!(
            "`{path}` takes a token of anybody to whom `{issuer}` gives one for this `audience`{who}; `email` says whose it must be"
        ));
    }
    if !source.auth.signs_body() {
        return None;
    }
    if source.format == Some(Format::CloudEvents) {
        return Some(format!(
            "`{path}` takes CloudEvents in the body only: the signature does not cover headers, so the binary mode is refused"
        ));
    }
    let names = source.rules.as_ref().map(|it| [Some(it.id.as_str()), it.source.as_deref()])?;
    let header = names.into_iter().flatten().find_map(|it| it.strip_prefix("header:"))?;
    let is_known = match source.auth {
        // It signs these.
        AuthSettings::StandardWebhooks { .. } => {
            ["webhook-id", "svix-id"].iter().any(|it| it.eq_ignore_ascii_case(header))
        }
        // It signs none, and has no other.
        AuthSettings::GitHub { .. } => header.eq_ignore_ascii_case("x-github-delivery"),
        _ => false,
    };
    (!is_known).then(|| {
        format!(
            "`{path}` names its events by the header `{header}`, which the signature does not cover: who captured a request \
             can make others of it; name them by something in the body"
        )
    })
}

/// Whether more calls at once are asked for than a node holds.
fn crowded(settings: &ServerSettings) -> Option<String> {
    let asked = settings.functions.iter().filter_map(|it| it.concurrency).map(u64::from).sum::<u64>();
    let held = settings.limits.in_flight_max;
    (asked > held.into()).then(|| {
        format!(
            "the functions ask for {asked} calls at once, but a node holds {held}: they do not get all of them; \
             `in_flight_max = {asked}` below `[server.limits]` covers it"
        )
    })
}

/// Which sources may send an event again after it was forgotten.
fn forgotten(settings: &ServerSettings) -> Vec<String> {
    let reaches = |source: &SourceSettings, function: &FunctionSettings| {
        source.functions.as_ref().is_none_or(|it| it.contains(&function.name))
    };
    let mut warnings = Vec::new();
    for function in &settings.functions {
        let window = if function.policy.is_on() { function.policy.window() } else { Duration::ZERO };
        let retention = function.policy.retention();
        for source in sources(settings).filter(|it| reaches(it, function)) {
            let needed = window + source.redelivery;
            if retention < needed {
                warnings.push(format!(
                    "`{}` remembers an event for {}, but retries it for {} and `{}` may send it again for {}: a late duplicate \
                     would run again; `retention = \"{}\"` covers it",
                    function.name,
                    human(retention),
                    human(window),
                    source.path(),
                    human(source.redelivery),
                    duration_text(needed)
                ));
            }
        }
    }
    warnings
}

/// A time for people: its two largest units.
pub(crate) fn human(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis < 1_000 {
        return if millis == 0 { "0s".to_owned() } else { format!("{millis}ms") };
    }
    let seconds = duration.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let first = units.iter().position(|(size, _)| seconds >= *size).unwrap_or(3);
    let mut text = String::new();
    let mut left = seconds;
    for (size, unit) in units.iter().skip(first).take(2) {
        if left >= *size {
            let _ = write!(text, "{}{unit}", left / size);
        }
        left %= size;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_calls_than_a_node_holds_are_warned_of() {
        let mut settings = ServerSettings::for_use(true);
        let url = semel_runtime::deliver::guard::check_url("http://127.0.0.1:1/", &settings.guard).unwrap();
        let mut function =
            FunctionSettings::new("orders".to_owned(), url, semel_core::retry::RetryPolicy::gen2());
        function.concurrency = Some(settings.limits.in_flight_max);
        settings.functions.push(function.clone());
        assert_eq!(crowded(&settings), None);
        settings.functions.push(FunctionSettings { concurrency: Some(1), ..function });
        assert!(crowded(&settings).is_some_and(|it| it.contains("in_flight_max = 1025")));
        settings.limits.in_flight_max += 1;
        assert_eq!(crowded(&settings), None);
    }

    #[test]
    fn times_are_for_people() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (80, "1m20s"), (3_600, "1h"), (93_784, "1d2h"), (86_460, "1d")]
        {
            assert_eq!(human(Duration::from_secs(seconds)), text);
        }
        assert_eq!(human(Duration::from_millis(250)), "250ms");
    }
}
