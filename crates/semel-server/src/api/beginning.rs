//! Finding an execution by the beginning of its id, as lists print it.
//!
//! 1. Ids are not in any order that could be searched, so that executions are looked at, the latest first, until one is found.
//! 2. Not many more than [`SEARCHED_MAX`] are looked at in each status: a dead letter is found though much has completed since.
//! 3. The server's own books are not looked at, and do not count.

use super::executions::{FOUND_MAX, is_anybodys};
use semel_core::{
    execution::Execution,
    queue::{Fenced, Filter, PAGE_MAX, Queue},
    record::Status,
    store::StoreError,
};

/// Fewest digits of an execution's id that are looked for.
const DIGITS_MIN: usize = 8;
/// Most executions in each status that are looked at to find one by the beginning of its id.
pub const SEARCHED_MAX: usize = 20_000;
/// Most pages of each status that they are looked for on: some have few, because the rest is the server's own books.
const SEARCHED_PAGES_MAX: usize = 400;
/// Whether a text may be the beginning of an id, and is not all of it.
pub(super) fn is_beginning(text: &str) -> bool {
    (DIGITS_MIN..64).contains(&text.len()) && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// Executions whose ids begin like this, and whether all were looked at.
pub(super) async fn begin_like(
    queue: &dyn Queue,
    text: &str,
    searched_max: usize,
) -> Result<(Vec<Fenced<Execution>>, bool), StoreError> {
    let mut is_whole = true;
    for status in [Status::Failed, Status::Pending, Status::InProgress, Status::Completed] {
        let filter = Filter { status: Some(status), ..Filter::default() };
        let (found, is_all) = begin_like_in(queue, &filter, text, searched_max).await?;
        is_whole &= is_all;
        if !found.is_empty() {
            return Ok((found, is_whole));
        }
    }
    Ok((Vec::new(), is_whole))
}

/// The same, of those that match.
async fn begin_like_in(
    queue: &dyn Queue,
    filter: &Filter,
    text: &str,
    searched_max: usize,
) -> Result<(Vec<Fenced<Execution>>, bool), StoreError> {
    let (mut from, mut searched) = (None, 0);
    for _ in 0..SEARCHED_PAGES_MAX {
        let page = queue.list(filter, from.as_ref(), PAGE_MAX).await?;
        let now = queue.clock().now();
        let those: Vec<_> = page.items.into_iter().filter(|it| is_anybodys(now, &it.value)).collect();
        searched += those.len();
        let is_like = |it: &Fenced<Execution>| it.value.id().to_string().starts_with(text);
        let found: Vec<_> = those.into_iter().filter(is_like).take(FOUND_MAX).collect();
        from = page.next;
        if !found.is_empty() || from.is_none() || searched >= searched_max {
            return Ok((found, from.is_none()));
        }
    }
    Ok((Vec::new(), false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::{
        execution::{Arrival, Origin},
        fingerprint::Fingerprint,
        key::Key,
        time::Timestamp,
    };
    use semel_runtime::queue::memory::MemoryQueue;
    use std::sync::Arc;

    #[test]
    fn the_beginning_of_an_id_has_eight_digits_or_more() {
        assert!(is_beginning("01234567") && is_beginning(&"a".repeat(63)));
        for wrong in ["0123456", "order-42", "0123456G", &"a".repeat(64)] {
            assert!(!is_beginning(wrong), "{wrong}");
        }
    }

    /// A queue with so many executions, and the first of them.
    async fn queue_of(function: &str, count: u32) -> (MemoryQueue, String) {
        let queue = MemoryQueue::new(Arc::new(semel::SystemClock::new()));
        let first = put(&queue, function, 1_800_000_000_000, count).await;
        (queue, first)
    }

    /// So many of this function, from then on, and the first of them.
    async fn put(queue: &MemoryQueue, function: &str, at: u64, count: u32) -> String {
        let now = Timestamp::from_millis(at);
        let execution = |number: u32| {
            let id = format!("evt-{number}");
            let arrival = Arrival {
                key: Key::new(function, ("/shop", id.as_str())).unwrap(),
                function: function.into(),
                origin: Origin { source: "/shop".into(), id: id.into(), kind: "order.created".into() },
                order: None,
                fingerprint: Fingerprint::of_bytes(b"{}"),
                event: b"{}".as_slice().into(),
                event_time: None,
                event_expires_at: None,
            };
            let now = now + std::time::Duration::from_millis(number.into());
            Execution::accepted(now, arrival, now)
        };
        let all: Vec<_> = (0..count).map(execution).collect();
        for some in all.chunks(PAGE_MAX as usize) {
            queue.accept(some).await.unwrap();
        }
        all[0].id().to_string()
    }

    /// What the server writes into its own books is not what somebody looks for.
    #[tokio::test]
    async fn the_beginning_of_an_id_is_found_though_the_books_are_longer_than_the_limit() {
        let (queue, first) = queue_of("orders", PAGE_MAX).await;
        put(&queue, "$audit", 1_800_000_900_000, 4 * PAGE_MAX).await;
        let (found, is_whole) = begin_like(&queue, &first[..12], 2 * PAGE_MAX as usize).await.unwrap();
        assert_eq!((found.len(), found[0].value.id().to_string(), is_whole), (1, first, true));
    }

    #[tokio::test]
    async fn the_beginning_of_an_id_is_looked_for_on_every_page_up_to_a_limit() {
        let (queue, first) = queue_of("orders", 3 * PAGE_MAX).await;
        let (start, page) = (&first[..12], PAGE_MAX as usize);
        let (found, is_whole) = begin_like(&queue, start, SEARCHED_MAX).await.unwrap();
        assert_eq!((found.len(), found[0].value.id().to_string(), is_whole), (1, first.clone(), true));
        let (found, is_whole) = begin_like(&queue, start, 2 * page).await.unwrap();
        assert_eq!((found.len(), is_whole), (0, false), "it is on the third page");
        let (found, is_whole) = begin_like(&queue, "00000000000000", SEARCHED_MAX).await.unwrap();
        assert_eq!((found.len(), is_whole), (0, true));
    }
}
