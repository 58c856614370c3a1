//! The books, kept outside of the program.
//!
//! 1. A call is noted when it has come; an acknowledgement when it has come back.
//! 2. What must not happen is noted as a breach, with the event's id, and [`Oracle::check`] tells them all.
//!
//! It does not see what the program stores: that is asked for at the end, and compared.

use crate::support::{Answer, Asked, answer};
use serde_json::Value;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex},
};
use tokio::sync::Notify;

/// One call of the function.
#[derive(Clone, Debug)]
struct Call {
    attempt: u64,
    fence: u64,
    /// How often a program was started before.
    life: usize,
    /// It was answered with success.
    is_done: bool,
}

#[derive(Default)]
struct Book {
    /// By key.
    calls: HashMap<String, Vec<Call>>,
    /// The key of an event.
    keys: HashMap<String, String>,
    acknowledged: BTreeSet<String>,
    /// What was said to be completed, or must be.
    completed: HashSet<String>,
    acknowledgements: usize,
    breaches: Vec<String>,
    life: usize,
    random: fastrand::Rng,
}

/// What happened, in figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Figures {
    /// Deliveries that were acknowledged.
    pub(super) acknowledgements: usize,
    /// Events that were.
    pub(super) acknowledged: usize,
    /// Events that the function was called for.
    pub(super) called: usize,
    /// Calls of the function.
    pub(super) calls: usize,
    /// Events that the function said it has taken.
    pub(super) done: usize,
    /// Events that it has taken more than once: killed between the answer and the note of it.
    pub(super) done_again: usize,
}

/// How the function behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    /// Of a hundred calls, so many fail.
    pub(super) failing: u8,
    /// Of a hundred calls, so many wait until the next kill, and fail.
    pub(super) held: u8,
}

/// Who keeps the books.
pub(super) struct Oracle {
    manners: Manners,
    book: Mutex<Book>,
    /// Somebody was called or acknowledged.
    pub(super) news: Notify,
    killed: Notify,
}

impl Oracle {
    pub(super) fn new(seed: u64, manners: Manners) -> Arc<Self> {
        let book = Book { random: fastrand::Rng::with_seed(seed), ..Book::default() };
        Arc::new(Self { manners, book: Mutex::new(book), news: Notify::new(), killed: Notify::new() })
    }

    /// Notes a call, and answers it.
    pub(super) async fn call(self: Arc<Self>, asked: Asked) -> Answer {
        let killed = self.killed.notified();
        let chance = self.noted(&asked);
        self.news.notify_waiters();
        let Manners { failing, held } = self.manners;
        if chance < held {
            killed.await;
        }
        answer(if chance < held + failing { 503 } else { 200 }, "")
    }

    /// Notes a call, and gives what decides about its answer.
    fn noted(&self, asked: &Asked) -> u8 {
        let text = |name: &str| asked.header(name).join(",");
        let (id, key) = (text("ce-id"), text("idempotency-key"));
        let number = |name: &str| text(name).parse::<u64>().unwrap();
        let mut book = self.book.lock().unwrap();
        let book = &mut *book;
        let chance = book.random.u8(..100);
        let is_done = chance >= self.manners.held + self.manners.failing;
        let call =
            Call { attempt: number("semel-attempt"), fence: number("semel-fence"), life: book.life, is_done };
        let known = book.keys.entry(id.clone()).or_insert_with(|| key.clone());
        if *known != key {
            book.breaches.push(format!("{id} came with two keys, {known} and {key}"));
        }
        if book.completed.contains(&id) {
            book.breaches.push(format!("{id} was completed, and is called again: {call:?}"));
        }
        let calls = book.calls.entry(key).or_default();
        if let Some(last) = calls.last().filter(|it| it.fence >= call.fence || it.attempt >= call.attempt) {
            book.breaches.push(format!("{id} went back: {last:?}, then {call:?}"));
        }
        calls.push(call);
        chance
    }

    /// Notes what a sender was told.
    pub(super) fn acknowledged(&self, id: &str, receipt: &Value) {
        let mut book = self.book.lock().unwrap();
        let book = &mut *book;
        let one = &receipt["functions"][0];
        let is_known = !book.acknowledged.insert(id.to_owned());
        if is_known && one["duplicate"] != true {
            book.breaches.push(format!("{id} was acknowledged, and is new again: {receipt}"));
        }
        if one["status"] == "COMPLETED" {
            book.completed.insert(id.to_owned());
        } else if book.completed.contains(id) || one["status"] == "FAILED" {
            book.breaches.push(format!("{id} does not stand where it should: {receipt}"));
        }
        book.acknowledgements += 1;
        self.news.notify_waiters();
    }

    /// Notes something that must not be.
    pub(super) fn breach(&self, what: String) {
        self.book.lock().unwrap().breaches.push(what);
    }

    /// Resolves when so many more deliveries were acknowledged.
    pub(super) async fn more(&self, count: usize) {
        let goal = self.figures().acknowledgements + count;
        crate::support::soon("more acknowledgements", async {
            loop {
                let mut news = std::pin::pin!(self.news.notified());
                news.as_mut().enable();
                if self.book.lock().unwrap().acknowledgements >= goal {
                    return;
                }
                news.await;
            }
        })
        .await;
    }

    /// A program has ended: what waited for that goes on.
    pub(super) fn ended(&self) {
        self.book.lock().unwrap().life += 1;
        self.killed.notify_waiters();
    }

    /// The one program stopped, and said that it had settled everything: what its last life called with success is
    /// completed.
    pub(super) fn settled(&self) {
        let mut book = self.book.lock().unwrap();
        let book = &mut *book;
        let is_done = |key: &String| {
            book.calls.get(key).and_then(|it| it.last()).is_some_and(|it| it.is_done && it.life == book.life)
        };
        let done = book.keys.iter().filter(|(_, key)| is_done(key)).map(|(id, _)| id.clone());
        book.completed.extend(done);
    }

    /// Everything that was acknowledged.
    pub(super) fn all_acknowledged(&self) -> Vec<String> {
        self.book.lock().unwrap().acknowledged.iter().cloned().collect()
    }

    /// Those of them that were not said to be completed.
    pub(super) fn not_completed(&self) -> Vec<String> {
        let book = self.book.lock().unwrap();
        book.acknowledged.iter().filter(|it| !book.completed.contains(*it)).cloned().collect()
    }

    /// What happened.
    pub(super) fn figures(&self) -> Figures {
        let book = self.book.lock().unwrap();
        let done = |it: &Vec<Call>| it.iter().filter(|it| it.is_done).count();
        Figures {
            acknowledgements: book.acknowledgements,
            acknowledged: book.acknowledged.len(),
            called: book.calls.len(),
            calls: book.calls.values().map(Vec::len).sum(),
            done: book.calls.values().filter(|it| done(it) > 0).count(),
            done_again: book.calls.values().filter(|it| done(it) > 1).count(),
        }
    }

    /// Fails if any rule was broken.
    pub(super) fn check(&self) {
        let book = self.book.lock().unwrap();
        let some: Vec<_> = book.breaches.iter().take(10).collect();
        assert!(some.is_empty(), "{} breaches: {some:#?}", book.breaches.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::{HeaderMap, Version};
    use serde_json::json;

    const SURE: Manners = Manners { failing: 0, held: 0 };

    fn asked(id: &str, key: &str, attempt: &str, fence: &str) -> Asked {
        let mut headers = HeaderMap::new();
        let all =
            [("ce-id", id), ("idempotency-key", key), ("semel-attempt", attempt), ("semel-fence", fence)];
        for (name, value) in all {
            headers.insert(name, value.parse().unwrap());
        }
        let (uri, version) = ("/".parse().unwrap(), Version::HTTP_11);
        Asked { uri, version, headers, body: Bytes::new(), trailers: None }
    }

    fn told(duplicate: bool, status: &str) -> Value {
        json!({"functions": [{"duplicate": duplicate, "status": status}]})
    }

    fn check(expected: usize, story: impl Fn(&Oracle)) {
        let oracle = Oracle::new(1, SURE);
        story(&oracle);
        assert_eq!(oracle.book.lock().unwrap().breaches.len(), expected);
    }

    #[test]
    fn the_books_notice_what_must_not_be() {
        check(0, |it| {
            it.noted(&asked("1", "k", "1", "5"));
            it.noted(&asked("1", "k", "2", "9"));
            it.acknowledged("1", &told(false, ""));
            it.acknowledged("1", &told(true, "COMPLETED"));
        });
        check(1, |it| {
            it.noted(&asked("1", "k", "1", "5"));
            it.noted(&asked("1", "k", "2", "5"));
        });
        check(1, |it| {
            it.noted(&asked("1", "k", "2", "5"));
            it.noted(&asked("1", "k", "2", "6"));
        });
        check(1, |it| {
            it.noted(&asked("1", "k", "1", "5"));
            it.noted(&asked("1", "l", "2", "6"));
        });
        check(1, |it| {
            it.acknowledged("1", &told(true, "COMPLETED"));
            it.noted(&asked("1", "k", "2", "6"));
        });
        check(1, |it| {
            it.noted(&asked("1", "k", "1", "5"));
            it.settled();
            it.noted(&asked("1", "k", "2", "6"));
        });
        check(0, |it| {
            it.noted(&asked("1", "k", "1", "5"));
            it.ended();
            it.settled();
            it.noted(&asked("1", "k", "2", "6"));
        });
        check(1, |it| {
            it.acknowledged("1", &told(false, ""));
            it.acknowledged("1", &told(false, ""));
        });
        check(1, |it| {
            it.acknowledged("1", &told(true, "COMPLETED"));
            it.acknowledged("1", &told(true, "PENDING"));
        });
        check(1, |it| it.acknowledged("1", &told(true, "FAILED")));
    }
}
