//! The filters of CloudEvents Subscriptions.

use crate::given::full;
use semel_events::filter::{BadFilter, Compare, FILTER_DEPTH_MAX, FILTER_TERMS_MAX, Filter};

fn check(filter: &str, expected: bool) {
    let filter: Filter = serde_json::from_str(filter).unwrap();
    assert_eq!(filter.matches(&full()), expected, "{filter:?}");
}

#[test]
fn every_dialect_does_what_its_name_says() {
    check(r#"{"exact": {"type": "order.created"}}"#, true);
    check(r#"{"exact": {"type": "order.create"}}"#, false);
    check(r#"{"prefix": {"type": "order."}}"#, true);
    check(r#"{"prefix": {"type": "rder."}}"#, false);
    check(r#"{"suffix": {"type": ".created"}}"#, true);
    check(r#"{"suffix": {"type": ".deleted"}}"#, false);
    check(r#"{"exact": {"subject": "order/42", "source": "/orders"}}"#, true);
    check(r#"{"exact": {"subject": "order/42", "source": "/other"}}"#, false);
    check(r#"{"all": [{"prefix": {"type": "order."}}, {"suffix": {"subject": "42"}}]}"#, true);
    check(r#"{"all": [{"prefix": {"type": "order."}}, {"suffix": {"subject": "43"}}]}"#, false);
    check(r#"{"any": [{"exact": {"id": "x"}}, {"exact": {"id": "evt-1"}}]}"#, true);
    check(r#"{"any": [{"exact": {"id": "x"}}, {"exact": {"id": "y"}}]}"#, false);
    check(r#"{"not": {"exact": {"id": "x"}}}"#, true);
    check(r#"{"not": {"exact": {"id": "evt-1"}}}"#, false);
}

#[test]
fn an_attribute_that_is_not_there_matches_nothing() {
    check(r#"{"exact": {"none": "x"}}"#, false);
    check(r#"{"not": {"prefix": {"none": "x"}}}"#, true);
    check(r#"{"prefix": {"traceparent": "00-"}}"#, true);
}

#[test]
fn what_is_no_filter_is_refused() {
    let bad = [
        "{}",
        r#"{"exact": {}}"#,
        r#"{"exact": {"type": ""}}"#,
        r#"{"exact": {"Type": "x"}}"#,
        r#"{"all": []}"#,
        r#"{"any": []}"#,
        r#"{"sql": "true"}"#,
        r#"{"exact": {"a": "1"}, "prefix": {"a": "1"}}"#,
        r#"{"exact": {"a": 1}}"#,
    ];
    for text in bad {
        assert!(serde_json::from_str::<Filter>(text).is_err(), "{text}");
    }
}

#[test]
fn a_filter_is_as_large_as_it_may_be_and_no_larger() {
    let one = || Filter::compare(Compare::Exact, "type", "x").unwrap();
    let many = |count: usize| Filter::any((0..count).map(|_| one()));
    assert!(many(FILTER_TERMS_MAX - 1).is_ok());
    assert_eq!(many(FILTER_TERMS_MAX), Err(BadFilter::TooLong));
    let deep = |depth: usize| (1..depth).try_fold(one(), |filter, _| filter.not());
    assert!(deep(FILTER_DEPTH_MAX).is_ok());
    assert_eq!(deep(FILTER_DEPTH_MAX + 1), Err(BadFilter::TooDeep));
}
