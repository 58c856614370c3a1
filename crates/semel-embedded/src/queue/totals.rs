//! How many executions of a function there are.
//!
//! 1. Every value in the journal changes the counters by what it is and what it takes the place of. The changes
//!    add up in any order, so they may be replayed in any.
//! 2. The sums stand at the front of each file of the journal, so that nothing before it is needed.

use super::card::{Code, Was};
use semel_core::{queue::Counts, sabotage};
use std::sync::Arc;

/// How many numbers a function has.
const NUMBERS: usize = Code::COUNT + 2;

/// The counters of one function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Totals {
    accepted: u64,
    purged: u64,
    by_code: [u64; Code::COUNT],
}

impl Totals {
    /// Counts a value. While a journal is read backwards, an end comes before its beginning: numbers wrap.
    pub(crate) const fn count(&mut self, was: Was, code: Code) {
        match was {
            Was::Copied => {}
            Was::Absent => {
                self.accepted = self.accepted.wrapping_add(1);
                self.enter(code);
            }
            Was::Changed(before) => {
                self.leave(before, 1);
                self.enter(code);
            }
            Was::Expired(before) => {
                self.purge(before, 1);
                self.accepted = self.accepted.wrapping_add(1);
                self.enter(code);
            }
            Was::Removed => self.purge(code, 1),
        }
    }

    /// So many of these were removed.
    pub(crate) const fn purge(&mut self, code: Code, count: u64) {
        self.leave(code, count);
        self.purged = self.purged.wrapping_add(count);
    }

    const fn enter(&mut self, code: Code) {
        let counter = &mut self.by_code[code.number() as usize];
        *counter = counter.wrapping_add(1);
    }

    const fn leave(&mut self, code: Code, count: u64) {
        let counter = &mut self.by_code[code.number() as usize];
        *counter = counter.wrapping_sub(count);
    }

    /// Adds what was counted before.
    pub(crate) fn add(&mut self, earlier: &Self) {
        self.accepted = self.accepted.wrapping_add(earlier.accepted);
        self.purged = self.purged.wrapping_add(earlier.purged);
        for (it, earlier) in self.by_code.iter_mut().zip(earlier.by_code) {
            *it = it.wrapping_add(earlier);
        }
    }

    /// As the port shows them.
    pub(crate) fn counts(&self, function: &Arc<str>) -> Counts {
        let mut counts = Counts::none(Arc::clone(function));
        counts.accepted = self.accepted;
        counts.purged = self.purged;
        for (number, count) in self.by_code.iter().enumerate() {
            let code = Code::new(number as u8).expect("there are as many counters as codes");
            *code.counter(&mut counts) += count;
        }
        counts
    }

    fn numbers(&self) -> [u64; NUMBERS] {
        let mut numbers = [0; NUMBERS];
        (numbers[0], numbers[1]) = (self.accepted, self.purged);
        numbers[2..].copy_from_slice(&self.by_code);
        numbers
    }
}

/// What the queue writes between the values of its journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Own {
    /// All that came before.
    Summary { totals: Vec<(Arc<str>, Totals)>, gone: Vec<String> },
    /// These files are about to be removed, and with them so many executions of a function with a code.
    Gone { buckets: Vec<String>, executions: Vec<(Arc<str>, Code, u64)> },
}

impl Own {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Summary { totals, gone } => {
                out.push(1);
                put_texts(&mut out, gone);
                let totals =
                    if sabotage::is_on("queue_counters_lost_at_roll") { &totals[..0] } else { totals };
                put(&mut out, totals.len() as u64);
                for (function, totals) in totals {
                    put_text(&mut out, function);
                    totals.numbers().iter().for_each(|it| put(&mut out, *it));
                }
            }
            Self::Gone { buckets, executions } => {
                out.push(2);
                put_texts(&mut out, buckets);
                put(&mut out, executions.len() as u64);
                for (function, code, count) in executions {
                    put_text(&mut out, function);
                    out.push(code.number());
                    put(&mut out, *count);
                }
            }
        }
        out
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, bytes) = bytes.split_first()?;
        let mut reader = Reader(bytes);
        let names = reader.texts()?;
        let count = reader.number()?;
        let own = match kind {
            1 => {
                let totals = (0..count).map(|_| Some((reader.text()?.into(), reader.totals()?)));
                Self::Summary { totals: totals.collect::<Option<_>>()?, gone: names }
            }
            2 => {
                let executions = (0..count).map(|_| {
                    let function = reader.text()?.into();
                    Some((function, Code::new(reader.byte()?)?, reader.number()?))
                });
                Self::Gone { executions: executions.collect::<Option<_>>()?, buckets: names }
            }
            _ => return None,
        };
        reader.0.is_empty().then_some(own)
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    put(out, texts.len() as u64);
    for text in texts {
        put_text(out, text);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(std::str::from_utf8(bytes).ok()?.to_owned())
    }

    fn texts(&mut self) -> Option<Vec<String>> {
        let count = self.number()?;
        (0..count).map(|_| self.text()).collect()
    }

    fn totals(&mut self) -> Option<Totals> {
        let (accepted, purged) = (self.number()?, self.number()?);
        let mut by_code = [0; Code::COUNT];
        for it in &mut by_code {
            *it = self.number()?;
        }
        Some(Totals { accepted, purged, by_code })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_queue_writes_for_itself_reads_back_whole_or_not_at_all() {
        let mut totals = Totals::default();
        totals.count(Was::Absent, Code::IN_PROGRESS);
        totals.count(Was::Changed(Code::IN_PROGRESS), Code::FAILED);
        let functions = vec![("one".into(), totals), ("".into(), Totals::default())];
        let owns = [
            Own::Summary { totals: functions, gone: vec!["a".to_owned()] },
            Own::Gone { buckets: vec!["b".to_owned()], executions: vec![("one".into(), Code::FAILED, 3)] },
        ];
        for own in owns {
            let bytes = own.to_bytes();
            assert_eq!(Own::from_bytes(&bytes), Some(own));
            assert!((0..bytes.len()).all(|length| Own::from_bytes(&bytes[..length]).is_none()));
        }
    }

    #[test]
    fn changes_add_up_in_any_order_and_stay_balanced() {
        let changes = [
            (Was::Absent, Code::PENDING),
            (Was::Changed(Code::PENDING), Code::IN_PROGRESS),
            (Was::Copied, Code::IN_PROGRESS),
            (Was::Changed(Code::IN_PROGRESS), Code::COMPLETED),
            (Was::Expired(Code::COMPLETED), Code::PARKED),
            (Was::Absent, Code::FAILED),
            (Was::Removed, Code::FAILED),
        ];
        let sum = |changes: &mut dyn Iterator<Item = &(Was, Code)>| {
            let mut totals = Totals::default();
            changes.for_each(|(was, code)| totals.count(*was, *code));
            totals
        };
        let forward = sum(&mut changes.iter());
        assert_eq!(forward, sum(&mut changes.iter().rev()));
        let counts = forward.counts(&"f".into());
        assert!(counts.is_balanced(), "{counts:?}");
        assert_eq!((counts.accepted, counts.pending, counts.purged), (3, 1, 2));
    }
}
