//! The execution machine as one table, and the promises that hold for any execution and input.

use crate::given::{NOON, REASONS, a_key, any_execution, any_input};
use proptest::prelude::*;
use semel_core::{
    call::{LAPSED, Resolution},
    execution::{
        Arrival, Attempt, DELAY_MAX, Due, ErrorPrint, Execution, ExecutionId, HISTORY_ATTEMPTS_MAX,
        HISTORY_ERROR_BYTES_MAX, Input, NoErrorPrint, Origin, Phase, Repeats, claimed, step,
    },
    fingerprint::Fingerprint,
    record::{Body, Holder, NotKept, Reason, Status},
    retry::{Jitter, RetryPolicy},
    time::Timestamp,
};
use std::{fmt::Write as _, time::Duration};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const ME: Holder = Holder(1);

/// Five attempts within an hour, on events of two hours at most.
fn policy() -> RetryPolicy {
    RetryPolicy::gen2()
        .with_attempts_max(Some(5))
        .and_then(|it| it.with_window(HOUR))
        .expect("values within their ranges")
        .with_event_age_max(Some(HOUR * 2))
}

fn fresh() -> Execution {
    let arrival = Arrival {
        key: a_key(),
        function: "process-order".into(),
        origin: Origin { source: "/shop".into(), id: "evt-1".into(), kind: "order.created".into() },
        order: None,
        fingerprint: Fingerprint::of_bytes(b"event"),
        event: b"event".as_slice().into(),
        event_time: Some(NOON - MINUTE * 2),
        event_expires_at: None,
    };
    Execution::accepted(NOON - MINUTE, arrival, NOON - MINUTE)
}

fn in_phase(phase: Phase, attempts: u32) -> Execution {
    let first_attempt_at = (attempts > 0).then(|| NOON - SECOND * 30);
    let last_error = (attempts > 1).then(|| "error 1".to_owned());
    Execution { phase, attempts, first_attempt_at, last_error, ..fresh() }
}

fn running(attempts: u32) -> Execution {
    in_phase(
        Phase::InProgress { holder: ME, lease_until: NOON + SECOND * 40, since: NOON - SECOND * 20 },
        attempts,
    )
}

fn failed(reason: Reason) -> Execution {
    let event = fresh().event.filter(|_| reason != Reason::Dropped);
    Execution { event, ..in_phase(Phase::Failed { reason, error: "error 2".to_owned() }, 2) }
}

fn kept() -> Body {
    Body::Kept { bytes: b"result".to_vec(), until: Timestamp::NEVER }
}

/// What the table goes through: a name, an execution, and its function's policy.
fn executions() -> Vec<(String, Execution, RetryPolicy)> {
    let due = |at| Phase::Pending(Due::At(at));
    let lapsed = Phase::InProgress { holder: ME, lease_until: NOON - SECOND, since: NOON - SECOND * 61 };
    let parked = Phase::Pending(Due::Parked { since: NOON - SECOND * 20, due_at: NOON - SECOND * 10 });
    let not_kept = Body::NotKept { cause: NotKept::TooLarge, size: 9, digest: [0; 32] };
    let since = |first: Duration, it| Execution { first_attempt_at: Some(NOON - first), ..it };
    let old = |it| Execution { event_time: Some(NOON - HOUR * 3), ..it };
    let expired = |it| Execution { event_expires_at: Some(NOON - SECOND), ..it };
    let mut rows = vec![
        ("PENDING, due".to_owned(), in_phase(due(NOON), 0)),
        ("PENDING, due later, second attempt".to_owned(), in_phase(due(NOON + SECOND * 9), 1)),
        ("PENDING, parked 20 s ago, second attempt".to_owned(), in_phase(parked, 1)),
        ("IN_PROGRESS, attempt 1".to_owned(), running(1)),
        ("IN_PROGRESS, attempt 2, lapsed".to_owned(), in_phase(lapsed, 2)),
        ("IN_PROGRESS, attempt 5, the last".to_owned(), running(5)),
        ("IN_PROGRESS, attempt 6, claimed after the last crashed".to_owned(), running(6)),
        ("IN_PROGRESS, attempt 3, window ends in 15 s".to_owned(), since(SECOND * 3_585, running(3))),
        ("IN_PROGRESS, attempt 3, window over".to_owned(), since(HOUR + SECOND, running(3))),
        ("IN_PROGRESS, attempt 1, event too old".to_owned(), old(running(1))),
        ("IN_PROGRESS, attempt 1, event expired".to_owned(), expired(running(1))),
        (
            "IN_PROGRESS, attempt 1, event too old, but redriven".to_owned(),
            Execution { generation: 1, ..expired(old(running(1))) },
        ),
        ("COMPLETED".to_owned(), in_phase(Phase::Completed(kept()), 2)),
        ("COMPLETED, result not kept".to_owned(), in_phase(Phase::Completed(not_kept), 2)),
    ];
    rows.extend(REASONS.map(|reason| (format!("FAILED, {reason}"), failed(reason))));
    let mut rows: Vec<_> = rows.into_iter().map(|(name, it)| (name, it, policy())).collect();
    for attempts in [1, 2] {
        let name = format!("IN_PROGRESS, attempt {attempts}, retry is off");
        rows.push((name, running(attempts), RetryPolicy::default()));
    }
    rows
}

/// Every input, and the variants of it that are told apart.
fn inputs() -> Vec<(&'static str, Input)> {
    let fail = |retry_after| Input::Fail { error: "boom".to_owned(), retry_after };
    vec![
        ("complete", Input::Complete(kept())),
        ("reject", Input::Reject { error: "no such order".to_owned() }),
        ("fail", fail(None)),
        ("fail, retry after 90 s", fail(Some(SECOND * 90))),
        ("fail, retry after a day", fail(Some(HOUR * 24))),
        ("interrupt", Input::Interrupt { error: "the caller stops".to_owned() }),
        ("doubt", Input::Doubt { error: "sent, no answer".to_owned(), was_made: true }),
        ("hand back for 7 s", Input::HandBack { delay: SECOND * 7 }),
        ("renew", Input::Renew { lease_until: NOON + MINUTE }),
        ("lapse", Input::Lapse),
        ("cancel", Input::Cancel),
        ("park", Input::Park),
        ("unpark", Input::Unpark),
        ("redrive", Input::Redrive { event: None }),
        ("redrive, edited", Input::Redrive { event: Some(b"edited".as_slice().into()) }),
        ("resolve: happened", Input::Resolve(Resolution::Happened(None))),
        ("resolve: happened, like so", Input::Resolve(Resolution::Happened(Some(vec![1])))),
        ("resolve: did not", Input::Resolve(Resolution::DidNot)),
        ("repeat", Input::Repeat(Repeats { same: 1, other: 0, last_at: Some(NOON) })),
    ]
}

fn relative(at: Timestamp) -> String {
    match at {
        Timestamp::NEVER => "never".to_owned(),
        at if at < NOON => format!("-{}s", NOON.since(at).as_secs()),
        at => format!("+{}s", at.since(NOON).as_secs()),
    }
}

/// An execution in one line; what is as ever is left out.
fn rendered(it: &Execution) -> String {
    let mut line = match &it.phase {
        Phase::Pending(Due::At(at)) => format!("PENDING due {}", relative(*at)),
        Phase::Pending(Due::Parked { since, due_at }) => {
            format!("PENDING parked since {}, due {}", relative(*since), relative(*due_at))
        }
        Phase::InProgress { lease_until, .. } => format!("IN_PROGRESS until {}", relative(*lease_until)),
        Phase::Completed(Body::Kept { until, .. }) => format!("COMPLETED, result until {}", relative(*until)),
        Phase::Completed(Body::NotKept { cause, .. }) => format!("COMPLETED, result not kept: {cause:?}"),
        Phase::Failed { reason, error } => format!("FAILED {reason} \"{error}\""),
    };
    write!(line, " | attempts {}", it.attempts).expect("a string");
    if let Some(first) = it.first_attempt_at {
        write!(line, " since {}", relative(first)).expect("a string");
    }
    if it.generation > 0 {
        write!(line, " | generation {}", it.generation).expect("a string");
    }
    if let Some(error) = &it.last_error {
        write!(line, " | last error \"{error}\"").expect("a string");
    }
    for attempt in &it.history {
        let times = format!("{} … {}", relative(attempt.began_at), relative(attempt.ended_at));
        let end = attempt.error.as_ref().map_or("done".to_owned(), |it| format!("\"{it}\""));
        write!(line, " | attempt {} {times}: {end}", attempt.number).expect("a string");
    }
    if it.repeats != Repeats::default() {
        write!(line, " | came again {} times", it.repeats.same).expect("a string");
    }
    if it.expires_at != Timestamp::NEVER {
        write!(line, " | expires {}", relative(it.expires_at)).expect("a string");
    }
    match it.event.as_deref() {
        None => line.push_str(" | no event"),
        Some(b"event") => {}
        Some(_) => line.push_str(" | another event"),
    }
    line
}

fn stepped(before: &Execution, input: &Input, policy: &RetryPolicy) -> Option<String> {
    let at = |jitter| step(NOON, before, input.clone(), policy, jitter).map(|it| rendered(&it));
    match (at(Jitter::LEAST), at(Jitter::MOST)) {
        (Ok(least), Ok(most)) if least == most => Some(least),
        (Ok(least), Ok(most)) => {
            assert!(least.starts_with("PENDING due") && most.starts_with("PENDING due"), "{least}\n{most}");
            let latest = most.split_whitespace().nth(2).expect("a due time");
            Some(least.replacen(" | attempts", &format!(" … {latest} | attempts"), 1))
        }
        (Err(_), Err(_)) => None,
        (Ok(it), Err(_)) | (Err(_), Ok(it)) => panic!("jitter decided about {it}"),
    }
}

/// The whole machine on one page: every phase, every input, at the edges of every limit.
#[test]
fn step_as_a_table() {
    let mut table = "times are relative to now; 5 attempts, 1 h window, 2 h event age\n".to_owned();
    for (name, before, policy) in executions() {
        writeln!(table, "\n{name}\n  = {}", rendered(&before)).unwrap();
        let refusal = before.refusal(NOON, &policy).filter(|_| before.status() == Status::InProgress);
        writeln!(table, "  due: {}", before.due_at().map_or("-".to_owned(), relative)).unwrap();
        if let Some(reason) = refusal {
            writeln!(table, "  must not be dispatched: {reason}").unwrap();
        }
        if let Some(after) = claimed(NOON, &before, ME, NOON + SECOND * 70) {
            writeln!(table, "  claim => {}", rendered(&after)).unwrap();
        }
        let mut refused = Vec::new();
        for (name, input) in inputs() {
            match stepped(&before, &input, &policy) {
                Some(after) => writeln!(table, "  {name} => {after}").unwrap(),
                None => refused.push(name),
            }
        }
        writeln!(table, "  refused: {}", refused.join(" · ")).unwrap();
    }
    insta::assert_snapshot!(table);
}

fn check_step(before: &Execution, input: Input) -> Execution {
    step(NOON, before, input, &policy(), Jitter::LEAST).expect("the phase takes this input")
}

/// Invariant 17: a crash uses up an attempt, so poison ends as a dead letter.
#[test]
fn an_event_that_kills_whoever_runs_it_ends_as_a_dead_letter() {
    let mut now = NOON;
    let mut execution = fresh();
    let mut dispatched = 0;
    for _ in 0..100 {
        let lease_until = now + SECOND * 70;
        execution = claimed(now, &execution, ME, lease_until).expect("it is due");
        if execution.refusal(now, &policy()).is_some() {
            execution = step(now, &execution, Input::Lapse, &policy(), Jitter::LEAST).unwrap();
            break;
        }
        dispatched += 1;
        // And here its holder dies.
        now = lease_until;
    }
    assert_eq!(dispatched, 5);
    assert_eq!(execution.attempts, 5, "the attempt that was refused does not count");
    assert_eq!(execution.phase, Phase::Failed { reason: Reason::Exhausted, error: LAPSED.to_owned() });
    assert!(execution.is_dead_letter());
}

#[test]
fn what_is_not_due_cannot_be_claimed() {
    let claim = |it: &Execution| claimed(NOON, it, ME, NOON + MINUTE);
    assert!(claim(&in_phase(Phase::Pending(Due::At(NOON)), 0)).is_some());
    assert!(claim(&in_phase(Phase::Pending(Due::At(NOON + SECOND)), 0)).is_none());
    assert!(claim(&running(1)).is_none(), "it is leased");
    let parked = check_step(&in_phase(Phase::Pending(Due::At(NOON)), 0), Input::Park);
    assert!(claim(&parked).is_none(), "it is parked");
    assert!(claim(&in_phase(Phase::Completed(kept()), 1)).is_none());
    assert!(REASONS.iter().all(|reason| claim(&failed(*reason)).is_none()));
}

#[test]
fn a_late_completion_is_taken_while_nobody_took_over() {
    let lapsed =
        in_phase(Phase::InProgress { holder: ME, lease_until: NOON - HOUR, since: NOON - HOUR * 2 }, 1);
    assert_eq!(check_step(&lapsed, Input::Complete(kept())).status(), Status::Completed);
}

#[test]
fn a_dropped_execution_loses_its_event_but_is_still_recognised() {
    let fail = Input::Fail { error: "boom".to_owned(), retry_after: None };
    let dropped = step(NOON, &running(1), fail, &RetryPolicy::default(), Jitter::LEAST).unwrap();
    assert_eq!(dropped.phase.reason(), Some(Reason::Dropped));
    assert!(!dropped.is_dead_letter() && !dropped.is_expired(NOON + HOUR));
    assert!(step(NOON, &dropped, Input::Redrive { event: None }, &policy(), Jitter::LEAST).is_err());
    check_step(&dropped, Input::Redrive { event: Some(b"again".as_slice().into()) });
}

#[test]
fn a_duplicate_does_not_change_when_something_failed() {
    let dead = check_step(&running(1), Input::Reject { error: "no".to_owned() });
    let more = Repeats { same: 1, other: 0, last_at: Some(NOON + HOUR) };
    let again = step(NOON + HOUR, &dead, Input::Repeat(more), &policy(), Jitter::LEAST).unwrap();
    assert_eq!((again.updated_at, again.repeats), (NOON, more));
}

#[test]
fn a_doubt_about_an_attempt_that_lapsed_counts_that_one_and_no_other() {
    let lapsed =
        in_phase(Phase::InProgress { holder: ME, lease_until: NOON - HOUR, since: NOON - HOUR * 2 }, 1);
    assert!(!lapsed.is_after_lapse());
    let again = claimed(NOON, &lapsed, ME, NOON + MINUTE).unwrap();
    assert!(again.is_after_lapse());
    let doubt = check_step(&again, Input::Doubt { error: "gone".to_owned(), was_made: false });
    assert_eq!((doubt.phase.reason(), doubt.attempts), (Some(Reason::OutcomeUnknown), 1));
    assert_eq!((doubt.history.len(), doubt.expires_at), (1, Timestamp::NEVER));
    let restarted = check_step(&doubt, Input::Resolve(Resolution::DidNot));
    let first = claimed(NOON, &restarted, ME, NOON + MINUTE).unwrap();
    assert!(!first.is_after_lapse(), "it is another generation");
}

#[test]
fn every_other_failure_keeps_the_event_and_can_be_redriven() {
    let fail = || Input::Fail { error: "boom".to_owned(), retry_after: None };
    let window_over = Execution { first_attempt_at: Some(NOON - HOUR * 2), ..running(3) };
    for dead in [
        check_step(&running(1), Input::Reject { error: "no".to_owned() }),
        check_step(&running(5), fail()),
        check_step(&window_over, fail()),
        check_step(&running(1), Input::Cancel),
    ] {
        let is_cancelled = dead.phase.reason() == Some(Reason::Cancelled);
        assert_ne!(dead.is_dead_letter(), is_cancelled, "{dead:?}");
        let again = check_step(&dead, Input::Redrive { event: None });
        assert_eq!((again.generation, again.attempts), (1, 0));
        assert_eq!((again.due_at(), again.first_attempt_at), (Some(NOON), None));
        assert_eq!((again.id(), again.expires_at), (dead.id(), Timestamp::NEVER));
        assert!(again != dead, "a redrive always changes what is stored");
    }
}

#[test]
fn a_redrive_runs_even_what_was_too_old() {
    let old = Execution { event_expires_at: Some(NOON - HOUR), ..failed(Reason::TooOld) };
    let again = check_step(&old, Input::Redrive { event: None });
    let claimed = claimed(NOON, &again, ME, NOON + MINUTE).unwrap();
    assert_eq!(claimed.refusal(NOON, &policy()), None);
}

#[test]
fn time_spent_parked_does_not_count_towards_the_window() {
    let waiting = in_phase(Phase::Pending(Due::At(NOON)), 1);
    let parked = check_step(&waiting, Input::Park);
    let resumed = step(NOON + HOUR * 5, &parked, Input::Unpark, &policy(), Jitter::LEAST).unwrap();
    assert_eq!(resumed.first_attempt_at, waiting.first_attempt_at.map(|it| it + HOUR * 5));
    let claimed = claimed(NOON + HOUR * 5, &resumed, ME, NOON + HOUR * 6).unwrap();
    let unaged = policy().with_event_age_max(None);
    assert_eq!(claimed.refusal(NOON + HOUR * 5, &unaged), None);
}

#[test]
fn only_the_latest_attempts_are_remembered_and_their_errors_are_cut() {
    let unlimited = policy().with_attempts_max(None).unwrap();
    let mut execution = fresh();
    let error = "ü".repeat(HISTORY_ERROR_BYTES_MAX);
    for _ in 0..=HISTORY_ATTEMPTS_MAX {
        let due_at = execution.due_at().unwrap();
        let running = claimed(due_at, &execution, ME, due_at + MINUTE).unwrap();
        let fail = Input::Fail { error: error.clone(), retry_after: None };
        execution = step(due_at, &running, fail, &unlimited, Jitter::LEAST).unwrap();
    }
    let numbers: Vec<u32> = execution.history.iter().map(|it| it.number).collect();
    assert_eq!(numbers, (2..=11).collect::<Vec<_>>());
    let cut = execution.history[0].error.as_deref().unwrap();
    assert_eq!(cut.len(), HISTORY_ERROR_BYTES_MAX);
}

#[test]
fn an_attempt_whose_holder_died_is_remembered_until_its_lease_ran_out() {
    let (begun, lapsed) = (NOON - MINUTE, NOON);
    let first = claimed(begun, &fresh(), ME, lapsed).unwrap();
    let second = claimed(NOON + HOUR, &first, Holder(2), NOON + HOUR * 2).unwrap();
    let expected = Attempt {
        generation: 0,
        number: 1,
        began_at: begun,
        ended_at: lapsed,
        error: Some(LAPSED.to_owned()),
    };
    assert_eq!(second.history, [expected]);
}

#[test]
fn errors_that_differ_only_in_numbers_and_ids_share_a_print() {
    let check = |one: &str, other: &str, same: bool| {
        assert_eq!(ErrorPrint::of(one) == ErrorPrint::of(other), same, "{one} | {other}");
    };
    check("timeout after 30 s", "timeout after 31 s", true);
    check("row 17 of t2", "row 9 of t13", true);
    check("order 6f1d2c3b4a59 is locked", "order 1234567890ab is locked", true);
    check("the facade is locked", "the deadbeef is locked", false);
    check("503: not now", "503: gone", false);
    check("", "x", false);
    check("für 1", "für 2", true);
    let print = ErrorPrint::of("x");
    assert_eq!(print.to_string().parse(), Ok(print));
    for wrong in ["", "12", "+123456789abcdef", "0123456789abcdefg"] {
        assert_eq!(wrong.parse::<ErrorPrint>(), Err(NoErrorPrint), "{wrong}");
    }
}

#[test]
fn the_id_is_the_keys_identity() {
    assert_eq!(fresh().id(), ExecutionId::of(&a_key()));
    assert_eq!(fresh().id().to_string(), a_key().identity().to_string());
}

#[test]
fn nothing_is_put_off_for_longer_than_the_limit() {
    let handed = check_step(&running(1), Input::HandBack { delay: Duration::MAX });
    assert_eq!(handed.due_at(), Some(NOON + DELAY_MAX));
}

#[test]
fn a_refusal_says_what_was_asked_of_what() {
    let error =
        step(NOON, &failed(Reason::OutcomeUnknown), Input::Redrive { event: None }, &policy(), Jitter::LEAST);
    assert_eq!(
        error.unwrap_err().to_string(),
        "an execution that is FAILED (outcome_unknown) does not take `redrive`"
    );
}

proptest! {
    #![proptest_config(crate::given::config())]

    /// The machine is total, and keeps these promises whatever stands and whatever happens.
    #[test]
    fn every_step_keeps_the_promises(
        before in any_execution(),
        input in any_input(),
        is_on in any::<bool>(),
        jitter in any::<u32>(),
    ) {
        let policy = policy().with_retry(is_on);
        let Ok(after) = step(NOON, &before, input.clone(), &policy, Jitter(jitter)) else { return Ok(()) };
        let is_repeat = matches!(input, Input::Repeat(_));
        prop_assert!(is_repeat || before.status() != Status::Completed, "what is completed stays so");
        if is_repeat {
            let same = Execution { repeats: before.repeats, updated_at: before.updated_at, ..after };
            prop_assert_eq!(same, before, "a repeat is counted, and changes nothing else");
            return Ok(());
        }
        prop_assert_eq!((after.id(), &after.function), (before.id(), &before.function));
        prop_assert_eq!(after.fingerprint, before.fingerprint);
        prop_assert_eq!(after.accepted_at, before.accepted_at);
        prop_assert_eq!(after.updated_at, NOON);
        prop_assert!(after.generation >= before.generation);
        prop_assert!(after.attempts <= before.attempts, "only a claim begins an attempt");
        let in_doubt = after.phase.reason() == Some(Reason::OutcomeUnknown);
        prop_assert_eq!(after.expires_at == Timestamp::NEVER, !after.status().is_terminal() || in_doubt);
        let restarts = matches!(input, Input::Redrive { .. } | Input::Resolve(Resolution::DidNot));
        prop_assert_eq!(after.generation > before.generation, restarts && before.generation < u32::MAX);
        if after.phase.reason() != Some(Reason::Dropped) && before.event.is_some() {
            prop_assert!(after.event.is_some(), "only what is dropped loses its event");
        }
    }

    #[test]
    fn every_claim_counts_and_leases(before in any_execution(), holder in any::<u128>()) {
        let Some(after) = claimed(NOON, &before, Holder(holder), NOON + MINUTE) else {
            prop_assert!(before.due_at().is_none_or(|it| it > NOON));
            return Ok(());
        };
        prop_assert_eq!(after.attempts, before.attempts.saturating_add(1));
        prop_assert_eq!(after.due_at(), Some(NOON + MINUTE));
        prop_assert!(after.first_attempt_at.is_some());
        prop_assert_eq!((after.generation, after.expires_at), (before.generation, before.expires_at));
        prop_assert_eq!(after.event, before.event);
    }
}
