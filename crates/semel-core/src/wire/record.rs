//! Records as bytes.

use super::{
    VERSION, WireError,
    bytes::{Reader, put_bytes, put_expiry, put_fingerprint, put_number, put_text, put_time},
    open,
    outcome::{failure, kept, not_kept, put_body, put_failure},
    seal,
};
use crate::{
    key::{Identity, Key},
    record::{Body, Holder, OnLapse, Place, Record, State},
    sabotage::is_on,
    time::Timestamp,
};

/// What everything but the key and the body takes, generously.
const FIXED_BYTES: usize = 112;

/// What stands in the byte behind the version. Numbers are never used again for something else.
mod kind {
    pub(super) const PENDING: u8 = 1;
    pub(super) const IN_PROGRESS: u8 = 2;
    pub(super) const COMPLETED: u8 = 3;
    pub(super) const COMPLETED_NOT_KEPT: u8 = 4;
    pub(super) const FAILED: u8 = 5;
}

/// A record, and whose it is, as bytes.
///
/// ```
/// use semel_core::{call::{self, Call, Decision, Terms}, fingerprint::Fingerprint, key::Key, time::Timestamp, wire};
/// use semel_core::record::{Holder, OnLapse, Place};
/// let key = Key::new("process-order", "evt-1")?;
/// let call = Call {
///     fingerprint: Fingerprint::EMPTY,
///     holder: Holder(7),
///     place: Place::Here,
///     on_lapse: OnLapse::Rerun,
/// };
/// let now = Timestamp::from_millis(1_800_000_000_000);
/// let Decision::Run { record, .. } = call::begin(now, None, &call, &Terms::default()) else { unreachable!() };
/// let bytes = wire::encode(&key, &record);
/// assert_eq!(wire::decode(key.identity(), &bytes)?, (key, record));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode(key: &Key, record: &Record) -> Vec<u8> {
    let mut out = Vec::with_capacity(FIXED_BYTES + key.preimage().len() + body_length(&record.state));
    encode_into(&mut out, key, record);
    out
}

/// Appends what [`encode`] gives.
pub fn encode_into(out: &mut Vec<u8>, key: &Key, record: &Record) {
    let start = out.len();
    out.extend_from_slice(&[VERSION, kind_of(&record.state)]);
    put_fingerprint(out, &record.fingerprint);
    put_number(out, record.attempts.into());
    put_time(out, record.created_at, Timestamp::EPOCH);
    put_time(out, record.updated_at, record.created_at);
    put_expiry(out, record.expires_at, record.updated_at);
    put_state(out, &record.state, record.updated_at);
    put_bytes(out, key.preimage());
    seal(out, start);
}

/// Reads what [`encode`] gave, and makes sure that it belongs to this identity.
pub fn decode(identity: &Identity, bytes: &[u8]) -> Result<(Key, Record), WireError> {
    let (preimage, record) = read(bytes)?;
    let key = Key::from_preimage(preimage).map_err(WireError::Key)?;
    let belongs = key.identity() == identity || is_on("other_key_accepted");
    if belongs { Ok((key, record)) } else { Err(WireError::OtherKey) }
}

/// Reads what [`encode`] gave, and makes sure that it belongs to this key. Cheaper than [`decode`], where the
/// key is at hand: nothing is hashed.
pub fn decode_record(key: &Key, bytes: &[u8]) -> Result<Record, WireError> {
    let (preimage, record) = read(bytes)?;
    if preimage == key.preimage() { Ok(record) } else { Err(WireError::OtherKey) }
}

fn read(bytes: &[u8]) -> Result<(&[u8], Record), WireError> {
    let mut reader = open(bytes)?;
    let kind = reader.byte("the status")?;
    let fingerprint = reader.fingerprint()?;
    let attempts = reader.small("the attempts")?;
    let created_at = reader.time(Timestamp::EPOCH, "the creation")?;
    let updated_at = reader.time(created_at, "the last change")?;
    let expires_at = reader.expiry(updated_at, "the expiry")?;
    let state = state(kind, &mut reader, updated_at)?;
    let preimage = reader.bytes("the key")?;
    reader.end()?;
    Ok((preimage, Record { fingerprint, state, attempts, created_at, updated_at, expires_at }))
}

const fn body_length(state: &State) -> usize {
    match state {
        State::Completed(Body::Kept { bytes, .. }) => bytes.len(),
        State::Pending { error: Some(error), .. } | State::Failed { error, .. } => error.len(),
        State::Completed(Body::NotKept { .. })
        | State::Pending { error: None, .. }
        | State::InProgress { .. } => 0,
    }
}

const fn kind_of(state: &State) -> u8 {
    match state {
        State::Pending { .. } => kind::PENDING,
        State::InProgress { .. } => kind::IN_PROGRESS,
        State::Completed(Body::Kept { .. }) => kind::COMPLETED,
        State::Completed(Body::NotKept { .. }) => kind::COMPLETED_NOT_KEPT,
        State::Failed { .. } => kind::FAILED,
    }
}

fn put_state(out: &mut Vec<u8>, state: &State, updated_at: Timestamp) {
    match state {
        State::Pending { due_at, error } => {
            put_time(out, *due_at, updated_at);
            put_text(out, error.as_deref());
        }
        State::InProgress { holder, lease_until, place, on_lapse } => {
            out.extend_from_slice(&holder.0.to_le_bytes());
            put_time(out, *lease_until, updated_at);
            out.push(flags(*place, *on_lapse));
        }
        State::Completed(body) => put_body(out, body, updated_at),
        State::Failed { reason, error } => put_failure(out, *reason, error),
    }
}

fn state(kind: u8, reader: &mut Reader<'_>, updated_at: Timestamp) -> Result<State, WireError> {
    match kind {
        kind::PENDING => Ok(State::Pending {
            due_at: reader.time(updated_at, "the due time")?,
            error: reader.text("the error")?,
        }),
        kind::IN_PROGRESS => {
            let holder = Holder(u128::from_le_bytes(reader.array("the holder")?));
            let lease_until = reader.time(updated_at, "the lease")?;
            let (place, on_lapse) = read_flags(reader.byte("the lease's terms")?)?;
            Ok(State::InProgress { holder, lease_until, place, on_lapse })
        }
        kind::COMPLETED => Ok(State::Completed(kept(reader, updated_at)?)),
        kind::COMPLETED_NOT_KEPT => Ok(State::Completed(not_kept(reader)?)),
        kind::FAILED => {
            let (reason, error) = failure(reader)?;
            Ok(State::Failed { reason, error })
        }
        _ => Err(WireError::Malformed("the status")),
    }
}

const ELSEWHERE: u8 = 1;
const REPORT: u8 = 2;

const fn flags(place: Place, on_lapse: OnLapse) -> u8 {
    let place = match place {
        Place::Here => 0,
        Place::Elsewhere => ELSEWHERE,
    };
    let on_lapse = match on_lapse {
        OnLapse::Rerun => 0,
        OnLapse::Report => REPORT,
    };
    place | on_lapse
}

fn read_flags(byte: u8) -> Result<(Place, OnLapse), WireError> {
    if byte & !(ELSEWHERE | REPORT) != 0 {
        return Err(WireError::Malformed("the lease's terms"));
    }
    let place = if byte & ELSEWHERE == 0 { Place::Here } else { Place::Elsewhere };
    let on_lapse = if byte & REPORT == 0 { OnLapse::Rerun } else { OnLapse::Report };
    Ok((place, on_lapse))
}
