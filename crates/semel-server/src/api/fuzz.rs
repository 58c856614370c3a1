//! What stands behind the question mark: see [`crate::fuzz`].

use super::{
    executions::{read_cursor, write_cursor},
    problems::Trouble,
    shape::Shape,
    table::{encoded, pairs, read_query},
    views::{AuditQuery, ExecutionsQuery, WhyQuery},
};
use serde::de::DeserializeOwned;

/// A query is read, or refused for what is wrong with it; it is read again from what it says.
pub(crate) fn query(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let is_read =
        [is_read::<ExecutionsQuery>(&text), is_read::<AuditQuery>(&text), is_read::<WhyQuery>(&text)];
    let Some(said) = pairs(&text) else {
        assert_eq!(is_read, [false; 3], "what has no pairs says nothing");
        return;
    };
    let again: Vec<_> =
        said.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    // Written so it may be too long.
    if let Some(pairs) = pairs(&again.join("&")) {
        assert_eq!(pairs, said, "written and read");
    }
}

fn is_read<Q: Shape + DeserializeOwned>(text: &str) -> bool {
    match read_query::<Q>(text) {
        Ok(_) => true,
        Err(Trouble::Plain(problem) | Trouble::Said(problem, _)) => {
            assert!([400, 422].contains(&problem.status().as_u16()), "{problem:?}");
            false
        }
        Err(trouble @ (Trouble::Method(_) | Trouble::Store(_))) => panic!("{trouble:?}"),
    }
}

/// A cursor is bytes, or refused.
pub(crate) fn cursor(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(cursor) = read_cursor(&text) {
        assert_eq!(write_cursor(&cursor), text.to_ascii_lowercase(), "what is read was written so");
    }
}
