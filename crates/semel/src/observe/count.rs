//! Numbers, through the `metrics` facade; nothing without the feature.

use super::{Answer, End, Scope};
use std::time::Duration;

#[cfg(feature = "metrics")]
mod to {
    use super::{Answer, Duration, End, Scope};
    use ::metrics::{SharedString, counter, histogram};

    fn label(scope: &Scope) -> SharedString {
        SharedString::from_shared(std::sync::Arc::clone(&scope.0))
    }

    pub(in crate::observe) fn requested(operation: &'static str, took: Duration) {
        histogram!("semel_store_seconds", "operation" => operation).record(took);
    }

    pub(in crate::observe) fn store_failed(operation: &'static str, kind: &'static str) {
        counter!("semel_store_errors_total", "operation" => operation, "kind" => kind).increment(1);
    }

    pub(in crate::observe) fn answered(scope: &Scope, answer: Answer, waited: bool, took: Duration) {
        counter!("semel_calls_total", "scope" => label(scope), "answer" => answer.as_str()).increment(1);
        histogram!("semel_claim_seconds", "scope" => label(scope)).record(took);
        if waited {
            counter!("semel_waited_total", "scope" => label(scope)).increment(1);
        }
        if let Answer::Replayed { age } = answer {
            histogram!("semel_duplicate_age_seconds", "scope" => label(scope)).record(age);
        }
    }

    pub(in crate::observe) fn ended(scope: &Scope, end: End, worked: Duration, wrote: Duration) {
        counter!("semel_ended_total", "scope" => label(scope), "end" => end.as_str()).increment(1);
        histogram!("semel_handler_seconds", "scope" => label(scope)).record(worked);
        histogram!("semel_complete_seconds", "scope" => label(scope)).record(wrote);
    }

    pub(in crate::observe) fn unopened(cause: &'static str) {
        counter!("semel_unopened_total", "cause" => cause).increment(1);
    }

    pub(in crate::observe) fn audited(change: &'static str) {
        counter!("semel_operator_changes_total", "change" => change).increment(1);
    }
}

#[cfg(not(feature = "metrics"))]
mod to {
    use super::{Answer, Duration, End, Scope};

    pub(in crate::observe) fn requested(_: &'static str, _: Duration) {}
    pub(in crate::observe) fn store_failed(_: &'static str, _: &'static str) {}

    pub(in crate::observe) fn answered(Scope(_scope): &Scope, answer: Answer, _: bool, _: Duration) {
        let _answer = answer.as_str();
        if let Answer::Replayed { age: _age } = answer {}
    }

    pub(in crate::observe) fn ended(_: &Scope, end: End, _: Duration, _: Duration) {
        let _end = end.as_str();
    }

    pub(in crate::observe) fn unopened(_: &'static str) {}
    pub(in crate::observe) fn audited(_: &'static str) {}
}

pub(super) use to::{answered, audited, ended, requested, store_failed, unopened};
