//! Some futures at a time, in one task: nothing is left running when the answer goes out.

use semel_core::BoxFuture;
use std::{
    future::poll_fn,
    task::{Context, Poll},
};

/// What was begun, and is not done: by its number.
type Running<'a, T> = Vec<(usize, BoxFuture<'a, T>)>;

/// The outputs of so many futures, in their order, with at most some of them under way.
pub(super) async fn all<'a, T>(
    count: usize,
    at_once: usize,
    begin: &(dyn Fn(usize) -> BoxFuture<'a, T> + Sync),
) -> Vec<T> {
    let mut waiting = 0..count;
    let mut running = Running::new();
    let mut done = Vec::with_capacity(count);
    loop {
        let room = at_once.max(1) - running.len();
        running.extend(waiting.by_ref().take(room).map(|at| (at, begin(at))));
        if running.is_empty() {
            break;
        }
        done.extend(poll_fn(|cx| some(&mut running, cx)).await);
    }
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, output)| output).collect()
}

/// Takes out those that are done, as soon as there is one.
fn some<T>(running: &mut Running<'_, T>, cx: &mut Context<'_>) -> Poll<Vec<(usize, T)>> {
    let mut done = Vec::new();
    running.retain_mut(|(at, future)| match future.as_mut().poll(cx) {
        Poll::Ready(output) => {
            done.push((*at, output));
            false
        }
        Poll::Pending => true,
    });
    if done.is_empty() { Poll::Pending } else { Poll::Ready(done) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[tokio::test]
    async fn as_many_run_at_a_time_as_were_asked_for_and_all_are_in_order() {
        for (count, at_once) in [(0, 3), (1, 3), (10, 1), (10, 3), (10, 100), (5, 0)] {
            let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let (running, most) = (&running, &most);
            let begin = |at| -> BoxFuture<'_, usize> {
                Box::pin(async move {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    // Later ones end earlier.
                    for _ in at..count {
                        tokio::task::yield_now().await;
                    }
                    running.fetch_sub(1, SeqCst);
                    at
                })
            };
            assert_eq!(all(count, at_once, &begin).await, (0..count).collect::<Vec<_>>());
            assert_eq!(most.load(SeqCst), count.min(at_once.max(1)), "{count} futures, {at_once} at once");
        }
    }
}
