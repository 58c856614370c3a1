//! What stands in front of an execution's bytes: what the index needs of it, so that a journal is read without
//! decoding events.
//!
//! 1. The front has a fixed length; what is only known under the lock (the sequence, and what the value takes
//!    the place of) is patched in there.
//! 2. [`Was`] makes every value in the journal a change of the counters, too: replaying the journal counts.

use crate::error::{corrupt, misconfigured, refused};
use semel_core::{
    execution::{Due, Execution, ExecutionId, Phase},
    key::Identity,
    queue::Counts,
    record::Reason,
    store::StoreError,
    time::Timestamp,
    wire::{self, WireError},
};

/// Largest execution, in bytes as stored: an event, a result and errors, with room to spare.
pub(crate) const EXECUTION_BYTES_MAX: usize = 4 << 20;

const VERSION: u8 = 1;
const WAS_AT: usize = 2;
const SEQUENCE_AT: usize = 19;
const FRONT_BYTES: usize = 31;
/// As a due time: there is none. As the length of an order: there is none.
const NO_TIME: u64 = u64::MAX;
const NO_ORDER: u16 = u16::MAX;

/// Where an execution stands, as a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Code(u8);

impl Code {
    pub(crate) const PENDING: Self = Self(0);
    pub(crate) const PARKED: Self = Self(1);
    pub(crate) const IN_PROGRESS: Self = Self(2);
    pub(crate) const COMPLETED: Self = Self(3);
    /// The first of the reasons to fail.
    pub(crate) const FAILED: Self = Self(4);
    pub(crate) const COUNT: usize = Self::FAILED.0 as usize + Reason::ALL.len();

    pub(crate) const fn of(phase: &Phase) -> Self {
        match phase {
            Phase::Pending(Due::At(_)) => Self::PENDING,
            Phase::Pending(Due::Parked { .. }) => Self::PARKED,
            Phase::InProgress { .. } => Self::IN_PROGRESS,
            Phase::Completed(_) => Self::COMPLETED,
            Phase::Failed { reason, .. } => Self(Self::FAILED.0 + *reason as u8),
        }
    }

    pub(crate) fn new(number: u8) -> Option<Self> {
        (usize::from(number) < Self::COUNT).then_some(Self(number))
    }

    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    pub(crate) fn is_unfinished(self) -> bool {
        self <= Self::IN_PROGRESS
    }

    pub(crate) fn reason(self) -> Option<Reason> {
        self.0.checked_sub(Self::FAILED.0).map(|it| Reason::ALL[usize::from(it)])
    }

    pub(crate) fn status(self) -> semel_core::record::Status {
        use semel_core::record::Status;
        match self {
            Self::PENDING | Self::PARKED => Status::Pending,
            Self::IN_PROGRESS => Status::InProgress,
            Self::COMPLETED => Status::Completed,
            _ => Status::Failed,
        }
    }

    /// The counter that such executions stand in.
    pub(crate) fn counter(self, counts: &mut Counts) -> &mut u64 {
        match self.reason() {
            Some(reason) => &mut counts.failed[reason as usize],
            None if self == Self::COMPLETED => &mut counts.completed,
            None if self == Self::IN_PROGRESS => &mut counts.in_progress,
            None => &mut counts.pending,
        }
    }
}

/// What a value takes the place of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Was {
    /// Itself: the same value in another place.
    Copied,
    /// Nothing.
    Absent,
    /// An execution that stood there.
    Changed(Code),
    /// One that had expired: the new one is accepted anew.
    Expired(Code),
    /// The execution itself, which goes.
    Removed,
}

impl Was {
    const CHANGED: u8 = 0x40;
    const EXPIRED: u8 = 0x80;

    const fn number(self) -> u8 {
        match self {
            Self::Copied => 0,
            Self::Absent => 1,
            Self::Removed => 2,
            Self::Changed(code) => Self::CHANGED | code.0,
            Self::Expired(code) => Self::EXPIRED | code.0,
        }
    }

    fn new(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Copied),
            1 => Some(Self::Absent),
            2 => Some(Self::Removed),
            _ => match number & 0xc0 {
                Self::CHANGED => Code::new(number & 0x3f).map(Self::Changed),
                Self::EXPIRED => Code::new(number & 0x3f).map(Self::Expired),
                _ => None,
            },
        }
    }
}

/// The front of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Card<'a> {
    pub(crate) code: Code,
    pub(crate) was: Was,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) accepted_at: Timestamp,
    /// See [`semel_core::execution::Order::sequence`].
    pub(crate) sequence: u64,
    pub(crate) function: &'a str,
    pub(crate) order: Option<&'a str>,
}

impl<'a> Card<'a> {
    fn of(execution: &'a Execution) -> Self {
        Self {
            code: Code::of(&execution.phase),
            was: Was::Copied,
            due_at: execution.due_at(),
            accepted_at: execution.accepted_at,
            sequence: execution.order.as_ref().map_or(0, |it| it.sequence),
            function: &execution.function,
            order: execution.order.as_ref().map(|it| &*it.key),
        }
    }

    /// Appends it.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let length = |it: &str| it.len() as u16;
        out.extend([VERSION, self.code.0, self.was.number()]);
        out.extend(self.due_at.map_or(NO_TIME, Timestamp::as_millis).to_le_bytes());
        out.extend(self.accepted_at.as_millis().to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(length(self.function).to_le_bytes());
        out.extend(self.order.map_or(NO_ORDER, length).to_le_bytes());
        out.extend(self.function.as_bytes());
        out.extend(self.order.unwrap_or_default().as_bytes());
    }

    /// The card at the front of a payload, and the execution's bytes behind it.
    pub(crate) fn split(payload: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (front, rest) = payload.split_at_checked(FRONT_BYTES)?;
        let long = |at: usize| u64::from_le_bytes(front[at..at + 8].try_into().expect("eight bytes"));
        let short = |at: usize| u16::from_le_bytes(front[at..at + 2].try_into().expect("two bytes"));
        let (function, rest) = rest.split_at_checked(short(27).into())?;
        let order_length = short(29);
        let has_order = order_length != NO_ORDER;
        let (order, rest) = rest.split_at_checked(if has_order { order_length.into() } else { 0 })?;
        let card = Self {
            code: Code::new(front[1])?,
            was: Was::new(front[WAS_AT])?,
            due_at: Some(long(3)).filter(|it| *it != NO_TIME).map(Timestamp::from_millis),
            accepted_at: Timestamp::from_millis(long(11)),
            sequence: long(SEQUENCE_AT),
            function: std::str::from_utf8(function).ok()?,
            order: if has_order { Some(std::str::from_utf8(order).ok()?) } else { None },
        };
        (front[0] == VERSION).then_some((card, rest))
    }
}

/// Says what the payload takes the place of.
pub(crate) fn set_was(payload: &mut [u8], was: Was) {
    payload[WAS_AT] = was.number();
}

/// Gives the execution its place in its order.
pub(crate) fn set_sequence(payload: &mut [u8], sequence: u64) {
    payload[SEQUENCE_AT..SEQUENCE_AT + 8].copy_from_slice(&sequence.to_le_bytes());
}

/// An execution as a payload.
pub(crate) fn encode(execution: &Execution) -> Result<Vec<u8>, StoreError> {
    let names = [Some(&execution.function), execution.order.as_ref().map(|it| &it.key)];
    if names.iter().flatten().any(|it| it.len() >= NO_ORDER.into()) {
        return Err(misconfigured("the name of a function or an order is longer than 65,534 bytes"));
    }
    let event = execution.event.as_ref().map_or(0, |it| it.len());
    let mut payload = Vec::with_capacity(event + 512);
    Card::of(execution).put(&mut payload);
    wire::encode_execution_into(&mut payload, execution);
    if payload.len() > EXECUTION_BYTES_MAX {
        return Err(refused(format!(
            "an execution of {} bytes is larger than {EXECUTION_BYTES_MAX}: lower the limit on results",
            payload.len()
        )));
    }
    Ok(payload)
}

/// Reads what [`encode`] gave.
pub(crate) fn decode(identity: &Identity, payload: &[u8]) -> Result<Execution, StoreError> {
    let (card, bytes) =
        Card::split(payload).ok_or_else(|| corrupt(format!("the execution {identity} is damaged")))?;
    let id = ExecutionId::from_identity(*identity);
    let mut execution = wire::decode_execution(&id, bytes).map_err(|cause| match cause {
        WireError::Newer { .. } => misconfigured(format!("read the execution {identity}")).because(cause),
        _ => corrupt(format!("read the execution {identity}")).because(cause),
    })?;
    if let Some(order) = &mut execution.order {
        order.sequence = card.sequence;
    }
    Ok(execution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_reads_back_and_no_cut_or_unknown_number_does() {
        let card = Card {
            code: Code::FAILED,
            was: Was::Expired(Code::COMPLETED),
            due_at: None,
            accepted_at: Timestamp::from_millis(7),
            sequence: 9,
            function: "resize",
            order: Some("customer 1"),
        };
        let mut bytes = Vec::new();
        card.put(&mut bytes);
        bytes.extend(b"rest");
        assert_eq!(Card::split(&bytes), Some((card, &b"rest"[..])));
        assert!((0..bytes.len() - 4).all(|length| Card::split(&bytes[..length]).is_none()));
        for at in [0, 1, WAS_AT] {
            let mut changed = bytes.clone();
            changed[at] = 0xff;
            assert_eq!(Card::split(&changed), None, "byte {at}");
        }
        set_was(&mut bytes, Was::Changed(Code::PARKED));
        set_sequence(&mut bytes, 10);
        let (card, _) = Card::split(&bytes).unwrap();
        assert_eq!((card.was, card.sequence), (Was::Changed(Code::PARKED), 10));
    }

    #[test]
    fn every_code_says_what_it_stands_for() {
        let codes: Vec<_> = (0..=u8::MAX).filter_map(Code::new).collect();
        assert_eq!(codes.len(), Code::COUNT);
        let reasons: Vec<_> = codes.iter().filter_map(|it| it.reason()).collect();
        assert_eq!(reasons, Reason::ALL);
        assert!(codes.iter().all(|it| it.is_unfinished() != it.status().is_terminal()));
        let wases = [Was::Copied, Was::Absent, Was::Removed];
        let wases =
            wases.into_iter().chain(codes.iter().flat_map(|it| [Was::Changed(*it), Was::Expired(*it)]));
        wases.for_each(|it| assert_eq!(Was::new(it.number()), Some(it)));
    }
}
