//! Rules about counters.

use super::sample::{Bench, HOUR, change, completed, failed, fresh_function, parked, pending, redriven};
use semel_core::{
    execution::Execution,
    fence::Fence,
    queue::{Counts, Queue, Written},
    record::Reason,
};
use std::sync::Arc;

/// The counters say where each execution stands, after every change of one.
pub async fn the_counters_follow_an_execution_through_its_life(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let mut expected = Counts::none(Arc::clone(&bench.function));
    assert_eq!(bench.counts().await, expected);
    let accepted = bench.accept_new(&bench.due("evt-1")).await;
    (expected.accepted, expected.pending) = (1, 1);
    assert_eq!(bench.counts().await, expected);
    let held = bench.claim(1).await.remove(0);
    (expected.pending, expected.in_progress) = (0, 1);
    assert_eq!(bench.counts().await, expected);
    let mut fence = held.fence;
    let (now, later) = (bench.now(), bench.now() + HOUR);
    let mut steps = vec![pending(&held.value, later), parked(&held.value, now), held.value.clone()];
    steps.extend(Reason::ALL.map(|reason| failed(&held.value, reason, later)));
    steps.extend([redriven(&accepted.value, now), held.value.clone(), completed(&held.value, later)]);
    let mut before = held.value;
    for after in steps {
        fence = bench.overwrite(fence, &after).await;
        *expected.of(&before.phase) -= 1;
        *expected.of(&after.phase) += 1;
        assert_eq!(bench.counts().await, expected, "after {:?}", after.phase);
        before = after;
    }
}

/// Duplicates, lost writes and takeovers count nothing.
pub async fn what_changes_nothing_counts_nothing(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let accepted = bench.accept_new(&bench.due("evt-1")).await;
    let lapsed = bench.claim_and_crash(1).await;
    let before = bench.counts().await;
    let _ = bench.accept(&[bench.due("evt-1"), bench.due("evt-1")]).await;
    let done = completed(&accepted.value, bench.now() + HOUR);
    let ahead = Fence::new(lapsed[0].fence.get() + 1_000_000_000).expect("more than zero");
    let lost = bench.write(&[change(accepted.fence, &done), change(ahead, &done)]).await;
    assert_eq!(lost, [Written::Lost, Written::Lost]);
    assert_eq!(bench.claim(1).await.len(), 1);
    assert_eq!(bench.counts().await, before);
}

/// Functions are counted apart.
pub async fn functions_are_counted_apart(queue: &dyn Queue) {
    let (one, two) = (Bench::new(queue), Bench::new(queue));
    let batch: Vec<Execution> = (0..6).map(|it| one.due(&it.to_string())).chain([two.due("0")]).collect();
    let _ = one.accept(&batch).await;
    assert_eq!((one.counts().await.accepted, two.counts().await.accepted), (6, 1));
    let none = super::sample::counts(queue, &fresh_function()).await;
    assert_eq!(none, Counts::none(none.function.clone()));
}
