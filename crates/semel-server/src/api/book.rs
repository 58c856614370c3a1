//! Which functions there are: those of the file, and those that were added over the API.
//!
//! 1. A function that was added is kept as it was written, in a document that all nodes share. It is checked like a
//!    section `[[function]]` of the file, when it is added and whenever it is read.
//! 2. A name of the file is the file's: nobody adds, changes or removes a function under it. If the file takes a name that was
//!    added before, the file's function goes before.
//! 3. What was added is written first, and acted on after. Other nodes look for it every [`POLL`].
//! 4. The audit log says which settings a change was of, by name: values may be secrets.
//! 5. One that no longer fits, because the guard or the file has changed, is left out, and the log says so.

use crate::{
    config::{DeadLetterSettings, FunctionSettings, is_loop, posted},
    exit::Failure,
    serve::functions,
};
use semel_core::store::{StoreError, StoreErrorKind};
use semel_runtime::{Auditing, Function, Runtime, deliver::guard::Policy};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tracing::warn;

/// Most functions that are added.
pub const ADDED_MAX: usize = 1_000;
/// How often nodes look for what others added.
const POLL: Duration = Duration::from_secs(5);
const DOCUMENT: &str = "functions";

/// What functions were added, as they were written.
type Added = BTreeMap<String, Map<String, Value>>;

/// Which functions there are.
pub struct Book {
    runtime: Runtime,
    state: Mutex<State>,
}

struct State {
    file: Vec<FunctionSettings>,
    guard: Policy,
    added: Added,
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
    ) -> Result<Arc<Self>, Failure> {
        let unread = |error: &StoreError| {
            Failure::unavailable("the functions that were added cannot be read").because(error)
        };
        let content = runtime.document(DOCUMENT).await.map_err(|error| unread(&error))?;
        let added = read(content.as_deref()).map_err(|error| unread(&error))?;
        let state = State { file: file.to_vec(), guard: guard.clone(), added };
        let book = Arc::new(Self { runtime, state: Mutex::new(state) });
        book.act(&book.state())?;
        Ok(book)
    }

    /// From now on the file says this. If it cannot be, nothing changes.
    pub(crate) fn replace(&self, file: &[FunctionSettings], guard: &Policy) -> Result<(), Failure> {
        let mut state = self.state();
        let new = State { file: file.to_vec(), guard: guard.clone(), added: state.added.clone() };
        self.act(&new)?;
        *state = new;
        Ok(())
    }

    /// Looks for what other nodes added, for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        let clock = self.runtime.queue().clock();
        loop {
            clock.sleep(POLL).await;
            match self.runtime.document(DOCUMENT).await.and_then(|it| read(it.as_deref())) {
                Ok(added) => {
                    let mut state = self.state();
                    if state.added != added {
                        state.added = added;
                        self.act_or_say(&state);
                    }
                }
                Err(error) => warn!(%error, "which functions were added could not be read"),
            }
        }
    }

    /// Adds a function, or changes one that was added.
    pub(super) async fn put(
        &self,
        name: &str,
        written: Map<String, Value>,
        who: &str,
    ) -> Result<(), Unchanged> {
        // Another node may have changed it, and this one has not heard of that yet.
        let before = read(self.runtime.document(DOCUMENT).await?.as_deref())?;
        let detail = {
            let state = self.state();
            if state.is_files(name) {
                return Err(Unchanged::TheFiles);
            }
            if before.len() >= ADDED_MAX && !before.contains_key(name) {
                return Err(Unchanged::TooMany);
            }
            let new = state.check(name, &written)?;
            told(before.get(name), &written, &new.url.to_string())
        };
        let entry = Auditing { who, what: "put function", subject: name, detail: &detail };
        self.change(entry, |added| {
            added.insert(name.to_owned(), written.clone());
        })
        .await
    }

    /// Removes a function that was added. What was accepted for it waits until there is one of this name again.
    pub(super) async fn remove(&self, name: &str, who: &str) -> Result<(), Unchanged> {
        {
            let state = self.state();
            if state.is_files(name) {
                return Err(Unchanged::TheFiles);
            }
            if !state.added.contains_key(name) {
                return Err(Unchanged::Missing);
            }
            let needs = |it: &FunctionSettings| matches!(&it.dead_letter, DeadLetterSettings::Function(to) if to == name);
            if let Some(other) = state.settings().into_iter().find(needs) {
                return Err(Unchanged::Needed(other.name));
            }
        }
        let entry = Auditing { who, what: "remove function", subject: name, detail: "" };
        self.change(entry, |added| {
            added.remove(name);
        })
        .await
    }

    /// Who a function is of, and where it is called; nothing if it is not in the book.
    pub(super) fn known(&self, name: &str) -> Option<(bool, String)> {
        let state = self.state();
        let found = state.settings().into_iter().find(|it| it.name == name)?;
        Some((state.is_files(name), found.url.to_string()))
    }

    async fn change(
        &self,
        entry: Auditing<'_>,
        change: impl Fn(&mut Added) + Send + Sync,
    ) -> Result<(), Unchanged> {
        let content = self.runtime.change_document(DOCUMENT, entry, |before| {
            let mut added = read(before).unwrap_or_default();
            change(&mut added);
            Some(serde_json::to_vec(&added).expect("what was JSON is JSON"))
        });
        let added = read(content.await?.as_deref())?;
        let mut state = self.state();
        state.added = added;
        self.act_or_say(&state);
        Ok(())
    }

    fn act(&self, state: &State) -> Result<(), Failure> {
        let functions = state.functions()?;
        let replaced = self.runtime.replace(functions);
        replaced.map_err(|error| Failure::usage("the functions do not go together").because(&error))
    }

    fn act_or_say(&self, state: &State) {
        if let Err(failure) = self.act(state) {
            warn!(%failure, "functions were added, and do not go together with the others");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_files(&self, name: &str) -> bool {
        self.file.iter().any(|it| it.name == name)
    }

    fn names(&self) -> Vec<String> {
        let added = self.added.keys().filter(|it| !self.is_files(it));
        self.file.iter().map(|it| &it.name).chain(added).cloned().collect()
    }

    /// All functions that can be.
    fn settings(&self) -> Vec<FunctionSettings> {
        let names = self.names();
        let added = self.added.iter().filter(|(name, _)| !self.is_files(name));
        let added = added.filter_map(|(name, written)| match posted(name, written, &names, &self.guard) {
            Ok(settings) => Some(settings),
            Err(mistakes) => {
                warn!(
                    function = name,
                    mistakes = mistakes.join("; "),
                    "a function that was added does not fit"
                );
                None
            }
        });
        self.file.iter().cloned().chain(added).collect()
    }

    fn functions(&self) -> Result<Vec<Function>, Failure> {
        functions(&self.settings())
    }

    /// A function that could be added.
    fn check(&self, name: &str, written: &Map<String, Value>) -> Result<FunctionSettings, Unchanged> {
        let mut names = self.names();
        names.push(name.to_owned());
        let new = posted(name, written, &names, &self.guard).map_err(Unchanged::Wrong)?;
        functions(std::slice::from_ref(&new)).map_err(|failure| {
            let lines = failure.to_string().lines().map(str::to_owned).collect();
            Unchanged::Wrong(lines)
        })?;
        let mut all = self.settings();
        all.retain(|it| it.name != name);
        all.push(new.clone());
        if is_loop(&all, name) {
            return Err(Unchanged::Wrong(vec!["its dead letters would come back to it".to_owned()]));
        }
        Ok(new)
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

    #[test]
    fn which_settings_of_a_function_were_changed_is_told_by_name() {
        let map = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let first = map(r#"{"url": "http://a/secret", "secret": "whsec_one", "retry": "gen2"}"#);
        let second = map(r#"{"url": "http://a/secret", "secret": "whsec_two", "rate": "1/s"}"#);
        assert_eq!(told(None, &first, "http://a:80"), "added, http://a:80: retry, secret, url");
        assert_eq!(told(Some(&first), &second, "http://a:80"), "changed, http://a:80: rate, retry, secret");
        assert_eq!(told(Some(&first), &first, "http://a:80"), "changed, http://a:80: nothing is different");
    }
}
