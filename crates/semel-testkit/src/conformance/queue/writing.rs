//! Rules about writing.

use super::sample::{
    Bench, HOUR, change, completed, failed, fence_of, fresh_holder, get, parked, pending, redriven,
};
use semel_core::{
    execution::Execution,
    fence::Fence,
    queue::{CAUSES_MAX, Change, Queue, Written},
    record::Reason,
    time::Timestamp,
};
use std::{future::poll_fn, task::Poll};

/// Naming the current fence wins, and the write's own fence is higher.
pub async fn the_current_fence_writes_and_gets_a_higher_one(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let first = bench.accept_new(&bench.due("evt-1")).await;
    let (mut fence, now) = (first.fence, bench.now());
    let running = bench.leased(&first.value, fresh_holder(), now + HOUR);
    let later = pending(&running, now + HOUR);
    let dead = failed(&running, Reason::Exhausted, now + HOUR);
    for after in [running.clone(), later, running.clone(), parked(&running, now), running, dead] {
        let next = bench.overwrite(fence, &after).await;
        assert!(fence < next, "the fence went from {fence} to {next}");
        bench.expect_stored(next, &after).await;
        fence = next;
    }
}

/// A holder that was superseded writes nothing, also when the execution looks as if it were still its own.
pub async fn a_stale_fence_never_writes_to_an_execution(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let accepted = bench.accept_new(&bench.due("evt-1")).await;
    let held = bench.leased(&accepted.value, fresh_holder(), bench.now() + HOUR);
    let stale = bench.overwrite(accepted.fence, &held).await;
    let current = bench.overwrite(stale, &held).await;
    for old in [accepted.fence, stale] {
        assert_eq!(bench.write_one(old, &completed(&held, bench.now() + HOUR)).await, Written::Lost);
        bench.expect_stored(current, &held).await;
    }
    assert_eq!(bench.counts().await.completed, 0);
}

/// A fence that was never issued is no better than a stale one: equality is asked, not order.
pub async fn a_fence_from_the_future_never_writes_to_an_execution(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let accepted = bench.accept_new(&bench.due("evt-1")).await;
    let ahead = Fence::new(accepted.fence.get() + 1_000).expect("more than zero");
    let done = completed(&accepted.value, bench.now() + HOUR);
    assert_eq!(bench.write_one(ahead, &done).await, Written::Lost);
    bench.expect_stored(accepted.fence, &accepted.value).await;
}

/// A change of what is not there is lost, and creates nothing: neither it nor what it causes.
pub async fn a_change_of_what_is_not_there_leaves_no_trace(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let (ghost, cause) = (bench.due("ghost"), bench.due("cause"));
    let expected = Fence::new(1).expect("one is not zero");
    let change = Change { expected, after: ghost.clone(), causes: vec![cause.clone()] };
    assert_eq!(bench.write(&[change]).await, [Written::Lost]);
    assert_eq!(get(queue, &[ghost.id(), cause.id()]).await, [None, None]);
    assert_eq!(bench.counts().await.accepted, 0);
}

/// Each change of a batch is won or lost by itself, and answered for in its place.
pub async fn the_changes_of_a_batch_are_independent(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let batch: Vec<Execution> = (0..20).map(|it| bench.due(&format!("evt-{it}"))).collect();
    let fences: Vec<Fence> = bench.accept(&batch).await.iter().map(fence_of).collect();
    let later = bench.now() + HOUR;
    let is_stale = |index: usize| index.is_multiple_of(3);
    let changes = batch.iter().zip(&fences).enumerate().rev().map(|(index, (execution, fence))| {
        let wrong = Fence::new(fence.get() + 1_000_000_000).expect("more than zero");
        change(if is_stale(index) { wrong } else { *fence }, &completed(execution, later))
    });
    let changes: Vec<Change> = changes.collect();
    for (written, index) in bench.write(&changes).await.into_iter().zip((0..batch.len()).rev()) {
        match written {
            Written::Lost => {
                assert!(is_stale(index), "evt-{index} was lost");
                bench.expect_stored(fences[index], &batch[index]).await;
            }
            Written::Won(fence) => {
                assert!(!is_stale(index), "evt-{index} was won with a stale fence");
                bench.expect_stored(fence, &completed(&batch[index], later)).await;
            }
        }
    }
}

/// Of two changes in a batch that expect the same fence, the first is won and the second lost.
pub async fn of_two_changes_with_one_fence_in_a_batch_the_first_wins(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let accepted = bench.accept_new(&bench.due("evt-1")).await;
    let later = bench.now() + HOUR;
    let first = completed(&accepted.value, later);
    let second = failed(&accepted.value, Reason::Fatal, later);
    let stale = Fence::new(accepted.fence.get() + 1_000_000_000).expect("more than zero");
    let changes = [
        change(stale, &second),
        change(accepted.fence, &first),
        Change { causes: vec![bench.due("cause")], ..change(accepted.fence, &second) },
    ];
    let written = bench.write(&changes).await;
    let [Written::Lost, Written::Won(fence), Written::Lost] = written[..] else {
        panic!("{written:?} instead of lost, won, lost")
    };
    bench.expect_stored(fence, &first).await;
    assert_eq!(bench.get(&bench.due("cause").id()).await, None, "caused by a change that was lost");
    assert_eq!(bench.counts().await.completed, 1);
}

/// What a change causes is accepted with it, and can be handed out.
pub async fn causes_are_accepted_with_a_change_that_is_won(queue: &dyn Queue) {
    let (bench, other) = (Bench::new(queue), Bench::new(queue));
    let accepted = bench.accept_new(&bench.due("evt-1")).await;
    let causes: Vec<Execution> = (0..CAUSES_MAX).map(|it| other.due(&format!("cause-{it}"))).collect();
    let dead = failed(&accepted.value, Reason::Fatal, bench.now() + HOUR);
    let change = Change { expected: accepted.fence, after: dead.clone(), causes: causes.clone() };
    let [Written::Won(fence)] = bench.write(&[change]).await[..] else { panic!("the change was lost") };
    bench.expect_stored(fence, &dead).await;
    for cause in &causes {
        assert_eq!(other.stored(&cause.id()).await.value, *cause);
    }
    assert_eq!(other.counts().await.accepted, CAUSES_MAX as u64);
    assert_eq!(other.claim(10).await.len(), CAUSES_MAX);
}

/// What a lost change would have caused does not happen.
pub async fn causes_of_a_change_that_is_lost_are_not_accepted(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let accepted = bench.accept_new(&bench.due("evt-1")).await;
    let current = bench.overwrite(accepted.fence, &accepted.value).await;
    let cause = bench.due("cause");
    let dead = failed(&accepted.value, Reason::Fatal, bench.now() + HOUR);
    let change = Change { expected: accepted.fence, after: dead, causes: vec![cause.clone()] };
    assert_eq!(bench.write(&[change]).await, [Written::Lost]);
    assert_eq!(bench.get(&cause.id()).await, None);
    bench.expect_stored(current, &accepted.value).await;
    assert_eq!(bench.counts().await.accepted, 1);
}

/// A cause that is there already is left as it is, and one that two changes of a batch have is accepted once.
pub async fn a_cause_that_is_there_is_left_as_it_is(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let there = bench.accept_new(&bench.due("there")).await;
    let there_done = completed(&there.value, bench.now() + HOUR);
    let there_fence = bench.overwrite(there.fence, &there_done).await;
    let batch = [bench.due("evt-1"), bench.due("evt-2")];
    let fences: Vec<Fence> = bench.accept(&batch).await.iter().map(fence_of).collect();
    let shared = bench.due("shared");
    let changes: Vec<Change> = fences
        .iter()
        .zip(&batch)
        .map(|(expected, before)| Change {
            expected: *expected,
            after: failed(before, Reason::Fatal, bench.now() + HOUR),
            causes: vec![bench.due("there"), shared.clone()],
        })
        .collect();
    let written = bench.write(&changes).await;
    assert!(written.iter().all(|it| matches!(it, Written::Won(_))), "{written:?}");
    bench.expect_stored(there_fence, &there_done).await;
    assert_eq!(bench.stored(&shared.id()).await.value, shared);
    let counts = bench.counts().await;
    assert_eq!((counts.accepted, counts.completed, counts.pending), (4, 1, 1));
}

/// A cause whose id had expired is accepted anew, as any other would be.
pub async fn a_cause_that_had_expired_is_accepted_anew(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let old = bench.accept_new(&completed(&bench.due("cause"), bench.now() - HOUR)).await;
    let accepted = bench.accept_new(&bench.due("evt-1")).await;
    let after = completed(&accepted.value, bench.now() + HOUR);
    let cause = bench.due("cause");
    let change = Change { expected: accepted.fence, after, causes: vec![cause.clone()] };
    let written = bench.write(&[change]).await;
    assert!(matches!(written[..], [Written::Won(_)]));
    let stands = bench.stored(&cause.id()).await;
    assert_eq!(stands.value, cause);
    assert!(old.fence < stands.fence, "the fence went from {} to {}", old.fence, stands.fence);
}

/// A redrive may edit the event, and a dropped execution loses it: what stands is what was written last.
pub async fn an_event_can_be_edited_and_dropped(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let accepted = bench.accept_new(&bench.due("evt-1")).await;
    let now = bench.now();
    let dead = failed(&accepted.value, Reason::Exhausted, now + HOUR);
    let edited = Execution { event: Some(b"edited".as_slice().into()), ..redriven(&dead, now) };
    let dropped = Execution { event: None, ..failed(&edited, Reason::Dropped, now + HOUR) };
    let revived = Execution { event: Some(b"revived".as_slice().into()), ..redriven(&dropped, now) };
    let edited_in_place = Execution { event: Some(b"changed".as_slice().into()), ..revived.clone() };
    let mut fence = accepted.fence;
    for after in [dead, edited, dropped, revived, edited_in_place.clone()] {
        fence = bench.overwrite(fence, &after).await;
        bench.expect_stored(fence, &after).await;
    }
    let handed_out = bench.claim(1).await;
    assert_eq!(handed_out[0].value.event, edited_in_place.event);
}

/// A write whose future is dropped half way happened whole or not at all, and blocks nobody.
pub async fn a_dropped_write_happened_or_did_not(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let accepted = bench.accept_new(&bench.due("evt-1")).await;
    let dropped = failed(&accepted.value, Reason::Fatal, Timestamp::NEVER);
    let cause = bench.due("cause");
    let change = [Change { expected: accepted.fence, after: dropped.clone(), causes: vec![cause.clone()] }];
    let mut future = queue.write(&change);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
    drop(future);
    // It may still be on its way, and land between any two of these.
    let done = completed(&accepted.value, bench.now() + HOUR);
    if bench.write_one(accepted.fence, &done).await == Written::Lost {
        let stands = bench.stored(&accepted.value.id()).await;
        assert_eq!(stands.value, dropped, "the dropped write left something else");
        assert_eq!(bench.stored(&cause.id()).await.value, cause, "written without what it caused");
        bench.overwrite(stands.fence, &done).await;
    } else {
        assert_eq!(bench.get(&cause.id()).await, None, "caused by a write that did not happen");
    }
}
