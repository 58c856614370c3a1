//! Rules about forgetting.

use super::sample::{Bench, HOUR, MINUTE, completed, failed, fresh_holder, list, parked, pending};
use semel_core::{
    queue::{Fenced, Queue, Written},
    record::Reason,
    time::Timestamp,
};

/// What has expired is shown with the fence it had, or is gone; nothing else is ever shown in its place.
pub async fn an_expired_execution_is_shown_as_it_was_or_absent(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let old = bench.accept_new(&completed(&bench.due("evt-1"), bench.now() - HOUR)).await;
    for _ in 0..3 {
        let found = bench.get(&old.value.id()).await;
        assert!(found.is_none() || found.as_ref() == Some(&old), "an expired one is shown as {found:?}");
        bench.purge(bench.now(), u32::MAX).await;
    }
    let counts = bench.counts().await;
    assert_eq!((counts.accepted, counts.completed + counts.purged), (1, 1));
    let listed = list(queue, &bench.all(), 10).await;
    assert_eq!(listed.len() as u64, counts.completed, "what is counted is listed");
}

/// No limit is so high that purge takes what is unfinished, in doubt, or has yet to expire.
pub async fn purge_never_takes_the_unfinished_doubts_or_the_unexpired(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let now = bench.now();
    let running = bench.leased(&bench.due("running"), fresh_holder(), now - HOUR * 10_000);
    let kept = [
        bench.due("pending"),
        pending(&bench.due("for ever"), Timestamp::NEVER),
        parked(&bench.due("parked"), now - HOUR * 10_000),
        running,
        failed(&bench.due("unknown"), Reason::OutcomeUnknown, Timestamp::NEVER),
        completed(&bench.due("done"), now + MINUTE),
        failed(&bench.due("dead"), Reason::Exhausted, now + MINUTE),
    ];
    let mut stored: Vec<Fenced<_>> = Vec::new();
    for it in &kept {
        stored.push(bench.accept_new(it).await);
    }
    for limit in [1, 1_000, u32::MAX] {
        bench.purge(now, limit).await;
    }
    for it in &stored {
        bench.expect_stored(it.fence, &it.value).await;
    }
    assert_eq!(bench.counts().await.purged, 0);
}

/// Purge judges by the moment it is given, not by the queue's time: what expired since then stays.
pub async fn purge_respects_the_moment_that_it_is_given(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let old = bench.accept_new(&completed(&bench.due("evt-1"), bench.now() - HOUR)).await;
    bench.purge(bench.now() - HOUR * 2, u32::MAX).await;
    bench.expect_stored(old.fence, &old.value).await;
}

/// A limit of nothing is kept to, and so is a moment before everything.
pub async fn purge_of_nothing_takes_no_execution(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let old = bench.accept_new(&completed(&bench.due("evt-1"), bench.now() - HOUR)).await;
    assert_eq!(bench.purge(Timestamp::EPOCH, u32::MAX).await, 0, "nothing expired before 1970");
    assert_eq!(bench.purge(bench.now(), 0).await, 0, "the limit was 0");
    bench.expect_stored(old.fence, &old.value).await;
}

/// An id that was forgotten and accepted again goes on with higher fences, however often.
pub async fn fences_grow_over_purge_and_acceptance(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let mut last = None;
    for _ in 0..5 {
        let accepted = bench.accept_new(&bench.due("evt-1")).await;
        assert!(last < Some(accepted.fence), "the fence went from {last:?} to {}", accepted.fence);
        let expired = completed(&accepted.value, bench.now() - HOUR);
        let done = bench.overwrite(accepted.fence, &expired).await;
        assert!(accepted.fence < done, "the fence went from {} to {done}", accepted.fence);
        bench.purge(bench.now(), u32::MAX).await;
        last = Some(done);
    }
}

/// A holder from before a purge is superseded by whoever came after it.
pub async fn a_holder_from_before_a_purge_never_writes(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let old = bench.accept_new(&completed(&bench.due("evt-1"), bench.now() - HOUR)).await;
    bench.purge(bench.now(), u32::MAX).await;
    let new = bench.accept_new(&bench.due("evt-1")).await;
    let zombie = completed(&old.value, bench.now() + HOUR);
    assert_eq!(bench.write_one(old.fence, &zombie).await, Written::Lost);
    bench.expect_stored(new.fence, &new.value).await;
}

/// Purge takes what has expired, as many as the limit says and no more.
///
/// For queues that remove one by one; one that removes in units of its own, such as a file per day, is held to
/// the other rules only. What had expired before in the queue is removed first.
pub async fn purge_takes_the_expired_executions_at_once(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let now = bench.now();
    while bench.purge(now, u32::MAX).await > 0 {}
    let mut old = Vec::new();
    for id in ["a", "b", "c"] {
        old.push(bench.accept_new(&completed(&bench.due(id), now - HOUR)).await);
    }
    let new = bench.accept_new(&completed(&bench.due("new"), now + HOUR)).await;
    assert_eq!(bench.purge(now, 2).await, 2, "three had expired, and the limit was 2");
    assert_eq!(bench.counts().await.purged, 2);
    assert_eq!(bench.purge(now, 2).await, 1, "one was left");
    for it in &old {
        assert_eq!(bench.get(&it.value.id()).await, None);
    }
    bench.expect_stored(new.fence, &new.value).await;
    let counts = bench.counts().await;
    assert_eq!((counts.accepted, counts.purged, counts.completed), (4, 3, 1));
    assert_eq!(list(queue, &bench.all(), 10).await, [new]);
}
