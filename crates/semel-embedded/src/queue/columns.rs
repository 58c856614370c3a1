//! Executions as rows, for people and for lists.
//!
//! 1. What executions are listed by stands in columns. What they are looked up by has an index: acceptance,
//!    function, the event's id, the key's text, and, of those that failed, the error.
//! 2. Names are indexed by a short print of theirs; the text beside it decides.
//!
//! People may read it with `sqlite3`: `SELECT key, status, reason, type FROM record ORDER BY accepted_at DESC`.

use super::card;
use crate::owner::Layout;
use rusqlite::types::Value as Column;
use semel_core::{
    execution::{ErrorPrint, Execution},
    key::Identity,
};

pub(crate) const LAYOUT: Layout = Layout {
    columns: "function TEXT NOT NULL, code INTEGER NOT NULL, accepted_at INTEGER NOT NULL, \
              event_print INTEGER NOT NULL, name_print INTEGER NOT NULL, error_print INTEGER, \
              status TEXT NOT NULL, reason TEXT, key TEXT NOT NULL, event TEXT NOT NULL, type TEXT NOT NULL",
    count: 11,
    rare_indexes: "CREATE INDEX failed ON record (accepted_at, function) WHERE code >= 4;
                   CREATE INDEX of_error ON record (error_print, accepted_at) WHERE error_print IS NOT NULL;",
    indexes: "CREATE INDEX listed ON record (accepted_at);
              CREATE INDEX of_function ON record (function, accepted_at);
              CREATE INDEX of_event ON record (event_print, accepted_at);
              CREATE INDEX of_name ON record (name_print, accepted_at);",
    counted_by: "function, code",
};

/// The columns of an execution.
pub(crate) fn of(identity: &Identity, payload: &[u8]) -> Vec<Column> {
    match card::decode(identity, payload) {
        Ok(execution) => readable(&execution),
        Err(_) => damaged(identity, payload),
    }
}

fn readable(execution: &Execution) -> Vec<Column> {
    let name = execution.key.id();
    vec![
        text(&execution.function),
        Column::Integer(card::Code::of(&execution.phase).number().into()),
        Column::Integer(execution.accepted_at.as_millis().cast_signed()),
        Column::Integer(print(&execution.origin.id)),
        Column::Integer(print(&name)),
        execution.error().map_or(Column::Null, |it| Column::Integer(ErrorPrint::of(it).0.cast_signed())),
        text(execution.status().as_str()),
        execution.phase.reason().map_or(Column::Null, |it| text(it.as_str())),
        text(&execution.key.to_string()),
        text(&execution.origin.id),
        text(&execution.origin.kind),
    ]
}

/// What is left to say of an execution whose bytes make no sense: the card in front of them, maybe.
fn damaged(identity: &Identity, payload: &[u8]) -> Vec<Column> {
    let card = card::Card::split(payload).map(|it| it.0);
    let code = card.map_or(card::Code::COMPLETED, |it| it.code).number();
    vec![
        text(card.map_or("", |it| it.function)),
        Column::Integer(code.into()),
        Column::Integer(card.map_or(0, |it| it.accepted_at.as_millis().cast_signed())),
        Column::Integer(0),
        Column::Integer(0),
        Column::Null,
        text("UNREADABLE"),
        Column::Null,
        text(&identity.to_string()),
        text(""),
        text(""),
    ]
}

/// A text as it stands in a column.
pub(crate) fn text(text: &str) -> Column {
    // A NUL would end the text for some who read it.
    Column::Text(text.replace('\0', "\u{fffd}"))
}

/// What a name is indexed by.
pub(crate) fn print(name: &str) -> i64 {
    crc32fast::hash(name.as_bytes()).into()
}
