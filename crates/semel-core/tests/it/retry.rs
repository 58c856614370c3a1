//! Retry policies: delays stay in their band, limits end what they must, and knobs have ranges.

use crate::given::{NOON, a_moment};
use proptest::prelude::*;
use semel_core::{
    record::Reason,
    retry::{
        Backoff, DELAY_MAX, Jitter, Next, OutOfRange, Progress, RetryPolicy, START_MARGIN, WINDOW_MAX,
        WINDOW_MIN,
    },
    time::Timestamp,
};
use std::{fmt::Write as _, time::Duration};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn any_backoff() -> impl Strategy<Value = Backoff> {
    let delay = || (0..=600_000_u64).prop_map(Duration::from_millis);
    prop_oneof![
        3 => (delay(), delay()).prop_map(|(a, b)| Backoff::Exponential { min: a.min(b), max: a.max(b) }),
        1 => Just(Backoff::Immediate),
        2 => proptest::collection::vec(delay(), 1..10).prop_map(Backoff::Schedule),
    ]
}

fn any_policy() -> impl Strategy<Value = RetryPolicy> {
    let window = (600..=604_800_u64).prop_map(Duration::from_secs);
    let age = proptest::option::of((0..1_000_000_u64).prop_map(Duration::from_secs));
    (any_backoff(), window, proptest::option::of(5..=100_u32), age).prop_map(
        |(backoff, window, attempts, age)| {
            RetryPolicy::gen2()
                .with_backoff(backoff)
                .and_then(|it| it.with_window(window))
                .and_then(|it| it.with_attempts_max(attempts))
                .expect("values within their ranges")
                .with_event_age_max(age)
        },
    )
}

fn progress(attempts: u32) -> Progress {
    Progress { attempts, first_attempt_at: NOON, event_at: NOON, event_expires_at: None, busy_until: None }
}

fn check_next(policy: &RetryPolicy, after: Duration, progress: Progress, expected: Next) {
    assert_eq!(policy.next(NOON + after, &progress, None, Jitter::LEAST), expected, "{after:?} {progress:?}");
}

#[test]
fn presets_are_what_their_names_promise() {
    let off = RetryPolicy::default();
    assert!(!off.is_on());
    assert_eq!((off.window(), off.timeout(), off.attempts_max()), (DAY, MINUTE, None));
    assert_eq!(RetryPolicy::gen1(), off.clone().with_retry(true).with_window(DAY * 7).unwrap());
    assert_eq!(RetryPolicy::gen2(), off.clone().with_retry(true));
    assert_eq!(RetryPolicy::pubsub().window(), DAY * 7);
    assert_eq!(RetryPolicy::immediate().backoff(), &Backoff::Immediate);
    assert_eq!(off.backoff(), &Backoff::Exponential { min: SECOND * 10, max: SECOND * 600 });
}

/// Google Cloud, *Enable event-driven function retries*, section *Semantics of retry*: without retries an event that fails is
/// dropped and reported as handled; with them, a function of the first generation is retried for 7 days, one of the second for
/// 24 hours, after an exponential backoff of between 10 and 600 seconds. Eventarc, *Retry events*: messages are kept for 24
/// hours, sent again after at least 10 seconds, at most 600. Pub/Sub, *Subscription properties*: messages are retained for 7
/// days unless said otherwise, and for 10 minutes at least; and its `RetryPolicy`: a backoff of 0 to 600 seconds, and of 10 to
/// 600 where nothing is said.
#[test]
fn functions_are_retried_as_google_has_published() {
    let backoff = Backoff::Exponential { min: SECOND * 10, max: SECOND * 600 };
    for (policy, window) in
        [(RetryPolicy::gen1(), DAY * 7), (RetryPolicy::gen2(), HOUR * 24), (RetryPolicy::pubsub(), DAY * 7)]
    {
        assert_eq!((policy.is_on(), policy.window(), policy.attempts_max()), (true, window, None));
        assert_eq!(policy.backoff(), &backoff);
        let first = policy.next(NOON + SECOND, &progress(1), None, Jitter::LEAST);
        assert_eq!(first, Next::Retry(NOON + SECOND * 11), "at least 10 seconds");
        let late = policy.next(NOON + SECOND, &progress(50), None, Jitter::MOST);
        assert_eq!(late, Next::Retry(NOON + SECOND * 601), "at most 600 seconds");
        let last = |after: Duration| {
            policy.next(NOON + window - SECOND * 10 + after, &progress(50), None, Jitter::LEAST)
        };
        assert_eq!(last(Duration::ZERO), Next::Retry(NOON + window));
        assert_eq!(last(SECOND), Next::Dead(Reason::Window));
    }
    let off = RetryPolicy::default();
    assert_eq!(off.next(NOON, &progress(1), None, Jitter::LEAST), Next::Dead(Reason::Dropped));
    assert_eq!((WINDOW_MIN, WINDOW_MAX, DELAY_MAX), (MINUTE * 10, DAY * 7, SECOND * 600));
}

#[test]
fn every_knob_names_itself_its_value_and_its_range() {
    let policy = RetryPolicy::gen2;
    let exponential = |min, max| policy().with_backoff(Backoff::Exponential { min, max });
    let schedule = |delays| policy().with_backoff(Backoff::Schedule(delays));
    for (result, message) in [
        (policy().with_window(MINUTE * 9), "`window` is 540s, but must be 600s … 604800s"),
        (policy().with_window(DAY * 8), "`window` is 691200s, but must be 600s … 604800s"),
        (exponential(SECOND, SECOND * 601), "`backoff.max` is 601s, but must be 0ns … 600s"),
        (exponential(SECOND * 2, SECOND), "`backoff.min` is 2s, but must be 0ns … 1s"),
        (schedule(vec![]), "`backoff.schedule length` is 0, but must be 1 … 100"),
        (schedule(vec![SECOND; 101]), "`backoff.schedule length` is 101, but must be 1 … 100"),
        (schedule(vec![HOUR * 200]), "`backoff.schedule` is 720000s, but must be 0ns … 604800s"),
        (policy().with_attempts_max(Some(4)), "`attempts_max` is 4, but must be 5 … 100"),
        (policy().with_attempts_max(Some(101)), "`attempts_max` is 101, but must be 5 … 100"),
        (policy().with_timeout(Duration::ZERO), "`timeout` is 0ns, but must be 1s … 3600s"),
        (policy().with_timeout(HOUR + SECOND), "`timeout` is 3601s, but must be 1s … 3600s"),
        (policy().with_retention(SECOND), "`retention` is 1s, but must be 60s … 315360000s"),
    ] {
        let error: OutOfRange = result.expect_err(message);
        assert_eq!(error.to_string(), message);
        assert!(message.contains(error.knob()));
    }
}

#[test]
fn edges_of_every_range_are_within_it() {
    let policy = RetryPolicy::gen2;
    assert!(policy().with_window(MINUTE * 10).is_ok() && policy().with_window(DAY * 7).is_ok());
    assert!(policy().with_attempts_max(Some(5)).is_ok() && policy().with_attempts_max(Some(100)).is_ok());
    assert!(policy().with_timeout(SECOND).is_ok() && policy().with_timeout(HOUR).is_ok());
    let widest = Backoff::Exponential { min: Duration::ZERO, max: DELAY_MAX };
    assert!(policy().with_backoff(widest).is_ok());
}

#[test]
fn doubling_from_zero_gets_away_from_zero() {
    let backoff = Backoff::Exponential { min: Duration::ZERO, max: DELAY_MAX };
    let policy = RetryPolicy::gen2().with_backoff(backoff).unwrap();
    assert_eq!(policy.band(1), Duration::ZERO..=SECOND * 2);
    assert_eq!(policy.band(5), Duration::ZERO..=SECOND * 32);
    assert_eq!(policy.band(u32::MAX), Duration::ZERO..=DELAY_MAX);
}

#[test]
fn a_schedule_is_kept_to_and_its_last_delay_repeats() {
    let delays = vec![SECOND, SECOND * 5, MINUTE];
    let policy = RetryPolicy::gen2().with_backoff(Backoff::Schedule(delays)).unwrap();
    let delay = |attempts| policy.delay(attempts, Jitter(12_345)).as_secs();
    assert_eq!([1, 2, 3, 4, 100].map(delay), [1, 5, 60, 60, 60]);
}

/// *Standard Webhooks*, section *Deliverability and reliability*: its example of a schedule.
#[test]
fn standard_webhooks_ends_with_its_schedule_not_with_the_window() {
    let policy = RetryPolicy::standard_webhooks();
    let minutes: Vec<u64> = policy.timetable().map(|it| it.earliest.as_secs() / 60).collect();
    assert_eq!(minutes, [0, 0, 5, 35, 155, 455, 1_055, 1_895, 3_095, 4_535]);
}

#[test]
fn retry_after_lengthens_up_to_the_policy_and_never_shortens() {
    let next = |policy: &RetryPolicy, asked: Duration| match policy.next(
        NOON,
        &progress(1),
        Some(asked),
        Jitter::LEAST,
    ) {
        Next::Retry(at) => at.since(NOON).as_secs(),
        Next::Dead(reason) => panic!("{reason}"),
    };
    assert_eq!(next(&RetryPolicy::gen2(), SECOND), 10);
    assert_eq!(next(&RetryPolicy::gen2(), SECOND * 90), 90);
    assert_eq!(next(&RetryPolicy::gen2(), DAY), 600);
    assert_eq!(next(&RetryPolicy::immediate(), SECOND * 90), 90);
    assert_eq!(next(&RetryPolicy::immediate(), Duration::MAX), 600);
    let webhooks = RetryPolicy::standard_webhooks();
    assert_eq!(next(&webhooks, SECOND), 5);
    assert_eq!(next(&webhooks, HOUR * 2), 7_200, "it may rest for a day, so it may ask for two hours");
    assert_eq!(next(&webhooks, DAY * 3), 86_400);
    let hasty = RetryPolicy::gen2().with_backoff(Backoff::Schedule(vec![SECOND])).unwrap();
    assert_eq!(next(&hasty, DAY), 600, "a short schedule is no shorter than what any policy allows");
}

#[test]
fn each_limit_ends_it_at_its_edge_and_by_its_name() {
    let at = |after: Duration| Next::Retry(NOON + after);
    let policy = RetryPolicy::gen2().with_attempts_max(Some(5)).unwrap().with_window(HOUR).unwrap();
    check_next(&policy, SECOND, progress(4), at(SECOND * 11));
    check_next(&policy, SECOND, progress(5), Next::Dead(Reason::Exhausted));
    check_next(&policy, SECOND * 3_590, progress(4), at(HOUR));
    check_next(&policy, SECOND * 3_591, progress(4), Next::Dead(Reason::Window));
    check_next(&RetryPolicy::default(), SECOND, progress(1), Next::Dead(Reason::Dropped));

    let aged = policy.clone().with_event_age_max(Some(MINUTE));
    check_next(&aged, SECOND * 50, progress(1), at(MINUTE));
    check_next(&aged, SECOND * 51, progress(1), Next::Dead(Reason::TooOld));
    // The event's own expiry counts whatever the policy says.
    let expires = Progress { event_expires_at: Some(NOON + MINUTE), ..progress(1) };
    check_next(&policy, SECOND * 50, expires, at(MINUTE));
    check_next(&policy, SECOND * 51, expires, Next::Dead(Reason::TooOld));
    // Of two limits the one that was passed first is the reason.
    let both = Progress { event_expires_at: Some(NOON + HOUR * 2), ..progress(1) };
    check_next(&policy, HOUR * 3, both, Next::Dead(Reason::Window));
}

#[test]
fn jitter_never_decides_whether_there_is_another_attempt() {
    let policy = RetryPolicy::gen2().with_window(HOUR).unwrap();
    let next = |after, jitter| policy.next(NOON + after, &progress(9), None, jitter);
    for in_time in [SECOND * 3_585, SECOND * 3_590] {
        let shortest = Next::Retry(NOON + in_time + SECOND * 10);
        assert_eq!(next(in_time, Jitter::LEAST), shortest);
        assert_eq!(next(in_time, Jitter::MOST), shortest, "it was cut short as far as it could be");
    }
    let too_late = SECOND * 3_595;
    assert_eq!(next(too_late, Jitter::LEAST), Next::Dead(Reason::Window));
    assert_eq!(next(too_late, Jitter::MOST), Next::Dead(Reason::Window));
}

/// What is due at the end is refused by whoever claims it a millisecond later.
#[test]
fn a_delay_that_is_cut_short_leaves_time_to_claim_the_attempt() {
    let policy = RetryPolicy::gen2().with_window(MINUTE * 10).unwrap();
    let expires = Progress { event_expires_at: Some(NOON + MINUTE * 10), ..progress(9) };
    let aged = policy.clone().with_window(HOUR).unwrap().with_event_age_max(Some(MINUTE * 10));
    for (policy, progress) in [(&policy, progress(9)), (&aged, progress(9)), (&policy, expires)] {
        let Next::Retry(at) = policy.next(NOON + MINUTE * 9, &progress, None, Jitter::MOST) else {
            panic!("the shortest delay is in time");
        };
        assert_eq!(at, NOON + MINUTE * 10 - START_MARGIN);
        let claimed = Progress { attempts: 10, ..progress };
        assert_eq!(policy.refusal(at + SECOND * 9, &claimed), None);
    }
}

#[test]
fn what_may_still_be_at_work_is_let_finish_however_short_the_delays_are() {
    let backoff = Backoff::Exponential { min: SECOND, max: SECOND * 5 };
    let policy = RetryPolicy::gen2().with_backoff(backoff).unwrap().with_window(MINUTE * 10).unwrap();
    let next = |busy: Duration, jitter| {
        policy.next(NOON, &Progress { busy_until: Some(NOON + busy), ..progress(1) }, None, jitter)
    };
    assert_eq!(next(SECOND * 50, Jitter::LEAST), Next::Retry(NOON + SECOND * 50));
    assert_eq!(next(SECOND * 50, Jitter::MOST), Next::Retry(NOON + SECOND * 50));
    assert_eq!(next(Duration::ZERO, Jitter::LEAST), Next::Retry(NOON + SECOND));
    assert_eq!(next(MINUTE * 10, Jitter::MOST), Next::Retry(NOON + MINUTE * 10));
    assert_eq!(next(MINUTE * 11, Jitter::MOST), Next::Dead(Reason::Window));
}

#[test]
fn a_claimed_attempt_is_refused_only_when_its_limit_is_passed() {
    let policy = RetryPolicy::gen2().with_attempts_max(Some(5)).unwrap().with_window(HOUR).unwrap();
    let refusal = |after: Duration, attempts| policy.refusal(NOON + after, &progress(attempts));
    assert_eq!(refusal(SECOND, 5), None);
    assert_eq!(refusal(SECOND, 6), Some(Reason::Exhausted));
    assert_eq!(refusal(HOUR, 2), None);
    assert_eq!(refusal(HOUR + SECOND, 2), Some(Reason::Window));
    assert_eq!(refusal(DAY, 1), None, "the first attempt opens the window");
    let off = RetryPolicy::default();
    assert_eq!(off.refusal(NOON, &progress(1)), None);
    assert_eq!(off.refusal(NOON, &progress(2)), Some(Reason::Dropped));
    let old = Progress { event_expires_at: Some(NOON), ..progress(1) };
    assert_eq!(off.refusal(NOON + SECOND, &old), Some(Reason::TooOld));
}

#[test]
fn timetables_read_as_plans() {
    let limited = |policy: RetryPolicy| policy.with_attempts_max(Some(6)).unwrap();
    let schedule = Backoff::Schedule(vec![SECOND * 5, MINUTE, MINUTE * 10]);
    let mut table = String::new();
    for (name, policy) in [
        ("default (off)", RetryPolicy::default()),
        ("gen2, 6 attempts", limited(RetryPolicy::gen2())),
        ("immediate, 6 attempts", limited(RetryPolicy::immediate())),
        ("schedule, 10 min", {
            let policy = RetryPolicy::gen2().with_backoff(schedule).unwrap();
            policy.with_window(MINUTE * 10).unwrap()
        }),
    ] {
        writeln!(table, "{name}").unwrap();
        for it in policy.timetable() {
            writeln!(table, "  attempt {} after {:?} … {:?}", it.attempt, it.earliest, it.latest).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

proptest! {
    #![proptest_config(crate::given::config())]

    #[test]
    fn a_delay_lies_in_its_band(policy in any_policy(), attempts in any::<u32>(), jitter in any::<u32>()) {
        let band = policy.band(attempts);
        let delay = policy.delay(attempts, Jitter(jitter));
        prop_assert!(band.contains(&delay), "{:?} not in {:?}", delay, band);
        prop_assert!(*band.end() <= DELAY_MAX);
        if let Backoff::Exponential { min, max } = policy.backoff() {
            prop_assert!(*min <= delay && delay <= *max);
        }
        prop_assert_eq!(policy.delay(attempts, Jitter::LEAST), *band.start());
        prop_assert_eq!(policy.delay(attempts, Jitter::MOST), *band.end());
    }

    #[test]
    fn bands_never_narrow_and_jitter_never_turns_back(policy in any_policy(), attempts in 0..200_u32, jitter in any::<(u32, u32)>()) {
        if let Backoff::Exponential { .. } = policy.backoff() {
            prop_assert!(policy.band(attempts).end() <= policy.band(attempts + 1).end());
        }
        let (low, high) = (jitter.0.min(jitter.1), jitter.0.max(jitter.1));
        prop_assert!(policy.delay(attempts, Jitter(low)) <= policy.delay(attempts, Jitter(high)));
    }

    /// Invariant 21: whatever the clock and the history, the next attempt is in the band, or there is none.
    #[test]
    fn the_next_attempt_is_within_every_limit(
        policy in any_policy(),
        now in a_moment(),
        first_attempt_at in a_moment(),
        event in (a_moment(), proptest::option::of(a_moment())),
        attempts in 1..200_u32,
        retry_after in proptest::option::of(0..1_000_000_000_u64),
        jitter in any::<u32>(),
    ) {
        let (event_at, event_expires_at) = event;
        let progress = Progress { attempts, first_attempt_at, event_at, event_expires_at, busy_until: None };
        let retry_after = retry_after.map(Duration::from_millis);
        match policy.next(now, &progress, retry_after, Jitter(jitter)) {
            Next::Dead(reason) => prop_assert_ne!(reason, Reason::Dropped),
            Next::Retry(at) => {
                prop_assert!(at <= first_attempt_at + policy.window());
                prop_assert!(at <= event.1.unwrap_or(Timestamp::NEVER));
                prop_assert!(policy.attempts_max().is_none_or(|it| attempts < it));
                prop_assert!(at.since(now) <= DELAY_MAX);
                prop_assert!(at >= now + *policy.band(attempts).start());
            }
        }
    }

    #[test]
    fn a_timetable_moves_forward_and_ends_with_the_window(policy in any_policy()) {
        let mut last = Duration::ZERO;
        for (index, it) in policy.timetable().take(200).enumerate() {
            prop_assert_eq!(it.attempt as usize, index + 1);
            prop_assert!(last <= it.earliest && it.earliest <= it.latest.max(it.earliest));
            prop_assert!(it.earliest <= policy.window() && it.latest <= policy.window());
            last = it.earliest;
        }
        if let Some(most) = policy.attempts_max() {
            prop_assert!(policy.timetable().count() <= most as usize);
        }
    }
}
