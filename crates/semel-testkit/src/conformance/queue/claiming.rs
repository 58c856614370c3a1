//! Rules about handing out.

use super::sample::{
    Bench, HOUR, MINUTE, claim, completed, demand, fresh_function, fresh_holder, list, names, parked, pending,
};
use semel_core::{
    execution::{Execution, Phase, claimed},
    queue::{Fenced, Filter, Queue, WANTS_MAX, Written},
    record::Holder,
};
use std::{sync::Arc, time::Duration};

/// Of those that are due, the longest due go first, and no more than was asked for.
pub async fn the_longest_due_are_handed_out_first(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let now = bench.now();
    for minutes in [3, 1, 5, 2, 4] {
        bench.accept_new(&bench.due_at(&minutes.to_string(), now - MINUTE * minutes)).await;
    }
    assert_eq!(names(&bench.claim(2).await), ["5", "4"]);
    assert_eq!(names(&bench.claim(0).await), [""; 0]);
    assert_eq!(names(&bench.claim(2).await), ["3", "2"]);
    assert_eq!(names(&bench.claim(2).await), ["1"]);
    assert_eq!(names(&bench.claim(2).await), [""; 0]);
}

/// What is not due yet waits, and so do the parked and the ended.
pub async fn what_is_not_due_is_not_handed_out(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let now = bench.now();
    bench.accept_new(&bench.due_at("tomorrow", now + HOUR * 24)).await;
    bench.accept_new(&parked(&bench.due("parked"), now - HOUR)).await;
    bench.accept_new(&completed(&bench.due("done"), now + HOUR)).await;
    let again = bench.accept_new(&bench.due("retried")).await;
    bench.overwrite(again.fence, &pending(&again.value, now + HOUR)).await;
    assert_eq!(names(&bench.claim(10).await), [""; 0]);
    let waits = bench.stored(&again.value.id()).await;
    bench.overwrite(waits.fence, &pending(&waits.value, now - HOUR)).await;
    assert_eq!(names(&bench.claim(10).await), ["retried"]);
}

/// A function that is not named gets nothing, however much of it is due; each that is has its own limit.
pub async fn each_function_has_its_own_limit_and_the_unnamed_get_nothing(queue: &dyn Queue) {
    let [one, two, three] = [(); 3].map(|()| Bench::new(queue));
    for bench in [&one, &two, &three] {
        let batch: Vec<Execution> = (0..5).map(|it| bench.due(&it.to_string())).collect();
        let _ = bench.accept(&batch).await;
    }
    let handed_out = claim(queue, &demand(fresh_holder(), &[(&one.function, 2), (&two.function, 4)])).await;
    let of = |bench: &Bench<'_>| handed_out.iter().filter(|it| it.value.function == bench.function).count();
    assert_eq!([of(&one), of(&two), of(&three)], [2, 4, 0]);
    assert_eq!(handed_out.len(), 6);
    assert_eq!(claim(queue, &demand(fresh_holder(), &[(&fresh_function(), 10)])).await, []);
    assert_eq!([three.counts().await.pending, one.counts().await.pending], [5, 3]);
}

/// What is handed out is what [`claimed`] makes of it: leased to who asked, for as long as was asked, with the
/// attempt counted, under a higher fence, and stored so.
pub async fn what_is_handed_out_is_leased_and_its_attempt_counted(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let before = bench.accept_new(&bench.due("evt-1")).await;
    let holder = fresh_holder();
    let handed_out = claim(queue, &bench.demand(holder, 1)).await;
    let [it] = &handed_out[..] else { panic!("{handed_out:?} instead of one") };
    expect_claimed(&before, it, holder, HOUR);
    bench.expect_stored(it.fence, &it.value).await;
    assert!(bench.now() + MINUTE > it.value.updated_at && bench.now() < it.value.updated_at + MINUTE);
    let counts = bench.counts().await;
    assert_eq!((counts.accepted, counts.pending, counts.in_progress), (1, 0, 1));
}

/// Demands that this is what [`claimed`] makes of what stood before.
pub(super) fn expect_claimed(
    before: &Fenced<Execution>,
    after: &Fenced<Execution>,
    holder: Holder,
    lease: Duration,
) {
    let now = after.value.updated_at;
    let expected = claimed(now, &before.value, holder, now + lease);
    assert_eq!(Some(&after.value), expected.as_ref(), "not as `claimed` makes it");
    assert!(before.fence < after.fence, "the fence went from {} to {}", before.fence, after.fence);
}

/// What one was handed, nobody else is.
pub async fn what_was_handed_out_is_not_handed_out_again(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    bench.accept_new(&bench.due("evt-1")).await;
    let handed_out = bench.claim(10).await;
    assert_eq!(names(&handed_out), ["evt-1"]);
    assert_eq!(bench.claim(10).await, [], "under a lease, and handed out");
    bench.overwrite(handed_out[0].fence, &completed(&handed_out[0].value, bench.now() + HOUR)).await;
    assert_eq!(bench.claim(10).await, [], "completed, and handed out");
}

/// A lease that lapsed is taken over, every attempt counts, and whoever held it before is superseded.
pub async fn a_lapsed_lease_is_taken_over_and_every_attempt_counts(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let mut before = bench.accept_new(&bench.due("evt-1")).await;
    for attempt in 1..=15 {
        let mut demand = bench.demand(fresh_holder(), 1);
        demand.wants[0].lease = Duration::ZERO;
        let handed_out = claim(queue, &demand).await;
        let [it] = &handed_out[..] else { panic!("attempt {attempt} was not handed out") };
        expect_claimed(&before, it, demand.holder, Duration::ZERO);
        assert_eq!(it.value.attempts, attempt);
        bench.expect_stored(it.fence, &it.value).await;
        let late = completed(&before.value, bench.now() + HOUR);
        assert_eq!(bench.write_one(before.fence, &late).await, Written::Lost, "it was superseded");
        before = it.clone();
    }
    let done = completed(&before.value, bench.now() + HOUR);
    bench.overwrite(before.fence, &done).await;
    assert_eq!(bench.claim(1).await, []);
}

/// A holder that is late, but was not superseded, completes.
pub async fn a_late_holder_that_nobody_superseded_completes(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    bench.accept_new(&bench.due("evt-1")).await;
    let late = bench.claim_and_crash(1).await;
    let done = completed(&late[0].value, bench.now() + HOUR);
    let fence = bench.overwrite(late[0].fence, &done).await;
    bench.expect_stored(fence, &done).await;
    assert_eq!(bench.claim(1).await, []);
}

/// A renewed lease is respected like the first.
pub async fn a_renewed_lease_is_respected(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    bench.accept_new(&bench.due("evt-1")).await;
    let mut held = bench.claim_and_crash(1).await.remove(0);
    let until = bench.now() + HOUR;
    match &mut held.value.phase {
        Phase::InProgress { lease_until, .. } => *lease_until = until,
        other => panic!("handed out, and {other:?}"),
    }
    let renewed = bench.overwrite(held.fence, &held.value).await;
    assert_eq!(bench.claim(1).await, []);
    bench.expect_stored(renewed, &held.value).await;
}

/// Whoever never got the answer to its demand finds what it was given by its holder.
pub async fn what_was_handed_out_is_found_by_its_holder(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    for id in ["a", "b", "c"] {
        bench.accept_new(&bench.due(id)).await;
    }
    let (mine, theirs) = (fresh_holder(), fresh_holder());
    let handed_out = claim(queue, &bench.demand(mine, 2)).await;
    claim(queue, &bench.demand(theirs, 2)).await;
    let filter = Filter { holder: Some(mine), ..Filter::default() };
    let mut found = list(queue, &filter, 10).await;
    found.sort_by_key(|it| it.fence);
    let mut expected = handed_out.clone();
    expected.sort_by_key(|it| it.fence);
    assert_eq!(found, expected);
    let done = completed(&handed_out[0].value, bench.now() + HOUR);
    bench.overwrite(handed_out[0].fence, &done).await;
    assert_eq!(list(queue, &filter, 10).await, handed_out[1..], "it is in progress no more");
}

/// A demand may name as many functions as the port allows.
pub async fn the_largest_demand_is_met(queue: &dyn Queue) {
    let benches: Vec<Bench<'_>> = (0..WANTS_MAX).map(|_| Bench::new(queue)).collect();
    for bench in benches.iter().step_by(100) {
        bench.accept_new(&bench.due("evt-1")).await;
    }
    let wants: Vec<(&Arc<str>, u32)> = benches.iter().map(|it| (&it.function, 3)).collect();
    let handed_out = claim(queue, &demand(fresh_holder(), &wants)).await;
    assert_eq!(handed_out.len(), WANTS_MAX.div_ceil(100));
}
