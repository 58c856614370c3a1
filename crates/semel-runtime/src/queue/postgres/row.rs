//! Executions as rows.
//!
//! 1. The execution is encoded without its event, which has a column of its own: a change that leaves it as it is does
//!    not send it.
//! 2. What it was claimed for since is beside it, as the claims' bytes: reading applies [`claimed`] to each. So the
//!    rule of what a claim does is in one place, and that is not here.
//! 3. Texts are kept with `\` and NUL escaped: no two become one, and PostgreSQL takes them.

use super::{schema, send::Query};
use semel::store::postgres::shared::{STORE, fence};
use semel_core::{
    execution::{ErrorPrint, Execution, ExecutionId, claimed},
    key::Identity,
    queue::Fenced,
    record::Holder,
    sha256::{Sha256, sha256},
    store::{StoreError, StoreErrorKind},
    time::Timestamp,
    wire::{WireError, decode_execution, encode_execution},
};
use sqlx::{Row as _, postgres::PgRow};
use std::sync::Arc;

/// Bytes of a claim: when, until when, to whom.
const CLAIM_BYTES: usize = 32;
/// Bytes of a line: of a hash, enough that no two meet.
const LINE_BYTES: usize = 16;
/// Longest name of an event that is kept for people to read, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// The columns that [`read`] needs, in its order.
pub(super) const READ: &str = "id, fence, execution, claims, event, sequence";

/// Rows to write, one vector per column.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) ids: Vec<Vec<u8>>,
    pub(super) functions: Vec<String>,
    pub(super) phases: Vec<i16>,
    pub(super) turns: Vec<Option<i64>>,
    pub(super) expiries: Vec<i64>,
    pub(super) acceptances: Vec<i64>,
    pub(super) lines: Vec<Option<Vec<u8>>>,
    pub(super) holders: Vec<Option<Vec<u8>>>,
    pub(super) names: Vec<String>,
    pub(super) name_prints: Vec<i64>,
    pub(super) key_prints: Vec<i64>,
    pub(super) kind_prints: Vec<i64>,
    pub(super) error_prints: Vec<Option<i64>>,
    pub(super) executions: Vec<Vec<u8>>,
    pub(super) event_prints: Vec<Option<Vec<u8>>>,
    pub(super) events: Vec<Option<Vec<u8>>>,
}

impl Rows {
    /// Adds a row, with its event if that is to be sent.
    pub(super) fn push(&mut self, execution: &Execution, sends_event: bool) {
        let origin = &execution.origin;
        self.ids.push(execution.key.identity().as_bytes().to_vec());
        self.functions.push(escaped(&execution.function));
        self.phases.push(schema::code(&execution.phase));
        self.turns.push(execution.due_at().map(millis));
        self.expiries.push(millis(execution.expires_at));
        self.acceptances.push(millis(execution.accepted_at));
        self.lines.push(line(execution));
        self.holders.push(execution.phase.holder().map(holder_bytes));
        self.names.push(escaped(&origin.id[..origin.id.floor_char_boundary(NAME_BYTES_MAX)]));
        self.name_prints.push(text_print(&origin.id));
        self.key_prints.push(text_print(&execution.key.id()));
        self.kind_prints.push(text_print(&origin.kind));
        self.error_prints.push(execution.error().map(error_print));
        self.executions.push(encode_execution(&Execution { event: None, ..execution.clone() }));
        self.event_prints.push(execution.event.as_ref().map(|it| sha256(it).to_vec()));
        self.events.push(execution.event.as_ref().filter(|_| sends_event).map(|it| it.to_vec()));
    }
}

impl Rows {
    /// Binds every column, in the order of the statements.
    pub(super) fn bind<'a>(&'a self, query: Query<'a>) -> Query<'a> {
        query
            .bind(&self.ids)
            .bind(&self.functions)
            .bind(&self.phases)
            .bind(&self.turns)
            .bind(&self.expiries)
            .bind(&self.acceptances)
            .bind(&self.lines)
            .bind(&self.holders)
            .bind(&self.names)
            .bind(&self.name_prints)
            .bind(&self.key_prints)
            .bind(&self.kind_prints)
            .bind(&self.error_prints)
            .bind(&self.executions)
            .bind(&self.event_prints)
            .bind(&self.events)
    }
}

/// The execution that a row holds, with [`READ`] from this column on.
pub(super) fn read(row: &PgRow, from: usize) -> Result<Fenced<Execution>, StoreError> {
    let column = |error| super::told("reading an execution", error);
    let id: Vec<u8> = row.try_get(from).map_err(column)?;
    let number: i64 = row.try_get(from + 1).map_err(column)?;
    let bytes: Vec<u8> = row.try_get(from + 2).map_err(column)?;
    let claims: Vec<u8> = row.try_get(from + 3).map_err(column)?;
    let event: Option<Vec<u8>> = row.try_get(from + 4).map_err(column)?;
    let sequence: Option<i64> = row.try_get(from + 5).map_err(column)?;
    let identity = id.try_into().map_err(|_| corrupt("an id has another length than a hash".to_owned()))?;
    let id = ExecutionId::from_identity(Identity::from_bytes(identity));
    let mut execution = decode_execution(&id, &bytes).map_err(|error| undecodable(&id, error))?;
    execution.event = event.map(Into::into);
    if let (Some(order), Some(sequence)) = (&mut execution.order, sequence) {
        order.sequence = sequence.cast_unsigned();
    }
    let value = with_claims(execution, &claims)
        .ok_or_else(|| corrupt(format!("the claims of {id} do not follow from what was written")))?;
    Ok(Fenced { fence: fence(STORE, number)?, value })
}

/// What an execution became by these claims.
fn with_claims(execution: Execution, claims: &[u8]) -> Option<Execution> {
    let (claims, rest) = claims.as_chunks::<CLAIM_BYTES>();
    let claim = |before: Execution, claim: &[u8; CLAIM_BYTES]| {
        let (at, rest) = claim.split_first_chunk()?;
        let (until, holder) = rest.split_first_chunk()?;
        let holder = Holder(u128::from_be_bytes(holder.try_into().ok()?));
        let moment = |it: &[u8; 8]| Timestamp::from_millis(u64::from_be_bytes(*it));
        claimed(moment(at), &before, holder, moment(until))
    };
    rest.is_empty().then(|| claims.iter().try_fold(execution, claim)).flatten()
}

fn undecodable(id: &ExecutionId, error: WireError) -> StoreError {
    let kind = match error {
        WireError::Newer { .. } => StoreErrorKind::Misconfigured,
        _ => StoreErrorKind::Corrupt,
    };
    StoreError::new(kind, STORE, format!("reading the execution {id}")).because(error)
}

fn corrupt(context: String) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, STORE, context)
}

/// The line that an execution stands in: of its function and its order.
pub(super) fn line(execution: &Execution) -> Option<Vec<u8>> {
    let order = execution.order.as_ref()?;
    let mut hash = Sha256::new();
    hash.update(&(execution.function.len() as u64).to_be_bytes());
    hash.update(execution.function.as_bytes());
    hash.update(order.key.as_bytes());
    Some(hash.finish()[..LINE_BYTES].to_vec())
}

/// What a text is looked for by.
pub(super) fn text_print(text: &str) -> i64 {
    i64::from_be_bytes(*sha256(text).first_chunk().expect("a hash has more bytes than that"))
}

/// What an error is looked for by.
pub(super) fn error_print(error: &str) -> i64 {
    ErrorPrint::of(error).0.cast_signed()
}

pub(super) fn holder_bytes(holder: Holder) -> Vec<u8> {
    holder.0.to_be_bytes().to_vec()
}

/// A place in a batch, or a limit: small.
pub(super) fn number(place: usize) -> i64 {
    i64::try_from(place).expect("batches and pages are small")
}

pub(super) fn millis(moment: Timestamp) -> i64 {
    moment.as_millis().cast_signed()
}

/// The text as PostgreSQL takes it. No two texts become one.
pub(super) fn escaped(text: &str) -> String {
    if text.contains(['\\', '\0']) {
        text.replace('\\', "\\\\").replace('\0', "\\0")
    } else {
        text.to_owned()
    }
}

/// What [`escaped`] was given.
pub(super) fn unescaped(text: &str) -> Arc<str> {
    if !text.contains('\\') {
        return text.into();
    }
    let (mut out, mut letters) = (String::with_capacity(text.len()), text.chars());
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' if letters.next() == Some('0') => '\0',
            other => other,
        });
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_nul_come_back_and_no_two_become_one() {
        let texts = ["", "a", "\0", "\\", "\\0", "\\\\0", "a\0b\\", "\\\0", "0\\00"];
        let mut seen = std::collections::BTreeSet::new();
        for text in texts {
            let kept = escaped(text);
            assert!(!kept.contains('\0'));
            assert_eq!(&*unescaped(&kept), text);
            assert!(seen.insert(kept), "`{text:?}` looks like another");
        }
    }
}
