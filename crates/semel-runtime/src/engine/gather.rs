//! Many callers, few calls: what comes while the queue is busy goes together.
//!
//! 1. Whoever comes alone goes at once.
//! 2. At most so many calls are under way as the queue has use for. What comes meanwhile waits, and goes with the next one that
//!    is free, as much as fits: [`BATCH_MAX`] items or [`BATCH_BYTES_MAX`] bytes.
//! 3. A submission goes whole, in one call. Its end is told to whoever submitted it by a function that runs even if
//!    the caller has gone: what was begun is finished. It is given back what it submitted, so that nobody needs a copy.
//! 4. What waits is bounded in bytes by whoever submits: see [`Gather::waiting_bytes`].
//!
//! It does not retry: an error is told to everybody whose items were in the call.

use super::{crew::Crew, tasks::Tasks};
use semel_core::{BoxFuture, queue::BATCH_MAX, store::StoreError};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

/// Most calls under way at once, of a queue on a server: each has a connection.
const FLIGHTS_MAX: u32 = 4;
/// And of one in this process: each call waits for the disk, and one sync serves all that were begun before it. Who has to wait
/// for another's call to end waits for two syncs; but who comes in a call of its own costs more than who shares one.
const FLIGHTS_ALONE_MAX: u32 = 16;
/// Most bytes in a call, unless a single submission has more.
pub(crate) const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a submission is told in the end.
pub(crate) type Told<A> = Result<Vec<A>, Arc<StoreError>>;
/// Who is told, and given back what was submitted.
pub(crate) type Done<T, A> = Box<dyn FnOnce(Vec<T>, Told<A>) + Send>;
/// What came of a batch, which is given back.
pub(crate) type Called<T, A> = (Vec<T>, Result<Vec<A>, StoreError>);
/// What is called with a batch.
type Call<T, A> = Box<dyn Fn(Vec<T>) -> BoxFuture<'static, Called<T, A>> + Send + Sync>;

/// Gathers items of many into batches for one.
pub(crate) struct Gather<T, A> {
    shared: Arc<Shared<T, A>>,
}

struct Shared<T, A> {
    call: Call<T, A>,
    flights: Crew<Arc<Self>>,
    flights_max: u32,
    waiting: Mutex<Waiting<T, A>>,
}

struct Waiting<T, A> {
    submissions: VecDeque<Submission<T, A>>,
    bytes: usize,
    flights: u32,
    /// Nothing flies any more.
    is_closed: bool,
}

struct Submission<T, A> {
    items: Vec<T>,
    bytes: usize,
    done: Done<T, A>,
}

impl<T: Send + 'static, A: Send + 'static> Gather<T, A> {
    /// For this call, of a queue that this process may have for itself.
    pub(crate) fn new(
        tasks: Arc<Tasks>,
        is_alone: bool,
        call: impl Fn(Vec<T>) -> BoxFuture<'static, Called<T, A>> + Send + Sync + 'static,
    ) -> Self {
        let waiting = Waiting { submissions: VecDeque::new(), bytes: 0, flights: 0, is_closed: false };
        let (flights, waiting) = (Crew::new(tasks, fly), Mutex::new(waiting));
        let flights_max = if is_alone { FLIGHTS_ALONE_MAX } else { FLIGHTS_MAX };
        Self { shared: Arc::new(Shared { call: Box::new(call), flights, flights_max, waiting }) }
    }

    /// Sends these items, [`BATCH_MAX`] at most, and tells `done` what came of it.
    pub(crate) fn submit(&self, items: Vec<T>, bytes: usize, done: Done<T, A>) {
        assert!(items.len() <= BATCH_MAX, "{} items in a submission", items.len());
        let mut waiting = self.shared.lock();
        if waiting.is_closed {
            // Outside the lock, as below. Whoever waits for `done` finds that it is gone.
            drop(waiting);
            return;
        }
        waiting.submissions.push_back(Submission { items, bytes, done });
        waiting.bytes += bytes;
        if waiting.flights < self.shared.flights_max {
            waiting.flights += 1;
            drop(waiting);
            self.shared.flights.give(Arc::clone(&self.shared));
        }
    }

    /// Forgets what waits and what comes: the runtime is gone. Whoever waits for it finds that it will not be told.
    pub(crate) fn close(&self) {
        let submissions = {
            let mut waiting = self.shared.lock();
            waiting.is_closed = true;
            std::mem::take(&mut waiting.submissions)
        };
        // Outside the lock: what is forgotten may hold the last handle of something.
        drop(submissions);
        self.shared.flights.dismiss();
    }

    /// How much waits.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.shared.lock().bytes
    }
}

impl<T, A> Shared<T, A> {
    fn lock(&self) -> MutexGuard<'_, Waiting<T, A>> {
        self.waiting.lock().expect("no code panics while it holds what waits")
    }

    /// What goes next; `None` if nothing waits, and then this flight is over.
    fn next(&self) -> Option<Vec<Submission<T, A>>> {
        let mut waiting = self.lock();
        let (mut items, mut bytes, mut count) = (0, 0, 0);
        for submission in &waiting.submissions {
            let fits =
                items + submission.items.len() <= BATCH_MAX && bytes + submission.bytes <= BATCH_BYTES_MAX;
            if count > 0 && !fits {
                break;
            }
            (items, bytes, count) = (items + submission.items.len(), bytes + submission.bytes, count + 1);
        }
        if count == 0 {
            waiting.flights -= 1;
            return None;
        }
        waiting.bytes -= bytes;
        Some(waiting.submissions.drain(..count).collect())
    }
}

async fn fly<T: Send + 'static, A: Send + 'static>(shared: Arc<Shared<T, A>>) {
    while let Some(batch) = shared.next() {
        let count = batch.iter().map(|it| it.items.len()).sum();
        let (mut items, mut told) = (Vec::with_capacity(count), Vec::with_capacity(batch.len()));
        for Submission { items: mut own, done, .. } in batch {
            let length = own.len();
            items.append(&mut own);
            told.push((own, length, done));
        }
        let (items, called) = (shared.call)(items).await;
        let mut items = items.into_iter();
        let mut answers = called.map(Vec::into_iter).map_err(Arc::new);
        for (mut own, length, done) in told {
            own.extend(items.by_ref().take(length));
            let answer = answers.as_mut().map(|it| it.take(length).collect());
            done(own, answer.map_err(|error| Arc::clone(error)));
        }
    }
}

impl<T, A> fmt::Debug for Gather<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    /// How many calls are under way when many have come, one after the other, and none has ended.
    async fn under_way(is_alone: bool) -> u32 {
        let (begun, mut calls) = mpsc::unbounded_channel();
        let call = move |_: Vec<u32>| -> BoxFuture<'static, Called<u32, ()>> {
            begun.send(()).unwrap();
            Box::pin(std::future::pending())
        };
        let gather = Gather::new(Arc::new(Tasks::new()), is_alone, call);
        for number in 0..FLIGHTS_ALONE_MAX * 2 {
            gather.submit(vec![number], 1, Box::new(|_, _| ()));
            // Whoever may call does before the next one comes.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
        let mut count = 0;
        while calls.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!(gather.waiting_bytes() as u32, FLIGHTS_ALONE_MAX * 2 - count, "the rest waits");
        count
    }

    #[tokio::test]
    async fn so_many_calls_are_under_way_as_the_queue_has_use_for() {
        assert_eq!(under_way(false).await, FLIGHTS_MAX);
        assert_eq!(under_way(true).await, FLIGHTS_ALONE_MAX);
    }
}
