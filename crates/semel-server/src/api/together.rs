//! Which functions can be together: those of the file, and of those that were added the ones that fit.
//!
//! 1. The file was checked as a whole: its functions are all there, or nothing is.
//! 2. A function that was added is left out if the file could not have it, if its secrets are not there, or if its dead
//!    letters would go round for ever.
//! 3. Who sends its dead letters to one that is left out is left out, too: they would have nowhere to go.
//! 4. Nobody else is.
//! 5. What comes for one that is left out is kept all the same, where the rest of it can be read: it waits for a node where the
//!    function fits, and nothing is called from here. So nobody is told that no function takes an event, where one does.

use crate::{
    config::{FunctionSettings, is_loop, posted, posted_filter},
    exit::Failure,
    ingest::Absent,
    serve::{function, functions},
};
use semel_core::sabotage::is_on;
use semel_runtime::{Function, deliver::guard::Policy};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What functions were added, as they were written.
pub(super) type Added = BTreeMap<String, Map<String, Value>>;

/// What became of all of them.
#[derive(Default)]
pub(super) struct Together {
    /// Those that can be.
    pub(super) settings: Vec<FunctionSettings>,
    /// The same, as they run.
    pub(super) functions: Vec<Function>,
    /// What is wrong with those that are left out.
    pub(super) left_out: BTreeMap<String, Vec<String>>,
    /// Those of them of which so little can be read that nothing can be kept for them.
    pub(super) absent: Vec<Absent>,
}

/// What can be together of a file and of what was added. Fails for the file alone.
pub(super) fn together(
    file: &[FunctionSettings],
    added: &Added,
    guard: &Policy,
) -> Result<Together, Failure> {
    let mut all = fitting(file, added, guard)?;
    for name in all.left_out.keys() {
        match held(name, &added[name], guard).filter(|_| !is_on("left_out_and_lost")) {
            Some(held) => all.functions.push(held),
            None => all.absent.push(Absent { name: name.clone(), filter: posted_filter(&added[name]) }),
        }
    }
    Ok(all)
}

/// One that is left out, as far as it takes its events and keeps them.
fn held(name: &str, written: &Map<String, Value>, guard: &Policy) -> Option<Function> {
    let mut written = written.clone();
    // Nobody calls it, signs for it, or forwards what it never was given.
    for key in ["secret", "secrets", "dead_letter"] {
        written.remove(key);
    }
    written.insert("url".to_owned(), "https://example.com/".into());
    let (_, function) = one(name, &written, &[name.to_owned()], guard).ok()?;
    Some(Function { is_held: true, ..function })
}

fn fitting(file: &[FunctionSettings], added: &Added, guard: &Policy) -> Result<Together, Failure> {
    let functions_of_file = functions(file)?;
    let is_files = |name: &String| file.iter().any(|it| it.name == *name);
    let mut left_out = BTreeMap::new();
    loop {
        let those: Vec<_> =
            added.iter().filter(|(name, _)| !is_files(name) && !left_out.contains_key(*name)).collect();
        let names = file.iter().map(|it| &it.name).chain(those.iter().map(|(name, _)| *name));
        let names: Vec<_> = names.cloned().collect();
        let mut all = Together {
            settings: file.to_vec(),
            functions: functions_of_file.clone(),
            left_out,
            absent: Vec::new(),
        };
        for (name, written) in those {
            match one(name, written, &names, guard) {
                Ok((settings, function)) => {
                    all.settings.push(settings);
                    all.functions.push(function);
                }
                Err(mistakes) => {
                    all.left_out.insert(name.clone(), mistakes);
                }
            }
        }
        for name in names.iter().filter(|it| is_loop(&all.settings, it)) {
            all.left_out.insert(name.clone(), vec!["its dead letters would go round for ever".to_owned()]);
        }
        // Somebody may need one that was left out just now.
        let is_whole =
            all.settings.len() == names.len() && names.iter().all(|it| !all.left_out.contains_key(it));
        if is_whole || is_on("left_out_and_still_needed") {
            return Ok(all);
        }
        left_out = all.left_out;
    }
}

/// A function that was added; or what is wrong with it.
fn one(
    name: &str,
    written: &Map<String, Value>,
    names: &[String],
    guard: &Policy,
) -> Result<(FunctionSettings, Function), Vec<String>> {
    let settings = posted(name, written, names, guard)?;
    let function = function(&settings)
        .map_err(|failure: Failure| failure.lines().map(str::to_owned).collect::<Vec<_>>())?;
    Ok((settings, function))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    /// Functions that send their dead letters to these; to nobody if that is empty.
    fn added(all: &[(&str, &str)]) -> Added {
        let written = |to: &str| {
            let to = if to.is_empty() { "keep".to_owned() } else { format!("function:{to}") };
            map(&format!(r#"{{"url": "http://127.0.0.1:1/", "dead_letter": "{to}"}}"#))
        };
        all.iter().map(|(name, to)| ((*name).to_owned(), written(to))).collect()
    }

    /// Who stays, and who is left out.
    fn check(added: &Added, stay: &[&str], left_out: &[&str]) -> Together {
        let guard = Policy { allow: Vec::new(), loopback: true };
        let all = together(&[], added, &guard).unwrap();
        let names: Vec<_> = all.settings.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, stay);
        let names = |is_held| {
            let some = all.functions.iter().filter(move |it| it.is_held == is_held);
            some.map(|it| it.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            (names(false), names(true)),
            (
                stay.iter().map(|it| (*it).to_owned()).collect(),
                left_out.iter().map(|it| (*it).to_owned()).collect()
            )
        );
        assert_eq!(all.left_out.keys().map(String::as_str).collect::<Vec<_>>(), left_out);
        all
    }

    #[test]
    fn dead_letters_that_go_round_leave_out_who_sends_them_and_nobody_else() {
        check(&added(&[("a", "b"), ("b", ""), ("c", "a")]), &["a", "b", "c"], &[]);
        let round = added(&[("a", "b"), ("b", "a"), ("c", "a"), ("d", "c"), ("e", "")]);
        check(&round, &["e"], &["a", "b", "c", "d"]);
    }

    #[test]
    fn who_needs_one_that_is_left_out_is_left_out_too() {
        let mut all = added(&[("first", "second"), ("second", "third"), ("other", "")]);
        all.insert("third".to_owned(), map(r#"{"url": "http://10.1.2.3/"}"#));
        check(&all, &["other"], &["first", "second", "third"]);
    }

    /// A later version of this program may have written it.
    #[test]
    fn what_cannot_be_read_at_all_is_not_held() {
        let mut all = added(&[("other", "")]);
        all.insert("new".to_owned(), map(r#"{"url": "http://127.0.0.1:1/", "colour": "blue"}"#));
        let guard = Policy { allow: Vec::new(), loopback: true };
        let all = together(&[], &all, &guard).unwrap();
        assert_eq!((all.functions.len(), all.left_out.len()), (1, 1));
    }

    #[test]
    fn a_secret_that_is_not_there_leaves_out_one_function() {
        let mut all = added(&[("other", "")]);
        let signed = r#"{"url": "http://127.0.0.1:1/", "secret": "env:SEMEL_TEST_NOBODY_SETS_THIS"}"#;
        all.insert("signed".to_owned(), map(signed));
        let all = check(&all, &["other"], &["signed"]);
        assert_eq!(
            all.left_out["signed"],
            [
                "function `signed` has no secret to sign with",
                "`SEMEL_TEST_NOBODY_SETS_THIS` is not in the environment, or is no text"
            ]
        );
    }
}
