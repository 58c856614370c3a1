//! Executions as bytes.

use super::{
    VERSION, WireError,
    bytes::{Reader, put_bytes, put_expiry, put_fingerprint, put_number, put_text, put_time},
    open,
    outcome::{failure, kept, not_kept, put_body, put_failure},
    seal,
};
use crate::{
    execution::{Attempt, Due, Execution, ExecutionId, HISTORY_ATTEMPTS_MAX, Order, Origin, Phase, Repeats},
    key::Key,
    record::{Body, Holder},
    time::Timestamp,
};
use std::sync::Arc;

/// What everything but the key, the function, the event and the body takes, generously.
const FIXED_BYTES: usize = 160;

/// What stands in the byte behind the version. Above the numbers of records, so that one is never taken for
/// the other.
mod kind {
    pub(super) const PENDING: u8 = 0x41;
    pub(super) const PARKED: u8 = 0x42;
    pub(super) const IN_PROGRESS: u8 = 0x43;
    pub(super) const COMPLETED: u8 = 0x44;
    pub(super) const COMPLETED_NOT_KEPT: u8 = 0x45;
    pub(super) const FAILED: u8 = 0x46;
}

/// An execution as bytes. [`decode_execution`] reads them.
pub fn encode_execution(execution: &Execution) -> Vec<u8> {
    let event = execution.event.as_ref().map_or(0, |it| it.len());
    let origin = &execution.origin;
    let names = [&execution.function, &origin.source, &origin.id, &origin.kind].map(|it| it.len());
    let names = execution.key.preimage().len() + names.iter().sum::<usize>();
    let mut out = Vec::with_capacity(FIXED_BYTES + names + event);
    encode_execution_into(&mut out, execution);
    out
}

/// Appends what [`encode_execution`] gives.
pub fn encode_execution_into(out: &mut Vec<u8>, execution: &Execution) {
    let start = out.len();
    let accepted_at = execution.accepted_at;
    out.extend_from_slice(&[VERSION, kind_of(&execution.phase)]);
    put_fingerprint(out, &execution.fingerprint);
    put_number(out, execution.attempts.into());
    put_number(out, execution.generation.into());
    put_time(out, accepted_at, Timestamp::EPOCH);
    put_time(out, execution.updated_at, accepted_at);
    put_expiry(out, execution.expires_at, execution.updated_at);
    for time in [execution.first_attempt_at, execution.event_time, execution.event_expires_at] {
        put_optional_time(out, time, accepted_at);
    }
    put_text(out, execution.last_error.as_deref());
    put_phase(out, &execution.phase, execution.updated_at);
    put_text(out, Some(&execution.function));
    put_origin(out, &execution.origin);
    put_order(out, execution.order.as_ref());
    put_history(out, &execution.history, accepted_at);
    put_repeats(out, &execution.repeats, accepted_at);
    put_optional_bytes(out, execution.event.as_deref());
    put_bytes(out, execution.key.preimage());
    seal(out, start);
}

/// Reads what [`encode_execution`] gave, and makes sure that it belongs to this id.
pub fn decode_execution(id: &ExecutionId, bytes: &[u8]) -> Result<Execution, WireError> {
    let mut reader = open(bytes)?;
    let kind = reader.byte("the status")?;
    let fingerprint = reader.fingerprint()?;
    let attempts = reader.small("the attempts")?;
    let generation = reader.small("the generation")?;
    let accepted_at = reader.time(Timestamp::EPOCH, "the acceptance")?;
    let updated_at = reader.time(accepted_at, "the last change")?;
    let expires_at = reader.expiry(updated_at, "the expiry")?;
    let first_attempt_at = optional_time(&mut reader, accepted_at, "the first attempt")?;
    let event_time = optional_time(&mut reader, accepted_at, "the event's time")?;
    let event_expires_at = optional_time(&mut reader, accepted_at, "the event's expiry")?;
    let last_error = reader.text("the last error")?;
    let phase = phase(kind, &mut reader, updated_at)?;
    let function = there(&mut reader, "the function")?;
    let origin = origin(&mut reader)?;
    let order = order(&mut reader)?;
    let history = history(&mut reader, accepted_at)?;
    let repeats = repeats(&mut reader, accepted_at)?;
    let event = optional_bytes(&mut reader, "the event")?;
    let key = Key::from_preimage(reader.bytes("the key")?).map_err(WireError::Key)?;
    reader.end()?;
    if ExecutionId::of(&key) != *id {
        return Err(WireError::OtherKey);
    }
    Ok(Execution {
        key,
        function,
        origin,
        order,
        fingerprint,
        event,
        event_time,
        event_expires_at,
        phase,
        attempts,
        generation,
        accepted_at,
        first_attempt_at,
        updated_at,
        last_error,
        history,
        repeats,
        expires_at,
    })
}

const fn kind_of(phase: &Phase) -> u8 {
    match phase {
        Phase::Pending(Due::At(_)) => kind::PENDING,
        Phase::Pending(Due::Parked { .. }) => kind::PARKED,
        Phase::InProgress { .. } => kind::IN_PROGRESS,
        Phase::Completed(Body::Kept { .. }) => kind::COMPLETED,
        Phase::Completed(Body::NotKept { .. }) => kind::COMPLETED_NOT_KEPT,
        Phase::Failed { .. } => kind::FAILED,
    }
}

fn put_phase(out: &mut Vec<u8>, phase: &Phase, updated_at: Timestamp) {
    match phase {
        Phase::Pending(Due::At(at)) => put_time(out, *at, updated_at),
        Phase::Pending(Due::Parked { since, due_at }) => {
            put_time(out, *since, updated_at);
            put_time(out, *due_at, updated_at);
        }
        Phase::InProgress { holder, lease_until, since } => {
            out.extend_from_slice(&holder.0.to_le_bytes());
            put_time(out, *lease_until, updated_at);
            put_time(out, *since, updated_at);
        }
        Phase::Completed(body) => put_body(out, body, updated_at),
        Phase::Failed { reason, error } => put_failure(out, *reason, error),
    }
}

fn phase(kind: u8, reader: &mut Reader<'_>, updated_at: Timestamp) -> Result<Phase, WireError> {
    match kind {
        kind::PENDING => Ok(Phase::Pending(Due::At(reader.time(updated_at, "the due time")?))),
        kind::PARKED => {
            let since = reader.time(updated_at, "the parking")?;
            let due_at = reader.time(updated_at, "the due time")?;
            Ok(Phase::Pending(Due::Parked { since, due_at }))
        }
        kind::IN_PROGRESS => {
            let holder = Holder(u128::from_le_bytes(reader.array("the holder")?));
            let lease_until = reader.time(updated_at, "the lease")?;
            Ok(Phase::InProgress { holder, lease_until, since: reader.time(updated_at, "the claim")? })
        }
        kind::COMPLETED => Ok(Phase::Completed(kept(reader, updated_at)?)),
        kind::COMPLETED_NOT_KEPT => Ok(Phase::Completed(not_kept(reader)?)),
        kind::FAILED => {
            let (reason, error) = failure(reader)?;
            Ok(Phase::Failed { reason, error })
        }
        _ => Err(WireError::Malformed("the status")),
    }
}

fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    for text in [&origin.source, &origin.id, &origin.kind] {
        put_text(out, Some(text));
    }
}

fn origin(reader: &mut Reader<'_>) -> Result<Origin, WireError> {
    Ok(Origin {
        source: there(reader, "the source")?,
        id: there(reader, "the event's id")?,
        kind: there(reader, "the type")?,
    })
}

/// Text that is never left out.
fn there(reader: &mut Reader<'_>, what: &'static str) -> Result<Arc<str>, WireError> {
    Ok(reader.text(what)?.ok_or(WireError::Malformed(what))?.into())
}

fn put_order(out: &mut Vec<u8>, order: Option<&Order>) {
    put_text(out, order.map(|it| &*it.key));
    if let Some(order) = order {
        put_number(out, order.sequence);
    }
}

fn order(reader: &mut Reader<'_>) -> Result<Option<Order>, WireError> {
    let Some(key) = reader.text("the order")? else { return Ok(None) };
    Ok(Some(Order { key: key.into(), sequence: reader.number("the sequence")? }))
}

fn put_history(out: &mut Vec<u8>, history: &[Attempt], near: Timestamp) {
    put_number(out, history.len() as u64);
    for attempt in history {
        put_number(out, attempt.generation.into());
        put_number(out, attempt.number.into());
        put_time(out, attempt.began_at, near);
        put_time(out, attempt.ended_at, attempt.began_at);
        put_text(out, attempt.error.as_deref());
    }
}

fn history(reader: &mut Reader<'_>, near: Timestamp) -> Result<Vec<Attempt>, WireError> {
    let count = reader.small("the number of attempts")? as usize;
    if count > HISTORY_ATTEMPTS_MAX {
        return Err(WireError::Malformed("the number of attempts"));
    }
    (0..count).map(|_| attempt(reader, near)).collect()
}

fn attempt(reader: &mut Reader<'_>, near: Timestamp) -> Result<Attempt, WireError> {
    let generation = reader.small("an attempt's generation")?;
    let number = reader.small("an attempt's number")?;
    let began_at = reader.time(near, "an attempt's beginning")?;
    let ended_at = reader.time(began_at, "an attempt's end")?;
    Ok(Attempt { generation, number, began_at, ended_at, error: reader.text("an attempt's error")? })
}

fn put_repeats(out: &mut Vec<u8>, repeats: &Repeats, near: Timestamp) {
    put_number(out, repeats.same.into());
    put_number(out, repeats.other.into());
    put_optional_time(out, repeats.last_at, near);
}

fn repeats(reader: &mut Reader<'_>, near: Timestamp) -> Result<Repeats, WireError> {
    Ok(Repeats {
        same: reader.small("the repeats")?,
        other: reader.small("the mismatches")?,
        last_at: optional_time(reader, near, "the last repeat")?,
    })
}

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;

fn put_optional_time(out: &mut Vec<u8>, time: Option<Timestamp>, near: Timestamp) {
    match time {
        Some(time) => {
            out.push(PRESENT);
            put_time(out, time, near);
        }
        None => out.push(ABSENT),
    }
}

fn optional_time(
    reader: &mut Reader<'_>,
    near: Timestamp,
    what: &'static str,
) -> Result<Option<Timestamp>, WireError> {
    match reader.byte(what)? {
        ABSENT => Ok(None),
        PRESENT => Ok(Some(reader.time(near, what)?)),
        _ => Err(WireError::Malformed(what)),
    }
}

fn put_optional_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            out.push(PRESENT);
            put_bytes(out, bytes);
        }
        None => out.push(ABSENT),
    }
}

fn optional_bytes(reader: &mut Reader<'_>, what: &'static str) -> Result<Option<Arc<[u8]>>, WireError> {
    match reader.byte(what)? {
        ABSENT => Ok(None),
        PRESENT => Ok(Some(reader.bytes(what)?.into())),
        _ => Err(WireError::Malformed(what)),
    }
}
