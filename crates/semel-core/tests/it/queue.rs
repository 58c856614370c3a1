//! The queue port's vocabulary: filters match what they say, and counters balance.

use crate::given::{NOON, REASONS, any_execution};
use proptest::prelude::*;
use semel_core::{
    execution::{ErrorPrint, Execution},
    queue::{Counts, Filter},
    record::{Reason, Status},
};
use std::time::Duration;

#[test]
fn every_reason_has_a_counter_of_its_own_in_the_order_of_the_list() {
    assert_eq!(Reason::ALL, REASONS);
    for (index, reason) in Reason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, index, "{reason}");
    }
}

fn check_only_wanted_match(filter: &Filter, execution: &Execution, expected: bool) {
    assert_eq!(filter.matches(execution), expected, "{filter:?} {execution:?}");
}

proptest! {
    #![proptest_config(crate::given::config())]

    #[test]
    fn a_filter_matches_what_it_says_and_nothing_else(it in any_execution()) {
        let other = |filter| check_only_wanted_match(&filter, &it, false);
        let own = Filter {
            function: Some(it.function.clone()),
            status: Some(it.status()),
            reason: it.phase.reason(),
            holder: it.phase.holder(),
            accepted_from: Some(it.accepted_at),
            accepted_before: None,
            name: Some(it.origin.id.clone()),
            kind: Some(it.origin.kind.clone()),
            error: it.error().map(ErrorPrint::of),
        };
        check_only_wanted_match(&Filter::default(), &it, true);
        check_only_wanted_match(&own, &it, true);
        other(Filter { function: Some("another".into()), ..own.clone() });
        check_only_wanted_match(&Filter { name: Some(it.key.id().into()), ..own.clone() }, &it, true);
        other(Filter { name: Some("neither id nor key".into()), ..own.clone() });
        other(Filter { kind: Some("another type".into()), ..own.clone() });
        other(Filter { error: Some(ErrorPrint::of("another error")), ..own.clone() });
        other(Filter { accepted_before: Some(it.accepted_at), ..own.clone() });
        if it.accepted_at < NOON {
            other(Filter { accepted_from: Some(it.accepted_at + Duration::from_millis(1)), ..own.clone() });
        }
        for status in Status::ALL.into_iter().filter(|status| *status != it.status()) {
            other(Filter { status: Some(status), ..own.clone() });
        }
        for reason in Reason::ALL.into_iter().filter(|reason| Some(*reason) != it.phase.reason()) {
            other(Filter { reason: Some(reason), ..own.clone() });
        }
    }

    /// Invariant 2: what was accepted is somewhere, and what is counted twice or not at all is noticed.
    #[test]
    fn counts_balance_while_every_execution_is_counted_once(all in proptest::collection::vec(any_execution(), 1..20)) {
        let mut counts = Counts::none("f".into());
        prop_assert!(counts.is_balanced());
        for it in &all {
            counts.accepted += 1;
            *counts.of(&it.phase) += 1;
        }
        prop_assert!(counts.is_balanced());
        *counts.of(&all[0].phase) -= 1;
        prop_assert!(!counts.is_balanced(), "one is missing");
        counts.purged += 1;
        prop_assert!(counts.is_balanced(), "it was purged");
    }
}
