//! Which functions there are: those of the file, and those that were added over the API.
//!
//! 1. A function that was added is kept as it was written, in a document that all nodes share. It is checked like a
//!    section `[[function]]` of the file, when it is added and whenever it is read.
//! 2. A name of the file is the file's: nobody adds, changes or removes a function under it. If the file takes a name that was
//!    added before, the file's function goes before.
//! 3. What was added is written first, and acted on after. Whether it may be added is decided on what is written, and again if
//!    another node writes meanwhile. Other nodes look for it every [`POLL`].
//! 4. The audit log says which settings a change was of, by name: values may be secrets.
//! 5. One that does not fit on this node, because the guard or the file has changed, or its secret is not there, is
//!    [left out](super::together) alone: the log says so, and so does the list. It does not keep a server from starting, and
//!    what comes for it waits. If that cannot be, it is refused: nobody is told that it is kept.
//! 6. What is written and what is acted on are one turn: nobody acts on what was read before another one wrote.

use super::together::{Added, Together, together};
use crate::{
    config::{DeadLetterSettings, FunctionSettings},
    exit::Failure,
    ingest::Absentees,
};
use semel_core::{
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
};
use semel_runtime::{Auditing, Runtime, deliver::guard::Policy};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tracing::{info, warn};

/// Most functions that are added.
pub const ADDED_MAX: usize = 1_000;
/// How often nodes look for what others added.
const POLL: Duration = Duration::from_secs(5);
/// How often a change is decided while other nodes write.
const TRIES_MAX: u32 = 32;
const DOCUMENT: &str = "functions";

/// Which functions there are.
pub struct Book {
    runtime: Runtime,
    /// Told of those that are left out.
    absentees: Absentees,
    /// Whoever reads or writes the document, until that is acted on.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

struct State {
    file: Vec<FunctionSettings>,
    guard: Policy,
    added: Added,
    /// What became of all of these.
    together: Together,
}

/// Why the functions are not changed.
#[derive(Debug)]
pub(super) enum Unchanged {
    /// There is no such function.
    Missing,
    /// It is the file's.
    TheFiles,
    /// Another one sends its dead letters there.
    Needed(String),
    /// There are too many.
    TooMany,
    /// This is wrong with it.
    Wrong(Vec<String>),
    /// The queue could not tell.
    Store(StoreError),
}

impl From<StoreError> for Unchanged {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Book {
    /// Of a runtime that has these functions of the file; what was added before is added to it.
    pub(crate) async fn open(
        runtime: Runtime,
        file: &[FunctionSettings],
        guard: &Policy,
        absentees: Absentees,
    ) -> Result<Arc<Self>, Failure> {
        let unread = |error: &StoreError| {
            Failure::unavailable("the functions that were added cannot be read").because(error)
        };
        let content = runtime.document(DOCUMENT).await.map_err(|error| unread(&error))?;
        let added = read(content.as_deref()).map_err(|error| unread(&error))?;
        let together = Together::default();
        let state = State { file: file.to_vec(), guard: guard.clone(), added, together };
        let (turn, state) = (tokio::sync::Mutex::default(), Mutex::new(state));
        let book = Arc::new(Self { runtime, absentees, turn, state });
        book.act(&mut book.state())?;
        Ok(book)
    }

    /// From now on the file says this. If it cannot be, nothing changes.
    pub(crate) fn replace(&self, file: &[FunctionSettings], guard: &Policy) -> Result<(), Failure> {
        let mut state = self.state();
        let old = (
            std::mem::replace(&mut state.file, file.to_vec()),
            std::mem::replace(&mut state.guard, guard.clone()),
        );
        let acted = self.act(&mut state);
        if acted.is_err() {
            (state.file, state.guard) = old;
        }
        acted
    }

    /// Looks for what other nodes added, for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        let clock = self.runtime.queue().clock();
        loop {
            clock.sleep(POLL).await;
            if let Err(error) = self.look().await {
                warn!(%error, "which functions were added could not be read");
            }
        }
    }

    async fn look(&self) -> Result<(), StoreError> {
        let _in_turn = if is_on("book_reads_out_of_turn") { None } else { Some(self.turn.lock().await) };
        let added = self.read().await?.0;
        self.act_on(added);
        Ok(())
    }

    /// Adds a function, or changes one that was added.
    pub(super) async fn put(
        &self,
        name: &str,
        written: Map<String, Value>,
        who: &str,
    ) -> Result<(), Unchanged> {
        let put = |before: &Added| {
            let state = self.state();
            if state.is_files(name) {
                return Err(Unchanged::TheFiles);
            }
            if before.len() >= ADDED_MAX && !before.contains_key(name) {
                return Err(Unchanged::TooMany);
            }
            let mut added = before.clone();
            added.insert(name.to_owned(), written.clone());
            let target = state.target(name, &added)?;
            Ok((added, told(before.get(name), &written, &target)))
        };
        self.change(who, "put function", name, put).await
    }

    /// Removes a function that was added. What was accepted for it waits until there is one of this name again.
    pub(super) async fn remove(&self, name: &str, who: &str) -> Result<(), Unchanged> {
        let remove = |before: &Added| {
            let state = self.state();
            if state.is_files(name) {
                return Err(Unchanged::TheFiles);
            }
            let mut added = before.clone();
            added.remove(name).ok_or(Unchanged::Missing)?;
            match state.in_need(name, before) {
                Some(other) => Err(Unchanged::Needed(other)),
                None => Ok((added, String::new())),
            }
        };
        self.change(who, "remove function", name, remove).await
    }

    /// Who a function is of, and where it is called; nothing if it is not in the book, or left out.
    pub(super) fn known(&self, name: &str) -> Option<(bool, String)> {
        let state = self.state();
        let found = state.together.settings.iter().find(|it| it.name == name)?;
        Some((state.is_files(name), found.url.to_string()))
    }

    /// What is wrong with the functions that are left out.
    pub(super) fn left_out(&self) -> BTreeMap<String, String> {
        let state = self.state();
        let left_out = state.together.left_out.iter();
        left_out.map(|(name, mistakes)| (name.clone(), mistakes.join("; "))).collect()
    }

    /// Changes what was added. `decide` is given what is written, and says what is to be, and what the audit log says of that.
    /// It is asked again if another node wrote meanwhile.
    async fn change(
        &self,
        who: &str,
        what: &str,
        name: &str,
        decide: impl Fn(&Added) -> Result<(Added, String), Unchanged> + Send + Sync,
    ) -> Result<(), Unchanged> {
        let _in_turn = self.turn.lock().await;
        for _ in 0..TRIES_MAX {
            let (before, content) = self.read().await?;
            let before =
                if is_on("postgres_functions_added_unseen") { self.state().added.clone() } else { before };
            let (added, detail) = decide(&before)?;
            let entry = Auditing { who, what, subject: name, detail: &detail };
            let is_ours = AtomicBool::new(false);
            let say = |found: Option<&[u8]>| {
                let is_same = found == content.as_deref();
                is_ours.store(is_same, Ordering::Relaxed);
                is_same.then(|| serde_json::to_vec(&added).expect("what was JSON is JSON"))
            };
            self.runtime.change_document(DOCUMENT, entry, say).await?;
            if is_ours.into_inner() {
                self.act_on(added);
                return Ok(());
            }
        }
        Err(StoreError::new(
            StoreErrorKind::Unavailable,
            "control",
            "too many change which functions there are",
        )
        .into())
    }

    /// What was added, and how that is written.
    async fn read(&self) -> Result<(Added, Option<Arc<[u8]>>), StoreError> {
        let content = self.runtime.document(DOCUMENT).await?;
        Ok((read(content.as_deref())?, content))
    }

    /// From now on these were added.
    fn act_on(&self, added: Added) {
        let mut state = self.state();
        if state.added == added {
            return;
        }
        state.added = added;
        if let Err(failure) = self.act(&mut state) {
            warn!(%failure, "functions were added, and could not be taken");
        }
    }

    /// Lets run what can be together. It fails for the file alone, and then everything stays as it is.
    fn act(&self, state: &mut State) -> Result<(), Failure> {
        let new = together(&state.file, &state.added, &state.guard)?;
        // Those that go are told of before they go, and those that come until they are there: no event is missed in between.
        self.absentees.replace([&*state.together.absent, &*new.absent].concat());
        let replaced = self.runtime.replace(new.functions.clone());
        let old = match replaced {
            Ok(()) => std::mem::replace(&mut state.together, new),
            Err(error) => {
                self.absentees.replace(state.together.absent.clone());
                return Err(Failure::usage("the functions do not go together").because(&error));
            }
        };
        self.absentees.replace(state.together.absent.clone());
        say(&old.left_out, &state.together.left_out);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_files(&self, name: &str) -> bool {
        self.file.iter().any(|it| it.name == name)
    }

    /// Where a function is called, once these are added; or why it cannot be.
    fn target(&self, name: &str, added: &Added) -> Result<String, Unchanged> {
        let mut all = self.with(added)?;
        match all.settings.iter().find(|it| it.name == name) {
            Some(found) => Ok(found.url.to_string()),
            None => Err(Unchanged::Wrong(all.left_out.remove(name).unwrap_or_default())),
        }
    }

    /// Who sends dead letters to a function, where these are added.
    fn in_need(&self, name: &str, added: &Added) -> Option<String> {
        let needs =
            |it: &FunctionSettings| matches!(&it.dead_letter, DeadLetterSettings::Function(to) if to == name);
        let all = self.with(added).ok()?;
        all.settings.into_iter().find(needs).map(|it| it.name)
    }

    fn with(&self, added: &Added) -> Result<Together, Unchanged> {
        let of_file = |failure: Failure| Unchanged::Wrong(failure.lines().map(str::to_owned).collect());
        together(&self.file, added, &self.guard).map_err(of_file)
    }
}

/// Says which functions are left out now, and were not or for another reason; and which are not any more.
fn say(before: &BTreeMap<String, Vec<String>>, now: &BTreeMap<String, Vec<String>>) {
    for (function, mistakes) in now.iter().filter(|(name, it)| before.get(*name) != Some(*it)) {
        warn!(
            function,
            mistakes = mistakes.join("; "),
            "a function that was added does not fit, and is left out"
        );
    }
    for function in before.keys().filter(|it| !now.contains_key(*it)) {
        info!(function, "a function is not left out any more");
    }
}

/// What is said of a function that was written: which settings are different from what was written before.
fn told(before: Option<&Map<String, Value>>, written: &Map<String, Value>, target: &str) -> String {
    let how = if before.is_some() { "changed" } else { "added" };
    let nothing = Map::new();
    let before = before.unwrap_or(&nothing);
    let names: BTreeSet<_> = before.keys().chain(written.keys()).collect();
    let names = names.into_iter().filter(|it| before.get(*it) != written.get(*it));
    let names = names.map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("{how}, {target}: {}", if names.is_empty() { "nothing is different" } else { &names })
}

/// What is written of a document that says this, as it is read; nothing if it says nothing.
pub(super) fn rewritten(content: &[u8]) -> Option<Vec<u8>> {
    read(Some(content)).ok().map(|added| serde_json::to_vec(&added).expect("functions are JSON"))
}

fn read(content: Option<&[u8]>) -> Result<Added, StoreError> {
    let Some(content) = content.filter(|it| !it.is_empty()) else { return Ok(Added::new()) };
    serde_json::from_slice(content).map_err(|error| {
        StoreError::new(StoreErrorKind::Corrupt, "control", "read which functions were added").because(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel::BoxFuture;
    use semel_core::{
        execution::{Execution, ExecutionId},
        queue::{Accepted, Change, Counts, Cursor, Demand, Fenced, Filter, Page, Queue, Written},
        time::{Clock, Timestamp},
    };
    use semel_events::event::Event;
    use semel_runtime::{
        deliver::{Client, Settings},
        queue::memory::MemoryQueue,
    };

    #[test]
    fn which_settings_of_a_function_were_changed_is_told_by_name() {
        let map = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let first = map(r#"{"url": "http://a/secret", "secret": "whsec_one", "retry": "gen2"}"#);
        let second = map(r#"{"url": "http://a/secret", "secret": "whsec_two", "rate": "1/s"}"#);
        assert_eq!(told(None, &first, "http://a:80"), "added, http://a:80: retry, secret, url");
        assert_eq!(told(Some(&first), &second, "http://a:80"), "changed, http://a:80: rate, retry, secret");
        assert_eq!(told(Some(&first), &first, "http://a:80"), "changed, http://a:80: nothing is different");
    }

    /// A queue of which one answer is held back.
    struct Late {
        inner: MemoryQueue,
        is_next: AtomicBool,
        gate: tokio::sync::Notify,
    }

    impl Queue for Late {
        fn accept<'a>(&'a self, new: &'a [Execution]) -> BoxFuture<'a, Result<Vec<Accepted>, StoreError>> {
            self.inner.accept(new)
        }

        fn claim<'a>(
            &'a self,
            demand: &'a Demand,
        ) -> BoxFuture<'a, Result<Vec<Fenced<Execution>>, StoreError>> {
            self.inner.claim(demand)
        }

        fn write<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
            self.inner.write(changes)
        }

        fn get<'a>(
            &'a self,
            ids: &'a [ExecutionId],
        ) -> BoxFuture<'a, Result<Vec<Option<Fenced<Execution>>>, StoreError>> {
            Box::pin(async move {
                let is_late = self.is_next.swap(false, Ordering::Relaxed);
                let found = self.inner.get(ids).await;
                if is_late {
                    self.gate.notified().await;
                }
                found
            })
        }

        fn list<'a>(
            &'a self,
            filter: &'a Filter,
            from: Option<&'a Cursor>,
            limit: u32,
        ) -> BoxFuture<'a, Result<Page<Fenced<Execution>>, StoreError>> {
            self.inner.list(filter, from, limit)
        }

        fn counts(&self) -> BoxFuture<'_, Result<Vec<Counts>, StoreError>> {
            self.inner.counts()
        }

        fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
            self.inner.purge(expired_at, limit)
        }

        fn clock(&self) -> Arc<dyn Clock> {
            self.inner.clock()
        }
    }

    /// The node reads what others added, and is told so only after somebody has added a function through it.
    #[tokio::test]
    async fn a_function_that_is_added_while_a_node_looks_stays() {
        let inner = MemoryQueue::new(Arc::new(semel::SystemClock::new()));
        let queue =
            Arc::new(Late { inner, is_next: AtomicBool::new(false), gate: tokio::sync::Notify::new() });
        let client = Arc::new(Client::new(Settings::default()));
        let runtime = Runtime::builder(queue.clone(), client).start().await.unwrap();
        let book = Book::open(runtime, &[], &Policy::public(), Absentees::default()).await.unwrap();
        let (looking, putting) = (Arc::clone(&book), Arc::clone(&book));
        queue.is_next.store(true, Ordering::Relaxed);
        let looking = tokio::spawn(async move { looking.look().await });
        while queue.is_next.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        let url = serde_json::from_str(r#"{"url": "https://orders.example.com/"}"#).unwrap();
        let putting = tokio::spawn(async move { putting.put("orders", url, "ada").await });
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        queue.gate.notify_one();
        looking.await.unwrap().unwrap();
        putting.await.unwrap().unwrap();
        assert!(book.known("orders").is_some(), "it was reverted");
    }

    /// A start that cannot know which functions there are is none: it would answer for events that it does not keep.
    /// A node that is newer may write what this one does not know yet.
    #[tokio::test]
    async fn what_a_function_takes_that_cannot_be_read_here_is_not_kept_and_the_rest_is() {
        let queue = Arc::new(MemoryQueue::new(Arc::new(semel::SystemClock::new())));
        let client = Arc::new(Client::new(Settings::default()));
        let runtime = Runtime::builder(queue, client).start().await.unwrap();
        let entry = Auditing { who: "ada", what: "put function", subject: "new", detail: "" };
        let newer =
            br#"{"new": {"url": "https://a.example.com/", "filter": {"type": "new"}, "of_tomorrow": 1},
            "newest": {"url": "https://a.example.com/", "filter": {"of_tomorrow": 1, "sql": []}},
            "old": {"url": "https://a.example.com/", "filter": {"type": "old"}}}"#;
        runtime.change_document(DOCUMENT, entry, |_| Some(newer.to_vec())).await.unwrap();
        let absentees = Absentees::default();
        let book = Book::open(runtime.clone(), &[], &Policy::public(), absentees.clone()).await.unwrap();
        assert_eq!(book.left_out().keys().collect::<Vec<_>>(), ["new", "newest"]);
        let event = |kind: &str| [Event::builder("1", "/a", kind).build().unwrap()];
        let only = |name: &str| [Arc::from(name)];
        assert!(absentees.would_take(&event("old"), None), "nobody can say what `newest` does not take");
        assert!(absentees.would_take(&event("new"), Some(&only("new"))));
        assert!(!absentees.would_take(&event("old"), Some(&only("new"))), "its filter can be read");
        assert!(!absentees.would_take(&event("new"), Some(&only("old"))));
        book.remove("newest", "ada").await.unwrap();
        assert!(!absentees.would_take(&event("old"), None));
        assert!(absentees.would_take(&event("new"), None));
        book.remove("new", "ada").await.unwrap();
        assert!(!absentees.would_take(&event("new"), None));
        assert_eq!(runtime.status().len(), 1, "`old` runs");
    }

    #[tokio::test]
    async fn a_document_that_cannot_be_read_ends_the_start_and_is_not_written_over() {
        let clock = Arc::new(semel::SystemClock::new());
        let queue = Arc::new(MemoryQueue::new(clock));
        let client = Arc::new(Client::new(Settings::default()));
        let runtime = Runtime::builder(queue, client).start().await.unwrap();
        let book = Book::open(runtime.clone(), &[], &Policy::public(), Absentees::default()).await.unwrap();
        let entry = Auditing { who: "ada", what: "break", subject: "functions", detail: "" };
        runtime.change_document(DOCUMENT, entry, |_| Some(b"[".to_vec())).await.unwrap();
        let url = serde_json::from_str(r#"{"url": "https://orders.example.com/"}"#).unwrap();
        assert!(matches!(book.put("orders", url, "ada").await, Err(Unchanged::Store(_))));
        assert_eq!(runtime.document(DOCUMENT).await.unwrap().as_deref(), Some(&b"["[..]));
        let Err(failure) = Book::open(runtime, &[], &Policy::public(), Absentees::default()).await else {
            panic!("it was read")
        };
        insta::assert_snapshot!(failure.to_string());
    }
}
