//! The executions that match, the latest accepted first.
//!
//! 1. A place in the list is a moment of acceptance and the front of an id. A cursor is one; a page goes on
//!    below it, whatever was accepted or moved meanwhile.
//! 2. Executions of the journal come from the index, those in SQLite from each file's own; the lists are merged.
//! 3. What stands in a list is looked up before it is shown: what has changed since, or moved, is found where it
//!    is now, and shown once.
//! 4. A page looks at [`LOOKED_AT_MAX`] executions of each list, and reads [`READ_MAX`], at most. If few of them
//!    match, it ends early, with a cursor.

use super::{EmbeddedQueue, card::Code, columns, index::Index};
use crate::{
    bucket::{Bucket, Listed},
    engine::{Engine, MOVES_MAX, Value},
    error::{corrupt, refused},
    lock,
};
use rusqlite::types::Value as Column;
use semel_core::{
    execution::Execution,
    key::Identity,
    queue::{Cursor, Fenced, Filter, PAGE_MAX, Page},
    record::Status,
    store::StoreError,
    time::Timestamp,
};
use std::cmp::Reverse;

/// How many executions of one list a page looks at, at most.
const LOOKED_AT_MAX: usize = 4_096;
/// How many executions a page reads, at most, beside those it shows.
const READ_MAX: usize = 1_024;
/// How many bytes a page reads, at most, if that is more than one execution.
const READ_BYTES_MAX: usize = 32 << 20;

const CURSOR_VERSION: u8 = 1;

/// Where an execution stands in the list: later ones first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    accepted_at: Timestamp,
    front: u64,
}

impl Place {
    const FIRST: Self = Self { accepted_at: Timestamp::NEVER, front: u64::MAX };

    pub(super) fn read(cursor: &Cursor) -> Result<Self, StoreError> {
        let read = || {
            let (version, rest) = cursor.0.split_first()?;
            let (accepted_at, front) = rest.split_first_chunk::<8>()?;
            let place = Self {
                accepted_at: Timestamp::from_millis(u64::from_be_bytes(*accepted_at)),
                front: u64::from_be_bytes(front.try_into().ok()?),
            };
            (*version == CURSOR_VERSION).then_some(place)
        };
        read().ok_or_else(|| refused("the cursor is none of this queue's: begin without one"))
    }

    pub(super) fn cursor(self) -> Cursor {
        let mut bytes = vec![CURSOR_VERSION];
        bytes.extend(self.accepted_at.as_millis().to_be_bytes());
        bytes.extend(self.front.to_be_bytes());
        Cursor(bytes)
    }
}

/// What may be on the page: the execution at this place, as it was when it was looked at.
struct Candidate {
    place: Place,
    identity: Which,
}

#[derive(Clone, Copy)]
enum Which {
    Half(u128),
    Whole(Identity),
}

/// A part of one list, and where it ends if there may be more.
struct Part {
    candidates: Vec<Candidate>,
    end: Option<Place>,
}

impl EmbeddedQueue {
    pub(super) async fn list_now(
        &self,
        filter: &Filter,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Fenced<Execution>>, StoreError> {
        let from = from.map_or(Ok(Place::FIRST), Place::read)?;
        let limit = limit.clamp(1, PAGE_MAX) as usize;
        let mut version = self.engine.archive.version();
        for _ in 0..MOVES_MAX {
            let (page, is_durable) = self.engine.page(filter, from, limit)?;
            let now = self.engine.archive.version();
            if version == now {
                if !is_durable {
                    self.engine.settle().await?;
                }
                return Ok(page);
            }
            // What moved meanwhile may have been in neither place when it was looked for.
            version = now;
        }
        Err(corrupt("list executions: they moved without end"))
    }
}

impl Engine<Index> {
    /// The page, and whether everything on it is durable.
    fn page(
        &self,
        filter: &Filter,
        from: Place,
        limit: usize,
    ) -> Result<(Page<Fenced<Execution>>, bool), StoreError> {
        let mut parts = vec![self.hot_part(filter, from)];
        // Whatever left the journal since is in a file that is looked at now.
        if may_be_finished(filter) {
            for bucket in &self.archive.buckets().list {
                parts.push(cold_part(bucket, filter, from)?);
            }
        }
        let end = parts.iter().filter_map(|it| it.end).max();
        let mut candidates: Vec<Candidate> = parts.into_iter().flat_map(|it| it.candidates).collect();
        candidates.retain(|it| end.is_none_or(|end| it.place >= end));
        candidates.sort_unstable_by_key(|it| (Reverse(it.place), matches!(it.identity, Which::Half(_))));
        candidates.dedup_by_key(|it| it.place);
        let mut items = Vec::new();
        let mut is_durable = true;
        let (mut read, mut bytes) = (0, 0);
        let mut last = from;
        for Candidate { place, identity } in candidates {
            if items.len() == limit || read - items.len() >= READ_MAX || (bytes > READ_BYTES_MAX && read > 0)
            {
                return Ok((Page { items, next: Some(last.cursor()) }, is_durable));
            }
            last = place;
            read += 1;
            let Some((identity, value)) = self.look_at(identity)? else { continue };
            bytes += value.payload.len();
            let shown = EmbeddedQueue::shown(&identity, &value)?;
            if shown.value.accepted_at == place.accepted_at && filter.matches(&shown.value) {
                is_durable &= value.is_durable;
                items.push(shown);
            }
        }
        Ok((Page { items, next: end.map(Place::cursor) }, is_durable))
    }

    fn look_at(&self, which: Which) -> Result<Option<(Identity, Value)>, StoreError> {
        match which {
            Which::Whole(identity) => Ok(self.load(&identity)?.map(|it| (identity, it))),
            Which::Half(half) => self.load_half(half),
        }
    }

    fn hot_part(&self, filter: &Filter, from: Place) -> Part {
        let state = lock(&self.state);
        let function = match &filter.function {
            Some(name) => match state.owner.known(name) {
                Some(number) => Some(number),
                None => return Part { candidates: Vec::new(), end: None },
            },
            None => None,
        };
        let from = below(filter, from);
        let bound = (from.accepted_at, u128::from(from.front) << 64);
        let mut candidates = Vec::new();
        for (looked_at, (accepted_at, half)) in state.owner.listed.range(..bound).rev().enumerate() {
            if filter.accepted_from.is_some_and(|it| *accepted_at < it) {
                break;
            }
            let place = Place { accepted_at: *accepted_at, front: (half >> 64) as u64 };
            let Some(entry) = state.hot.get_half(*half) else { continue };
            let note = entry.note;
            let passes = function.is_none_or(|it| it == note.function) && passes(filter, note.code);
            if passes {
                candidates.push(Candidate { place, identity: Which::Half(*half) });
            }
            if looked_at + 1 == LOOKED_AT_MAX || candidates.len() == READ_MAX {
                return Part { candidates, end: Some(place) };
            }
        }
        Part { candidates, end: None }
    }
}

/// Where the list of those who match begins, at or below this place.
fn below(filter: &Filter, from: Place) -> Place {
    match filter.accepted_before {
        Some(before) if before <= from.accepted_at => Place { accepted_at: before, front: 0 },
        Some(_) | None => from,
    }
}

fn may_be_finished(filter: &Filter) -> bool {
    filter.holder.is_none() && filter.status.is_none_or(Status::is_terminal)
}

fn passes(filter: &Filter, code: Code) -> bool {
    filter.status.is_none_or(|it| it == code.status())
        && filter.reason.is_none_or(|it| Some(it) == code.reason())
        && (filter.holder.is_none() || code == Code::IN_PROGRESS)
}

/// What a file has of the list.
fn cold_part(bucket: &Bucket, filter: &Filter, from: Place) -> Result<Part, StoreError> {
    let from = below(filter, from);
    // Few have one name or one error, and these are found by it; all others are gone through in order.
    let by = if filter.name.is_some() || filter.error.is_some() { "+accepted_at" } else { "accepted_at" };
    let mut conditions = vec![format!("({by}, prefix) < (?1, ?2)")];
    let mut values = vec![
        Column::Integer(from.accepted_at.as_millis().cast_signed()),
        Column::Integer((from.front ^ (1 << 63)).cast_signed()),
    ];
    let mut also = |condition: &str, value: Column| {
        values.push(value);
        conditions.push(condition.replace('?', &format!("?{}", values.len())));
    };
    if let Some(name) = &filter.name {
        also("(event_print = ? OR name_print = ?)", Column::Integer(columns::print(name)));
    }
    if let Some(error) = filter.error {
        also("error_print = ?", Column::Integer(error.0.cast_signed()));
    }
    if let Some(function) = &filter.function {
        also("function = ?", columns::text(function));
    }
    if let Some(from) = filter.accepted_from {
        also("accepted_at >= ?", Column::Integer(from.as_millis().cast_signed()));
    }
    if filter.reason.is_some() || filter.status == Some(Status::Failed) {
        conditions.push(format!("code >= {}", Code::FAILED.number()));
    }
    let rows = bucket.listed(&conditions.join(" AND "), by, &values, LOOKED_AT_MAX)?;
    let place = |it: &Listed| Place { accepted_at: it.accepted_at, front: front(&it.identity) };
    let end = (rows.len() >= LOOKED_AT_MAX).then(|| rows.get(LOOKED_AT_MAX - 1).map(place)).flatten();
    let kind = filter.kind.as_ref().map(|it| columns::text(it));
    let matches = |it: &&Listed| {
        let code = u8::try_from(it.code).ok().and_then(Code::new);
        code.is_none_or(|it| passes(filter, it)) && kind.as_ref().is_none_or(|kind| *kind == it.kind)
    };
    let matching = rows.iter().filter(matches).filter(|it| place(it) < from);
    let candidates = matching.map(|it| Candidate { place: place(it), identity: Which::Whole(it.identity) });
    Ok(Part { candidates: candidates.collect(), end })
}

fn front(identity: &Identity) -> u64 {
    u64::from_be_bytes(*identity.as_bytes().first_chunk().expect("an identity has 32 bytes"))
}
