//! Numbers, through the `metrics` facade; nothing without the feature.
//!
//! 1. What a scope's numbers are called is put together once, when the scope is first seen: a call builds no labels.
//! 2. The recorder is asked each time, so that one that is installed later sees everything after that.

use super::{Answer, End, Operation};
use std::time::Duration;

#[cfg(feature = "metrics")]
mod to {
    use super::{Answer, Duration, End, Operation};
    use ::metrics::{
        Counter, Histogram, Key, Label, Level, Metadata, SharedString, counter, histogram, with_recorder,
    };
    use std::sync::Arc;

    const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

    /// What a scope's numbers are called.
    pub(in crate::observe) struct Names {
        calls: Box<[Key]>,
        ended: Box<[Key]>,
        waited: Key,
        duplicate_age: Key,
        claim: Key,
        handler: Key,
        complete: Key,
    }

    impl Names {
        pub(in crate::observe) fn new(scope: &str) -> Self {
            let scope: Arc<str> = scope.into();
            let label = || Label::new("scope", SharedString::from_shared(Arc::clone(&scope)));
            let name = |name: &'static str| Key::from_parts(name, vec![label()]);
            let named = |name: &'static str, key: &'static str, value: &'static str| {
                Key::from_parts(name, vec![label(), Label::new(key, value)])
            };
            Self {
                calls: Answer::NAMES.iter().map(|it| named("semel_calls_total", "answer", it)).collect(),
                ended: End::NAMES.iter().map(|it| named("semel_ended_total", "end", it)).collect(),
                waited: name("semel_waited_total"),
                duplicate_age: name("semel_duplicate_age_seconds"),
                claim: name("semel_claim_seconds"),
                handler: name("semel_handler_seconds"),
                complete: name("semel_complete_seconds"),
            }
        }
    }

    fn counter(name: &Key) -> Counter {
        with_recorder(|recorder| recorder.register_counter(name, &METADATA))
    }

    fn histogram(name: &Key) -> Histogram {
        with_recorder(|recorder| recorder.register_histogram(name, &METADATA))
    }

    pub(in crate::observe) fn requested(operation: Operation, took: Duration) {
        let histogram = match operation {
            Operation::Load => histogram!("semel_store_seconds", "operation" => "load"),
            Operation::Swap => histogram!("semel_store_seconds", "operation" => "swap"),
            Operation::Purge => histogram!("semel_store_seconds", "operation" => "purge"),
        };
        histogram.record(took);
    }

    pub(in crate::observe) fn store_failed(operation: Operation, kind: &'static str) {
        let operation = operation.as_str();
        counter!("semel_store_errors_total", "operation" => operation, "kind" => kind).increment(1);
    }

    pub(in crate::observe) fn answered(names: &Names, answer: Answer, waited: bool, took: Duration) {
        counter(&names.calls[answer.index()]).increment(1);
        histogram(&names.claim).record(took);
        if waited {
            counter(&names.waited).increment(1);
        }
        if let Answer::Replayed { age } = answer {
            histogram(&names.duplicate_age).record(age);
        }
    }

    pub(in crate::observe) fn ended(names: &Names, end: End, worked: Duration, wrote: Duration) {
        counter(&names.ended[end as usize]).increment(1);
        histogram(&names.handler).record(worked);
        histogram(&names.complete).record(wrote);
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
    use super::{Answer, Duration, End, Operation};

    pub(in crate::observe) struct Names;

    impl Names {
        pub(in crate::observe) fn new(_: &str) -> Self {
            Self
        }
    }

    pub(in crate::observe) fn requested(_: Operation, _: Duration) {}

    pub(in crate::observe) fn store_failed(operation: Operation, _: &'static str) {
        let _operation = operation.as_str();
    }

    pub(in crate::observe) fn answered(_: &Names, answer: Answer, _: bool, _: Duration) {
        let _answer = answer.as_str();
        if let Answer::Replayed { age: _age } = answer {}
    }

    pub(in crate::observe) fn ended(_: &Names, end: End, _: Duration, _: Duration) {
        let _end = end.as_str();
    }

    pub(in crate::observe) fn unopened(_: &'static str) {}
    pub(in crate::observe) fn audited(_: &'static str) {}
}

pub(super) use to::{Names, answered, audited, ended, requested, store_failed, unopened};
