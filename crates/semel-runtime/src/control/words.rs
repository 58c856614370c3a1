//! What an operator asked for, in words: for the audit log.

use super::{BulkOptions, JobState};
use semel_core::{queue::Filter, sha256::sha256, time::Timestamp};
use semel_events::event::{Event, EventTime};
use std::{collections::BTreeSet, fmt::Write as _};

/// Most attributes of an edited event that are named.
const NAMED_MAX: usize = 12;
/// So many bytes of a hash tell one content from another.
const HASH_BYTES: usize = 16;

/// What a job does to which executions, and how. What it looks for twice is said once.
pub(super) fn job(action: &str, filters: &[Filter], options: &BulkOptions) -> String {
    let mut which: Vec<_> = Vec::new();
    for text in filters.iter().map(filter) {
        if !which.contains(&text) {
            which.push(text);
        }
    }
    let rate = options.rate.map(|it| format!("; {} in {:?}", it.count(), it.per())).unwrap_or_default();
    let canary = options.canary.map(|it| format!("; {it} first")).unwrap_or_default();
    format!("{action} of {}{rate}{canary}", which.join("; or "))
}

/// Which executions.
pub(super) fn filter(filter: &Filter) -> String {
    let Filter { function, status, reason, holder, accepted_from, accepted_before, name, kind, error } =
        filter;
    let parts: Vec<_> = [
        function.as_ref().map(|it| format!("function {it}")),
        status.map(|it| format!("status {}", it.as_str())),
        reason.map(|it| format!("reason {}", it.as_str())),
        holder.map(|it| format!("holder {:032x}", it.0)),
        accepted_from.map(|it| format!("accepted from {}", moment(it))),
        accepted_before.map(|it| format!("accepted before {}", moment(it))),
        name.as_ref().map(|it| format!("name {it}")),
        kind.as_ref().map(|it| format!("type {it}")),
        error.map(|it| format!("error {it}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { "everything".to_owned() } else { parts.join(", ") }
}

/// How a job ended.
pub(super) fn state(state: &JobState) -> String {
    match state {
        JobState::Running => "running".to_owned(),
        JobState::Canary => "waiting for its canary".to_owned(),
        JobState::Finished => "finished".to_owned(),
        JobState::Aborted => "aborted".to_owned(),
        JobState::Interrupted => "interrupted, because its node stopped".to_owned(),
        JobState::CanaryFailed => "its canary failed again".to_owned(),
        JobState::Failed(cause) => format!("failed: {cause}"),
    }
}

/// What is different about an event that was edited: by name, and its data by its hash.
pub(super) fn edited(before: Option<&[u8]>, after: &Event) -> String {
    let before = before.and_then(|it| Event::decode(&it.to_vec().into()).ok());
    let Some(before) = before else {
        return format!("its event had not been kept; sha-256 of the data now {}", hash(after));
    };
    let names = different(&before, after);
    let which = match names.len() {
        0 => "nothing".to_owned(),
        many if many > NAMED_MAX => {
            format!("{} and {} more", names[..NAMED_MAX].join(", "), many - NAMED_MAX)
        }
        _ => names.join(", "),
    };
    format!("edited: {which}; sha-256 of the data before {}, now {}", hash(&before), hash(after))
}

/// What two events do not have in common, by name.
fn different(one: &Event, other: &Event) -> Vec<String> {
    const NAMES: [&str; 7] = ["id", "source", "type", "subject", "time", "datacontenttype", "dataschema"];
    let extensions: BTreeSet<_> = one.extensions().chain(other.extensions()).map(|(name, _)| name).collect();
    let names = NAMES.into_iter().chain(extensions);
    let data = (one.data() != other.data()).then_some("data");
    let names = names.filter(|name| one.attribute(name) != other.attribute(name));
    data.into_iter().chain(names).map(str::to_owned).collect()
}

/// Of the data as it is sent, so that whoever has it can compare; the first half.
fn hash(event: &Event) -> String {
    let Some(data) = event.data() else { return "none".to_owned() };
    let mut text = String::new();
    for byte in &sha256(data)[..HASH_BYTES] {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// To the second; in milliseconds since 1970 where no calendar has it.
fn moment(at: Timestamp) -> String {
    let time = EventTime::from_unix_seconds(at.as_millis() / 1_000);
    time.map_or_else(|| at.as_millis().to_string(), |it| it.text().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Rate;
    use semel_core::{
        execution::ErrorPrint,
        record::{Reason, Status},
    };
    use std::time::Duration;

    #[test]
    fn what_was_asked_for_can_be_read() {
        let options = BulkOptions {
            rate: Rate::new(50, Duration::from_secs(1)),
            canary: Some(5),
            ..BulkOptions::default()
        };
        let orders = Filter {
            function: Some("orders".into()),
            status: Some(Status::Failed),
            reason: Some(Reason::Exhausted),
            error: Some(ErrorPrint(0x0123_4567_89ab_cdef)),
            accepted_before: Some(Timestamp::from_millis(1_794_793_507_123)),
            ..Filter::default()
        };
        assert_eq!(
            job("redrive", &[orders], &options),
            "redrive of function orders, status FAILED, reason exhausted, accepted before 2026-11-16T01:45:07Z, \
             error 0123456789abcdef; 50 in 1s; 5 first"
        );
        assert_eq!(job("cancel", &[Filter::default()], &BulkOptions::default()), "cancel of everything");
        let status = |it| Filter { status: Some(it), ..Filter::default() };
        let twice = [Status::Pending, Status::InProgress, Status::Pending].map(status);
        assert_eq!(
            job("cancel", &twice, &BulkOptions::default()),
            "cancel of status PENDING; or status IN_PROGRESS"
        );
    }

    #[test]
    fn an_edit_is_told_by_name_and_by_hash_and_never_by_content() {
        let event = |kind: &str, data: &str| {
            let event = Event::builder("evt-1", "/shop", kind).json(data.to_owned());
            event.extension("secretname", data.len().to_string()).build().unwrap()
        };
        let (before, after) = (event("order", r#"{"card": 1}"#), event("order.new", r#"{"card": "4242"}"#));
        let told = edited(Some(&before.encode()), &after);
        assert_eq!(
            told,
            "edited: data, type, secretname; sha-256 of the data before BEFORE, now AFTER"
                .replace("BEFORE", &hash(&before))
                .replace("AFTER", &hash(&after))
        );
        assert_eq!((hash(&before).len(), told.contains("4242")), (32, false));
        assert!(edited(Some(&after.encode()), &after).starts_with("edited: nothing; "));
        assert!(edited(None, &after).starts_with("its event had not been kept; "));
        let empty = Event::builder("evt-1", "/shop", "order").build().unwrap();
        assert!(edited(Some(&before.encode()), &empty).ends_with(", now none"));
        let many = (0..NAMED_MAX + 3)
            .fold(Event::builder("evt-1", "/shop", "order"), |it, n| it.extension(format!("x{n}"), "1"));
        assert!(edited(Some(&empty.encode()), &many.build().unwrap()).contains(" and 3 more; "));
    }
}
