//! Rules about accepting.

use super::sample::{
    Bench, HOUR, MINUTE, completed, failed, fence_of, fresh_holder, get, list, names, parked,
};
use semel_core::{
    execution::Execution,
    fingerprint::Fingerprint,
    queue::{Accepted, BATCH_MAX, Fenced, Filter, Queue, Written},
    record::{Reason, Status},
    time::Timestamp,
};
use std::{collections::BTreeSet, future::poll_fn, task::Poll};

/// What was accepted is there, as it was, under the fence of the answer.
pub async fn a_new_execution_is_there_as_it_was_accepted(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let execution = bench.due("evt-1");
    assert_eq!(bench.get(&execution.id()).await, None);
    let fence = fence_of(&bench.accept(std::slice::from_ref(&execution)).await[0]);
    bench.expect_stored(fence, &execution).await;
}

/// Whoever sends it again is shown what is there, in every status, and changes nothing: not with another
/// payload either.
pub async fn a_duplicate_is_shown_what_is_there_and_changes_nothing(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let execution = bench.due("evt-1");
    let other = Execution {
        fingerprint: Fingerprint::of_bytes(b"other"),
        event: Some(b"other".as_slice().into()),
        ..bench.due_at("evt-1", bench.now() + HOUR)
    };
    let mut stands = bench.accept_new(&execution).await;
    let later = bench.now() + HOUR;
    let running = bench.leased(&execution, fresh_holder(), later);
    let next = [
        running.clone(),
        parked(&execution, bench.now()),
        failed(&running, Reason::OutcomeUnknown, Timestamp::NEVER),
        completed(&running, later),
    ];
    for after in [None].into_iter().chain(next.into_iter().map(Some)) {
        if let Some(value) = after {
            stands = Fenced { fence: bench.overwrite(stands.fence, &value).await, value };
        }
        for again in [&execution, &other] {
            let answer = bench.accept(std::slice::from_ref(again)).await;
            assert_eq!(answer, [Accepted::Duplicate(Box::new(stands.clone()))]);
            bench.expect_stored(stands.fence, &stands.value).await;
        }
    }
}

/// Of several with one id in a batch, the first is new, and the others are shown it.
pub async fn of_several_with_one_id_in_a_batch_the_first_is_new(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let first = bench.due("evt-1");
    let again = Execution { event: Some(b"again".as_slice().into()), ..first.clone() };
    let batch = [bench.due("evt-0"), first.clone(), again.clone(), bench.due("evt-2"), again];
    let answers = bench.accept(&batch).await;
    let fence = fence_of(&answers[1]);
    for answer in [&answers[2], &answers[4]] {
        let shown = Fenced { fence, value: first.clone() };
        assert_eq!(*answer, Accepted::Duplicate(Box::new(shown)), "not the first of the batch");
    }
    bench.expect_stored(fence, &first).await;
    fence_of(&answers[0]);
    fence_of(&answers[3]);
    assert_eq!(bench.counts().await.accepted, 3);
}

/// Each item of a batch is answered for by itself, in its place.
pub async fn a_batch_is_answered_for_in_order(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let batch: Vec<Execution> = (0..20).map(|it| bench.due(&format!("evt-{it}"))).collect();
    let known: Vec<Execution> = batch.iter().step_by(3).rev().cloned().collect();
    for it in &known {
        bench.accept_new(it).await;
    }
    let answers = bench.accept(&batch).await;
    for (answer, execution) in answers.iter().zip(&batch) {
        let stands = bench.stored(&execution.id()).await;
        assert_eq!(stands.value, *execution, "an answer has another's place");
        match answer {
            Accepted::New(fence) => assert!(!known.contains(execution) && stands.fence == *fence),
            Accepted::Duplicate(shown) => assert!(known.contains(execution) && **shown == stands),
        }
    }
}

/// What has expired is as good as absent: its id is accepted anew, under a higher fence, also twice in a batch.
pub async fn an_expired_execution_is_accepted_anew_under_a_higher_fence(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let old = completed(&bench.due("evt-1"), bench.now() - HOUR);
    let before = bench.accept_new(&old).await;
    let new = bench.due("evt-1");
    let answers = bench.accept(&[new.clone(), new.clone()]).await;
    let fence = fence_of(&answers[0]);
    assert!(before.fence < fence, "the fence went from {} to {fence}", before.fence);
    let shown = Fenced { fence, value: new.clone() };
    assert_eq!(answers[1], Accepted::Duplicate(Box::new(shown)));
    bench.expect_stored(fence, &new).await;
    let counts = bench.counts().await;
    assert_eq!((counts.accepted, counts.purged, counts.pending, counts.completed), (2, 1, 1, 0));
    let listed = list(queue, &bench.all(), 10).await;
    assert_eq!(listed, [Fenced { fence, value: new }], "the old one is still listed");
}

/// A node may take an execution as it accepts it: it is the node's until its lease lapses, and the node's fence
/// completes it.
pub async fn one_that_is_accepted_claimed_is_its_holders_until_the_lease_lapses(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let now = bench.now();
    let held = bench.leased(&bench.due("held"), fresh_holder(), now + HOUR);
    let lapsed = bench.leased(&bench.due("lapsed"), fresh_holder(), now - MINUTE);
    let held_fence = bench.accept_new(&held).await.fence;
    let lapsed_fence = bench.accept_new(&lapsed).await.fence;
    let handed_out = bench.claim(10).await;
    assert_eq!(names(&handed_out), ["lapsed"], "a lease was not respected, or not taken over");
    assert_eq!(handed_out[0].value.attempts, 2, "the attempt that lapsed counts");
    let done = completed(&held, now + HOUR);
    assert!(matches!(bench.write_one(held_fence, &done).await, Written::Won(_)));
    assert_eq!(bench.write_one(lapsed_fence, &completed(&lapsed, now + HOUR)).await, Written::Lost);
    let counts = bench.counts().await;
    assert_eq!((counts.in_progress, counts.completed), (1, 1));
}

/// A fact is kept and listed, counted where it stands, and never handed out.
pub async fn one_that_is_accepted_ended_is_kept_and_never_handed_out(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let later = bench.now() + HOUR;
    let facts = [
        completed(&bench.due("done"), later),
        failed(&bench.due("fatal"), Reason::Fatal, later),
        failed(&bench.due("unknown"), Reason::OutcomeUnknown, Timestamp::NEVER),
    ];
    for fact in &facts {
        let stands = bench.accept_new(fact).await;
        assert_eq!(stands.value, *fact);
        let again = bench.accept(std::slice::from_ref(fact)).await;
        assert_eq!(again, [Accepted::Duplicate(Box::new(stands))]);
    }
    assert_eq!(bench.claim(10).await, [], "what has ended was handed out");
    let failures = Filter { status: Some(Status::Failed), ..bench.all() };
    let listed = list(queue, &failures, 10).await;
    assert_eq!(names(&listed).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["fatal", "unknown"]));
    let counts = bench.counts().await;
    assert_eq!((counts.accepted, counts.completed, counts.pending), (3, 1, 0));
    assert_eq!(counts.failed.iter().sum::<u64>(), 2);
}

/// Nothing asked, nothing answered.
pub async fn empty_batches_are_answered_with_nothing(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    assert_eq!(bench.accept(&[]).await, []);
    assert_eq!(bench.write(&[]).await, []);
    assert_eq!(get(queue, &[]).await, []);
    let demand = semel_core::queue::Demand { holder: fresh_holder(), wants: Vec::new() };
    assert_eq!(super::sample::claim(queue, &demand).await, []);
}

/// The largest batch there can be is taken, and given back.
pub async fn the_largest_batch_is_taken(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let batch: Vec<Execution> = (0..BATCH_MAX).map(|it| bench.due(&format!("evt-{it}"))).collect();
    let ids: Vec<_> = batch.iter().map(Execution::id).collect();
    let fences: Vec<_> = bench.accept(&batch).await.iter().map(fence_of).collect();
    let expected =
        fences.into_iter().zip(&batch).map(|(fence, it)| Some(Fenced { fence, value: it.clone() }));
    assert!(get(queue, &ids).await == expected.collect::<Vec<_>>(), "the batch does not stand as accepted");
    let handed_out = bench.claim(BATCH_MAX as u32).await;
    assert_eq!(handed_out.len(), BATCH_MAX);
    let later = bench.now() + HOUR;
    let changes: Vec<_> =
        handed_out.iter().map(|it| super::sample::change(it.fence, &completed(&it.value, later))).collect();
    assert!(bench.write(&changes).await.iter().all(|it| matches!(it, Written::Won(_))));
    assert_eq!(bench.counts().await.completed, BATCH_MAX as u64);
}

/// An accept whose future is dropped half way happened for each execution or did not, and blocks nobody.
pub async fn a_dropped_accept_happened_or_did_not(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let batch = [bench.due("evt-1"), bench.due("evt-2")];
    let mut future = queue.accept(&batch);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
    drop(future);
    for (answer, execution) in bench.accept(&batch).await.iter().zip(&batch) {
        let stands = bench.stored(&execution.id()).await;
        assert_eq!(stands.value, *execution);
        match answer {
            Accepted::New(fence) => assert_eq!(stands.fence, *fence),
            Accepted::Duplicate(shown) => assert_eq!(stands, **shown),
        }
    }
    assert_eq!(bench.counts().await.accepted, 2);
}
