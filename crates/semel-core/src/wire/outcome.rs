//! What records and executions have in common: how they ended.

use super::{
    WireError,
    bytes::{Reader, put_bytes, put_expiry, put_number, put_text},
};
use crate::{
    record::{Body, NotKept, Reason},
    time::Timestamp,
};

/// Appends a result, or what is known of it. Which of the two it is stands elsewhere.
pub(super) fn put_body(out: &mut Vec<u8>, body: &Body, updated_at: Timestamp) {
    match body {
        Body::Kept { bytes, until } => {
            put_expiry(out, *until, updated_at);
            put_bytes(out, bytes);
        }
        Body::NotKept { cause, size, digest } => {
            out.push(not_kept_code(*cause));
            put_number(out, *size);
            out.extend_from_slice(digest);
        }
    }
}

/// Reads a result that was kept.
pub(super) fn kept(reader: &mut Reader<'_>, updated_at: Timestamp) -> Result<Body, WireError> {
    let until = reader.expiry(updated_at, "the result's expiry")?;
    Ok(Body::Kept { bytes: reader.bytes("the result")?.to_vec(), until })
}

/// Reads what is known of a result that was not kept.
pub(super) fn not_kept(reader: &mut Reader<'_>) -> Result<Body, WireError> {
    let cause = read_not_kept(reader.byte("why the result was not kept")?)?;
    let size = reader.number("the result's size")?;
    Ok(Body::NotKept { cause, size, digest: reader.array("the result's digest")? })
}

/// Appends why something failed.
pub(super) fn put_failure(out: &mut Vec<u8>, reason: Reason, error: &str) {
    out.push(reason_code(reason));
    put_text(out, Some(error));
}

/// Reads why something failed.
pub(super) fn failure(reader: &mut Reader<'_>) -> Result<(Reason, String), WireError> {
    let reason = read_reason(reader.byte("the reason")?)?;
    let error = reader.text("the error")?.ok_or(WireError::Malformed("the error"))?;
    Ok((reason, error))
}

const fn not_kept_code(cause: NotKept) -> u8 {
    match cause {
        NotKept::TooLarge => 1,
        NotKept::Unserializable => 2,
        NotKept::Resolved => 3,
    }
}

fn read_not_kept(code: u8) -> Result<NotKept, WireError> {
    match code {
        1 => Ok(NotKept::TooLarge),
        2 => Ok(NotKept::Unserializable),
        3 => Ok(NotKept::Resolved),
        _ => Err(WireError::Malformed("why the result was not kept")),
    }
}

const fn reason_code(reason: Reason) -> u8 {
    match reason {
        Reason::Fatal => 1,
        Reason::Exhausted => 2,
        Reason::Window => 3,
        Reason::TooOld => 4,
        Reason::Cancelled => 5,
        Reason::Dropped => 6,
        Reason::OutcomeUnknown => 7,
    }
}

fn read_reason(code: u8) -> Result<Reason, WireError> {
    match code {
        1 => Ok(Reason::Fatal),
        2 => Ok(Reason::Exhausted),
        3 => Ok(Reason::Window),
        4 => Ok(Reason::TooOld),
        5 => Ok(Reason::Cancelled),
        6 => Ok(Reason::Dropped),
        7 => Ok(Reason::OutcomeUnknown),
        _ => Err(WireError::Malformed("the reason")),
    }
}
