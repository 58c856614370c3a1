//! Rules about executions that must not overtake each other.

use super::sample::{
    Bench, HOUR, MINUTE, change, claim, completed, demand, failed, fence_of, fresh_holder, names, parked,
    pending, redriven,
};
use semel_core::{
    execution::{Execution, Order},
    queue::{Change, Fenced, Queue, Written},
    record::Reason,
};
use std::collections::BTreeSet;

/// Of those under one order, only the first unfinished one is handed out, however long the others are due.
pub async fn only_the_head_of_an_order_is_handed_out(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    for (index, id) in ["first", "second", "third"].into_iter().enumerate() {
        // The later, the longer due: only the order holds them back.
        let due_at = bench.now() - MINUTE * index as u32;
        bench.accept_new(&pending(&bench.ordered(id, "order-7"), due_at)).await;
    }
    for id in ["first", "second", "third"] {
        let handed_out = bench.claim(10).await;
        assert_eq!(names(&handed_out), [id], "not the head, or not alone");
        assert_eq!(names(&bench.claim(10).await), [""; 0], "`{id}` is unfinished");
        bench.overwrite(handed_out[0].fence, &completed(&handed_out[0].value, bench.now() + HOUR)).await;
    }
    assert_eq!(names(&bench.claim(10).await), [""; 0]);
}

/// The place is given when it is accepted, whatever was asked for: it grows within a batch and across batches,
/// and nothing changes it.
pub async fn the_sequence_is_that_of_acceptance(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let mut accepted = Vec::new();
    for batch in 0..5 {
        let mut new: Vec<Execution> =
            (0..20).map(|it| bench.ordered(&format!("{batch}-{it}"), "order-7")).collect();
        for (index, execution) in (0..).zip(&mut new) {
            execution.order.as_mut().expect("it has an order").sequence = 1_000_000 - index;
        }
        for answer in &bench.accept(&new).await {
            fence_of(answer);
        }
        accepted.extend(new);
    }
    let mut last = None;
    for execution in &accepted {
        let stands = bench.stored(&execution.id()).await.value;
        let order = stands.order.clone().expect("it has an order");
        assert_eq!(&*order.key, "order-7");
        assert!(last < Some(order.sequence), "the sequence went from {last:?} to {}", order.sequence);
        let as_accepted = Execution { order: execution.order.clone(), ..stands };
        assert_eq!(as_accepted, *execution, "more than the sequence was changed");
        last = Some(order.sequence);
    }
    for execution in accepted.iter().take(5) {
        let handed_out = bench.claim(1).await;
        assert_eq!(handed_out[0].value.id(), execution.id());
        bench.overwrite(handed_out[0].fence, &completed(&handed_out[0].value, bench.now() + HOUR)).await;
    }
}

/// A head that waits, runs, crashed or is parked blocks those behind it, and nobody else: not other orders, not
/// those without, not the same order of another function.
pub async fn a_blocked_head_blocks_only_its_own_order(queue: &dyn Queue) {
    let (bench, other) = (Bench::new(queue), Bench::new(queue));
    let now = bench.now();
    let heads = [
        ("waits", pending(&bench.ordered("waits", "waits"), now + HOUR)),
        ("is parked", parked(&bench.ordered("is parked", "is parked"), now)),
        ("runs", bench.ordered("runs", "runs")),
    ];
    for (order, head) in &heads {
        let _ = bench.accept(&[head.clone(), bench.ordered(&format!("behind {order}"), order)]).await;
    }
    assert_eq!(names(&bench.claim(10).await), ["runs"]);
    let _ = bench.accept(&[bench.ordered("another order", "another order"), bench.due("no order")]).await;
    let _ = other.accept(&[other.ordered("another function", "waits")]).await;
    let wants = [(&bench.function, 10), (&other.function, 10)];
    let handed_out = claim(queue, &demand(fresh_holder(), &wants)).await;
    let free: BTreeSet<&str> = names(&handed_out).into_iter().collect();
    assert_eq!(free, BTreeSet::from(["another function", "another order", "no order"]));
}

/// Whatever ends a head, the next one follows: success, failure, a doubt.
pub async fn a_head_that_ended_makes_way(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let later = bench.now() + HOUR;
    for id in ["done", "fatal", "unknown", "last"] {
        bench.accept_new(&bench.ordered(id, "order-7")).await;
    }
    let end = |it: &Execution| match &*it.origin.id {
        "fatal" => failed(it, Reason::Fatal, later),
        "unknown" => failed(it, Reason::OutcomeUnknown, semel_core::time::Timestamp::NEVER),
        _ => completed(it, later),
    };
    for id in ["done", "fatal", "unknown", "last"] {
        let handed_out = bench.claim(10).await;
        assert_eq!(names(&handed_out), [id]);
        bench.overwrite(handed_out[0].fence, &end(&handed_out[0].value)).await;
    }
}

/// A head that crashed is taken over before those behind it get their turn.
pub async fn a_lapsed_head_is_taken_over_before_those_behind_it(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    for id in ["first", "second"] {
        bench.accept_new(&bench.ordered(id, "order-7")).await;
    }
    for _ in 0..3 {
        assert_eq!(names(&bench.claim_and_crash(10).await), ["first"]);
    }
    let head = bench.claim(10).await;
    assert_eq!((names(&head), head[0].value.attempts), (vec!["first"], 4));
}

/// A dead letter that is redriven stands where it stood: before those that were accepted after it.
pub async fn a_redriven_one_takes_its_old_place(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    for id in ["first", "second", "third"] {
        bench.accept_new(&bench.ordered(id, "order-7")).await;
    }
    let first = hand_out(&bench, "first").await;
    let dead = failed(&first.value, Reason::Fatal, bench.now() + HOUR);
    let fence = bench.overwrite(first.fence, &dead).await;
    let second = hand_out(&bench, "second").await;
    bench.overwrite(second.fence, &pending(&second.value, bench.now() - HOUR)).await;
    bench.overwrite(fence, &redriven(&dead, bench.now())).await;
    for id in ["first", "second", "third"] {
        let it = hand_out(&bench, id).await;
        bench.overwrite(it.fence, &completed(&it.value, bench.now() + HOUR)).await;
    }
}

async fn hand_out(bench: &Bench<'_>, id: &str) -> Fenced<Execution> {
    let mut handed_out = bench.claim(10).await;
    assert_eq!(names(&handed_out), [id]);
    handed_out.remove(0)
}

/// What a change causes gets a place of its own, behind those that were there.
pub async fn a_cause_with_an_order_stands_behind_the_others(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let first = bench.accept_new(&bench.ordered("first", "order-7")).await;
    let causes = vec![bench.ordered("second", "order-7"), bench.ordered("third", "order-7")];
    let done = completed(&first.value, bench.now() + HOUR);
    let written = bench.write(&[Change { expected: first.fence, after: done, causes }]).await;
    assert!(matches!(written[..], [Written::Won(_)]));
    bench.accept_new(&bench.ordered("fourth", "order-7")).await;
    for id in ["second", "third", "fourth"] {
        let it = hand_out(&bench, id).await;
        bench.overwrite(it.fence, &completed(&it.value, bench.now() + HOUR)).await;
    }
}

/// What the changes of a batch cause stands in the order of the changes, whatever else they change.
pub async fn causes_stand_in_the_order_of_their_changes(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let [edited, other] = [bench.due("edited"), bench.due("other")];
    let [edited, other] = [bench.accept_new(&edited).await, bench.accept_new(&other).await];
    let causing = |before: &Fenced<Execution>, after: &Execution, id: &str| Change {
        causes: vec![bench.ordered(id, "order-7")],
        ..change(before.fence, &failed(after, Reason::Fatal, bench.now() + HOUR))
    };
    let with_another_event = Execution { event: Some(b"edited".as_slice().into()), ..edited.value.clone() };
    let changes = [causing(&edited, &with_another_event, "first"), causing(&other, &other.value, "second")];
    let written = bench.write(&changes).await;
    assert!(matches!(written[..], [Written::Won(_), Written::Won(_)]));
    for id in ["first", "second"] {
        let it = hand_out(&bench, id).await;
        bench.overwrite(it.fence, &completed(&it.value, bench.now() + HOUR)).await;
    }
}

/// One that expired and is accepted anew goes to the end of the line.
pub async fn one_that_is_accepted_anew_goes_to_the_end(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let old = bench.accept_new(&completed(&bench.ordered("again", "order-7"), bench.now() - HOUR)).await;
    bench.accept_new(&bench.ordered("meanwhile", "order-7")).await;
    let anew = bench.accept_new(&bench.ordered("again", "order-7")).await;
    let place = |it: &Fenced<Execution>| it.value.order.as_ref().map(|it: &Order| it.sequence);
    assert!(place(&old) < place(&anew));
    assert_eq!(names(&bench.claim(10).await), ["meanwhile"]);
}
