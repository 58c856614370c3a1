//! Rules about finding executions.

use super::sample::{Bench, HOUR, MINUTE, completed, failed, fresh_holder, list, names, page, pending};
use semel_core::{
    execution::{ErrorPrint, Execution, Origin},
    queue::{CURSOR_BYTES_MAX, Cursor, Fenced, Filter, PAGE_MAX, Queue},
    record::{Reason, Status},
    store::StoreErrorKind,
    time::Timestamp,
};
use std::{collections::BTreeSet, sync::Arc};

/// What does not exist is `None`, in its place.
pub async fn what_is_not_there_is_not_found(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let there = bench.accept_new(&bench.due("there")).await;
    let absent = bench.due("absent").id();
    let id = there.value.id();
    let found = super::sample::get(queue, &[absent, id, absent, id]).await;
    assert_eq!(found, [None, Some(there.clone()), None, Some(there)]);
    assert_eq!(list(queue, &Bench::new(queue).all(), 10).await, []);
}

/// A few of everything, accepted a minute apart.
async fn a_few_of_everything(bench: &Bench<'_>) -> Vec<Fenced<Execution>> {
    let (start, later) = (bench.now() - HOUR, bench.now() + HOUR);
    let mut stored = Vec::new();
    let kinds = ["order.created", "order.paid"];
    for index in 0..24_u32 {
        let new = bench.due(&format!("evt-{index}"));
        let origin = Origin { kind: kinds[index as usize % 2].into(), ..new.origin.clone() };
        let new = Execution { accepted_at: start + MINUTE * (index / 2), origin, ..new };
        let running = bench.leased(&new, fresh_holder(), later);
        let value = match index % 6 {
            0 => new,
            1 => Execution { last_error: Some(format!("503 after {index} s")), ..pending(&new, later) },
            2 => running,
            3 => completed(&running, later),
            4 => failed(&running, Reason::Fatal, later),
            _ => failed(&running, Reason::OutcomeUnknown, Timestamp::NEVER),
        };
        stored.push(bench.accept_new(&value).await);
    }
    stored
}

/// Each filter, and some together, find exactly what [`Filter::matches`] says, the latest accepted first.
pub async fn every_filter_finds_exactly_what_matches(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let stored = a_few_of_everything(&bench).await;
    for filter in every_filter(&bench, &stored) {
        let found = list(queue, &filter, 7).await;
        let matching = stored.iter().filter(|it| filter.matches(&it.value));
        assert_eq!(by_fence(&found), by_fence(matching), "by {filter:?}");
        let times: Vec<Timestamp> = found.iter().map(|it| it.value.accepted_at).collect();
        assert!(times.is_sorted_by(|a, b| a >= b), "the latest accepted is not first: {times:?}");
    }
}

fn by_fence<'a>(found: impl IntoIterator<Item = &'a Fenced<Execution>>) -> Vec<&'a Fenced<Execution>> {
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|it| it.fence);
    found
}

fn every_filter(bench: &Bench<'_>, stored: &[Fenced<Execution>]) -> Vec<Filter> {
    let all = bench.all();
    let middle = stored[12].value.accepted_at;
    let mut filters = vec![
        all.clone(),
        Filter { accepted_from: Some(middle), ..all.clone() },
        Filter { accepted_before: Some(middle), ..all.clone() },
        Filter { accepted_from: Some(middle), accepted_before: Some(middle + MINUTE * 2), ..all.clone() },
        Filter { accepted_from: Some(middle), accepted_before: Some(middle), ..all.clone() },
        Filter { name: Some("evt-7".into()), ..all.clone() },
        Filter { name: Some("evt".into()), ..all.clone() },
        Filter { kind: Some("order.paid".into()), ..all.clone() },
        Filter { kind: Some("order".into()), ..all.clone() },
        Filter { error: Some(ErrorPrint::of("503 after 1 s")), ..all.clone() },
        Filter { error: Some(ErrorPrint::of("it is fatal")), ..all.clone() },
        Filter { error: Some(ErrorPrint::of("nothing of the kind")), ..all.clone() },
        Filter { holder: stored[2].value.phase.holder(), ..all.clone() },
        Filter { holder: Some(fresh_holder()), ..Filter::default() },
    ];
    filters.extend(Status::ALL.map(|status| Filter { status: Some(status), ..all.clone() }));
    filters.extend(Reason::ALL.map(|reason| Filter { reason: Some(reason), ..all.clone() }));
    filters.push(Filter {
        status: Some(Status::Pending),
        kind: Some("order.paid".into()),
        accepted_from: Some(middle),
        error: Some(ErrorPrint::of("503 after 9 s")),
        ..all
    });
    filters
}

/// An execution is found by its event's id and by the text of its key's id, whichever is looked for.
pub async fn a_name_is_the_events_id_or_the_keys(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let new = bench.due("key-id");
    let value = Execution { origin: Origin { id: "event-id".into(), ..new.origin.clone() }, ..new };
    let stored = bench.accept_new(&value).await;
    for (name, expected) in [("key-id", 1), ("event-id", 1), ("key", 0), ("KEY-ID", 0)] {
        let filter = Filter { name: Some(name.into()), ..bench.all() };
        let found = list(queue, &filter, 10).await;
        assert_eq!(found, vec![stored.clone(); expected], "by the name `{name}`");
    }
}

/// What an execution is found by follows what becomes of it.
pub async fn filters_follow_every_change(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    bench.accept_new(&bench.due("evt-1")).await;
    let in_status = |status| Filter { status: Some(status), ..bench.all() };
    let with_error = Filter { error: Some(ErrorPrint::of("it is fatal")), ..bench.all() };
    let is_found = async |filter: &Filter| !list(queue, filter, 10).await.is_empty();
    assert!(is_found(&in_status(Status::Pending)).await && !is_found(&with_error).await);
    let held = bench.claim(1).await;
    assert!(is_found(&in_status(Status::InProgress)).await && !is_found(&in_status(Status::Pending)).await);
    let dead = failed(&held[0].value, Reason::Fatal, bench.now() + HOUR);
    let fence = bench.overwrite(held[0].fence, &dead).await;
    let fatal = Filter { reason: Some(Reason::Fatal), ..bench.all() };
    assert!(is_found(&fatal).await && is_found(&with_error).await);
    assert!(!is_found(&in_status(Status::InProgress)).await);
    bench.overwrite(fence, &pending(&held[0].value, bench.now())).await;
    assert!(!is_found(&fatal).await && !is_found(&with_error).await, "it is no longer dead");
    let lapsed = bench.claim_and_crash(1).await;
    let taken_over = bench.claim(1).await;
    let error = taken_over[0].value.error().expect("a lapse leaves an error");
    let by_lapse = Filter { error: Some(ErrorPrint::of(error)), ..bench.all() };
    assert!(lapsed[0].value.error().is_none() && is_found(&by_lapse).await, "a lapse is an error, too");
}

/// Pages of any size, put together, are the list: nothing twice, nothing left out.
pub async fn pages_put_together_are_the_list(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let stored = a_few_of_everything(&bench).await;
    let whole = list(queue, &bench.all(), PAGE_MAX).await;
    assert_eq!(by_fence(&whole), by_fence(&stored));
    for limit in [1, 2, 5, 23, 24, 25] {
        assert_eq!(list(queue, &bench.all(), limit).await, whole, "in pages of {limit}");
    }
    // However many are asked for.
    assert_eq!(list(queue, &bench.all(), u32::MAX).await, whole);
}

/// While others come, change and go, whoever pages through a list sees each of those that stay exactly once.
pub async fn paging_is_steady_while_things_change(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let stay: BTreeSet<Arc<str>> =
        a_few_of_everything(&bench).await.iter().map(|it| Arc::clone(&it.value.origin.id)).collect();
    let (mut seen, mut from, mut round) = (Vec::new(), None, 0);
    loop {
        let page = page(queue, &bench.all(), from.as_ref(), 3).await;
        seen.extend(page.items.iter().map(|it| Arc::clone(&it.value.origin.id)));
        if let Some(cursor) = &page.next {
            assert!(cursor.0.len() <= CURSOR_BYTES_MAX, "a cursor of {} bytes", cursor.0.len());
        }
        round += 1;
        assert!(round < 1_000, "the list does not end");
        bench.accept_new(&bench.due(&format!("new-{round}"))).await;
        for it in page.items.iter().chain(&bench.claim(1).await) {
            // Lost if it was handed out in between, which is a change, too.
            let _ = bench.write_one(it.fence, &completed(&it.value, bench.now() + HOUR)).await;
        }
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    let of_those: Vec<&Arc<str>> = seen.iter().filter(|it| stay.contains(*it)).collect();
    assert_eq!(of_those.len(), stay.len(), "seen twice or not at all: {of_those:?}");
    assert_eq!(of_those.into_iter().cloned().collect::<BTreeSet<_>>(), stay);
}

/// A cursor that the queue did not give is refused, and not taken for trouble with the queue: whoever asked is told.
pub async fn a_cursor_that_is_none_is_refused(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    for id in ["a", "b"] {
        bench.accept_new(&bench.due(id)).await;
    }
    let genuine = page(queue, &bench.all(), None, 1).await.next.expect("there is a second page");
    let mut longer = genuine.0.clone();
    longer.push(7);
    let shorter = genuine.0[..genuine.0.len() - 1].to_vec();
    let garbage = [Vec::new(), vec![0xff; 8], b"'; DROP TABLE".to_vec(), vec![0; 4_096], longer, shorter];
    for bytes in garbage {
        let cursor = Cursor(bytes);
        let answer = queue.list(&bench.all(), Some(&cursor), 1).await;
        let error = answer.expect_err(&format!("{cursor:?} was taken for a cursor"));
        assert_eq!(error.kind(), StoreErrorKind::Refused, "it is the cursor that is wrong: {error}");
    }
    let rest = page(queue, &bench.all(), Some(&genuine), 10).await;
    assert_eq!(names(&rest.items).len(), 1, "the genuine one");
}
