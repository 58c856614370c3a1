//! Whose values an engine keeps: what differs between the store and the queue.
//!
//! 1. An owner says how its values look in SQLite, and what of each value in the journal is kept in memory
//!    (its note).
//! 2. It lives under the engine's lock. Whatever it counts is written at the front of each file of the journal
//!    ([`Owner::summary`]), and replayed from there.
//!
//! It does no I/O.

use crate::{
    bucket::Tally,
    hot::{Entry, Hot},
};
use rusqlite::types::Value as Column;
use semel_core::key::Identity;
use std::fmt;

/// See the module.
pub(crate) trait Owner: Default + Send + Sync + 'static {
    /// What is kept in memory of each value in the journal.
    type Note: Copy + PartialEq + Eq + fmt::Debug + Send + Sync + 'static;
    /// What the file `FORMAT` says, before the number.
    const FORMAT_TEXT: &'static str;
    /// How values look in SQLite.
    const LAYOUT: Layout;
    /// Whether what goes is counted, so that its going must be in the journal, and waits until it is asked for.
    const IS_COUNTING: bool;
    /// How many files of the journal are made ahead for when the disk is full.
    const RESERVE_SEGMENTS: usize;

    /// The columns of a value, as [`Layout::columns`] names them.
    fn columns(identity: &Identity, payload: &[u8]) -> Vec<Column>;

    /// A value was read from the journal; `None` if it makes no sense.
    fn replay(&mut self, payload: &[u8]) -> Option<Self::Note>;

    /// Bytes of the owner's own were read from the journal, which is read from the newest file back, or have just
    /// been written there.
    fn replay_own(&mut self, bytes: &[u8]) -> Option<()>;

    /// The part of a value that its note is made of.
    fn front(payload: &[u8]) -> &[u8];

    /// The note of a value with this front, which was counted before.
    fn recall(&mut self, front: &[u8]) -> Option<Self::Note>;

    /// The whole journal was read.
    fn replayed(&mut self, hot: &Hot<Self::Note>);

    /// What is to stand at the front of a file of the journal: everything that came before, in sum.
    fn summary(&self) -> Option<Vec<u8>>;

    /// A value cannot be read: gives what is left of it, so that the others go on and nobody takes it for absent.
    fn damaged(&mut self, half: u128, note: &Self::Note, cause: String) -> Vec<u8>;

    /// The value is about to be written to another place, as it is.
    fn copied(payload: &mut [u8]);

    /// The value left the journal.
    fn forgotten(&mut self, half: u128, entry: &Entry<Self::Note>);

    /// What to write down of a value that is removed from the journal.
    fn farewell(&self, note: &Self::Note) -> Vec<u8>;

    /// The value was removed from the journal.
    fn removed(&mut self, half: u128, entry: &Entry<Self::Note>);

    /// What to write down before these buckets are removed, and with them so many values.
    fn buckets_go(&self, names: Vec<String>, values: Tally) -> Vec<u8>;

    /// They were removed.
    fn buckets_gone(&mut self);

    /// Whether a bucket of this name was about to be removed when the journal ended.
    fn is_gone(&self, bucket: &str) -> bool;
}

/// How the values of an owner look in SQLite.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// Columns of its own, as SQL.
    pub(crate) columns: &'static str,
    /// How many these are.
    pub(crate) count: usize,
    /// What only few rows are in, as SQL: made before there are any, because to make it afterwards all would be looked at.
    pub(crate) rare_indexes: &'static str,
    /// What is made when all rows are there, as SQL.
    pub(crate) indexes: &'static str,
    /// The two columns that values are counted by, a text and a number, as SQL; empty if they are not.
    pub(crate) counted_by: &'static str,
}
