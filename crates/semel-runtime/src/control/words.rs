//! What an operator asked for, in words: for the audit log.

use super::{BulkOptions, JobState};
use semel_core::{queue::Filter, time::Timestamp};
use semel_events::event::EventTime;

/// What a job does to which executions, and how.
pub(super) fn job(action: &str, filters: &[Filter], options: &BulkOptions) -> String {
    let which: Vec<_> = filters.iter().map(filter).collect();
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
    }
}
