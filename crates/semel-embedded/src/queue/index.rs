//! What the queue keeps in memory of the executions in its journal: which are due, who stands before whom, and
//! when each was accepted.
//!
//! 1. Unfinished executions are all here, and so are finished ones until they move into SQLite. Each costs a
//!    few small entries; events stay on disk.
//! 2. Of an [order](semel_core::execution::Order), only its head, the unfinished execution with the lowest
//!    sequence, stands among the due.
//! 3. Among the due, the longest due comes first; those due at one moment come in the sequence of their writing.
//!
//! It does not read or write anything: it is the [owner](Owner) under the engine's lock.

use super::{
    card::{self, Card, Code, Was},
    columns,
    totals::{Own, Totals},
};
use crate::{
    bucket::Tally,
    hot::{Entry, Hot},
    owner::{Layout, Owner},
};
use rusqlite::types::Value as Column;
use semel_core::{key::Identity, queue::Counts, sabotage, time::Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// What is kept of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) function: u32,
    /// Its order's number while it is unfinished.
    pub(crate) order: Option<u32>,
    pub(crate) sequence: u64,
    pub(crate) code: Code,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) accepted_at: Timestamp,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Index {
    numbers: HashMap<Arc<str>, u32>,
    functions: Vec<Function>,
    orders: Orders,
    /// By acceptance.
    pub(crate) listed: BTreeSet<(Timestamp, u128)>,
    /// Files of SQLite that are about to be removed, or were when the journal ended.
    gone: HashSet<String>,
    /// Executions that could not be read, and why: they are left alone until the next start.
    pub(crate) damaged: HashMap<u128, String>,
    /// While the journal is read: what stood at the front of the oldest file of it so far.
    earlier: Vec<(Arc<str>, Totals)>,
}

struct Function {
    name: Arc<str>,
    totals: Totals,
    /// By due time and fence.
    due: BTreeMap<(Timestamp, u64), u128>,
}

#[derive(Default)]
struct Orders {
    numbers: HashMap<(u32, Arc<str>), u32>,
    all: Vec<Order>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Order {
    name: Option<(u32, Arc<str>)>,
    /// The unfinished executions, by sequence.
    members: BTreeMap<u64, u128>,
}

impl Index {
    /// The number of a function, which it keeps until the process ends.
    pub(crate) fn function(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.functions.len() as u32;
        let name: Arc<str> = name.into();
        self.numbers.insert(Arc::clone(&name), number);
        self.functions.push(Function { name, totals: Totals::default(), due: BTreeMap::new() });
        number
    }

    /// The number of a function that was seen.
    pub(crate) fn known(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The card of an execution of which this is kept.
    fn card(&self, note: &Note, was: Was) -> Vec<u8> {
        let name = note.order.and_then(|it| self.orders.all[it as usize].name.as_ref());
        let card = Card {
            code: note.code,
            was,
            due_at: note.due_at,
            accepted_at: note.accepted_at,
            sequence: note.sequence,
            function: &self.functions[note.function as usize].name,
            order: name.map(|it| &*it.1),
        };
        let mut payload = Vec::new();
        card.put(&mut payload);
        payload
    }

    /// What is kept of an execution with this card.
    pub(crate) fn note(&mut self, card: &Card<'_>) -> Note {
        let function = self.function(card.function);
        let order = card.order.filter(|_| card.code.is_unfinished());
        Note {
            function,
            order: order.map(|it| self.orders.number(function, it)),
            sequence: card.sequence,
            code: card.code,
            due_at: card.due_at,
            accepted_at: card.accepted_at,
        }
    }

    pub(crate) fn count(&mut self, function: u32, was: Was, code: Code) {
        self.functions[function as usize].totals.count(was, code);
    }

    pub(crate) fn counts(&self) -> Vec<Counts> {
        self.functions.iter().map(|it| it.totals.counts(&it.name)).collect()
    }

    /// Takes an execution in, in place of what stood there. The map has it already.
    pub(crate) fn replace(
        &mut self,
        hot: &Hot<Note>,
        half: u128,
        before: Option<&Entry<Note>>,
        after: &Entry<Note>,
    ) {
        if let Some(before) = before {
            self.leave(hot, half, before);
        }
        self.enter(hot, half, after);
        if let Some(order) = before.and_then(|it| it.note.order) {
            self.orders.free_if_empty(order);
        }
    }

    /// Takes at most so many due executions out, for whoever claims them.
    pub(crate) fn take_due(&mut self, function: u32, now: Timestamp, limit: usize) -> Vec<u128> {
        let due = &mut self.functions[function as usize].due;
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(first) = due.first_entry()
            && first.key().0 <= now
        {
            taken.push(first.remove());
        }
        taken
    }

    /// Puts back what was taken and did not change, unless somebody stands before it now.
    pub(crate) fn give_back(&mut self, half: u128, entry: &Entry<Note>) {
        let head = entry.note.order.and_then(|it| self.orders.all[it as usize].members.first_key_value());
        let is_head = head.is_none_or(|(sequence, _)| *sequence == entry.note.sequence);
        self.set_due(half, entry, is_head);
    }

    /// Finds out what is due, when everything is in the map.
    fn find_due(&mut self, hot: &Hot<Note>) {
        let mut due: Vec<Vec<_>> = self.functions.iter().map(|_| Vec::new()).collect();
        for (half, entry) in hot.iter() {
            match (entry.note.order, entry.note.due_at) {
                (Some(_), _) => self.enter(hot, half, entry),
                (None, Some(due_at)) => {
                    due[entry.note.function as usize].push(((due_at, entry.fence.get()), half));
                }
                (None, None) => {}
            }
        }
        for (function, mut due) in self.functions.iter_mut().zip(due) {
            due.sort_unstable();
            due.extend(std::mem::take(&mut function.due));
            function.due = due.into_iter().collect();
        }
        (0..self.orders.all.len() as u32).for_each(|it| self.orders.free_if_empty(it));
    }

    fn enter(&mut self, hot: &Hot<Note>, half: u128, entry: &Entry<Note>) {
        self.listed.insert((entry.note.accepted_at, half));
        let Some(order) = entry.note.order else { return self.set_due(half, entry, true) };
        let members = &mut self.orders.all[order as usize].members;
        let head = members.first_key_value().map(|(sequence, half)| (*sequence, *half));
        members.insert(entry.note.sequence, half);
        let is_head = head.is_none_or(|(sequence, _)| entry.note.sequence < sequence);
        if is_head || sabotage::is_on("queue_order_head_ignored") {
            self.set_due(half, entry, true);
            if let Some(former) = head.and_then(|(_, half)| Some((half, hot.get_half(half)?))) {
                self.set_due(former.0, former.1, sabotage::is_on("queue_order_head_ignored"));
            }
        }
    }

    pub(crate) fn leave(&mut self, hot: &Hot<Note>, half: u128, entry: &Entry<Note>) {
        self.listed.remove(&(entry.note.accepted_at, half));
        self.set_due(half, entry, false);
        let Some(order) = entry.note.order else { return };
        let members = &mut self.orders.all[order as usize].members;
        let was_head =
            members.first_key_value().is_some_and(|(sequence, _)| *sequence == entry.note.sequence);
        members.remove(&entry.note.sequence);
        match members.first_key_value() {
            Some((_, next)) if was_head => {
                let next = *next;
                if let Some(entry) = hot.get_half(next) {
                    self.set_due(next, entry, true);
                }
            }
            Some(_) | None => {}
        }
    }

    fn set_due(&mut self, half: u128, entry: &Entry<Note>, is_due: bool) {
        let Some(due_at) = entry.note.due_at else { return };
        let due = &mut self.functions[entry.note.function as usize].due;
        let key = (due_at, entry.fence.get());
        if is_due && !self.damaged.contains_key(&half) {
            due.insert(key, half);
        } else {
            due.remove(&key);
        }
    }
}

/// All of them, by acceptance. Sorted first: a tree is built from what is in order many times faster.
fn listed(hot: &Hot<Note>) -> BTreeSet<(Timestamp, u128)> {
    let mut listed: Vec<_> = hot.iter().map(|(half, it)| (it.note.accepted_at, half)).collect();
    listed.sort_unstable();
    listed.into_iter().collect()
}

impl Orders {
    fn number(&mut self, function: u32, key: &str) -> u32 {
        let name = (function, Arc::from(key));
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Order::default());
            self.all.len() as u32 - 1
        });
        self.all[number as usize].name = Some(name.clone());
        self.numbers.insert(name, number);
        number
    }

    /// Forgets an order without members.
    fn free_if_empty(&mut self, number: u32) {
        if !self.all[number as usize].members.is_empty() {
            return;
        }
        if let Some(name) = self.all[number as usize].name.take() {
            self.numbers.remove(&name);
            self.free.push(number);
        }
    }
}

impl Owner for Index {
    type Note = Note;
    const FORMAT_TEXT: &'static str = "Semel embedded queue, format ";
    const LAYOUT: Layout = columns::LAYOUT;
    const IS_COUNTING: bool = true;
    // 64 MiB: a claim and an outcome of ten thousand executions of a few kilobytes.
    const RESERVE_SEGMENTS: usize = 4;

    fn columns(identity: &Identity, payload: &[u8]) -> Vec<Column> {
        columns::of(identity, payload)
    }

    fn replay(&mut self, payload: &[u8]) -> Option<Note> {
        let (card, _) = Card::split(payload)?;
        let note = self.note(&card);
        self.count(note.function, card.was, card.code);
        Some(note)
    }

    fn front(payload: &[u8]) -> &[u8] {
        let rest = Card::split(payload).map_or(0, |(_, rest)| rest.len());
        &payload[..payload.len() - rest]
    }

    fn recall(&mut self, front: &[u8]) -> Option<Note> {
        Card::split(front).map(|(card, _)| self.note(&card))
    }

    fn damaged(&mut self, half: u128, note: &Note, cause: String) -> Vec<u8> {
        self.damaged.insert(half, cause);
        self.card(note, Was::Copied)
    }

    fn replay_own(&mut self, bytes: &[u8]) -> Option<()> {
        match Own::from_bytes(bytes)? {
            Own::Summary { totals, gone } => {
                self.earlier = totals;
                self.gone.extend(gone);
            }
            Own::Gone { buckets, executions } => {
                self.gone.extend(buckets);
                for (function, code, count) in executions {
                    let function = self.function(&function);
                    self.functions[function as usize].totals.purge(code, count);
                }
            }
        }
        Some(())
    }

    fn replayed(&mut self, hot: &Hot<Note>) {
        for (function, totals) in std::mem::take(&mut self.earlier) {
            let function = self.function(&function);
            self.functions[function as usize].totals.add(&totals);
        }
        std::thread::scope(|scope| {
            let listed = scope.spawn(|| listed(hot));
            self.find_due(hot);
            self.listed = listed.join().expect("sorting does not panic");
        });
    }

    fn summary(&self) -> Option<Vec<u8>> {
        let totals = self.functions.iter().map(|it| (Arc::clone(&it.name), it.totals)).collect();
        Some(Own::Summary { totals, gone: self.gone.iter().cloned().collect() }.to_bytes())
    }

    fn copied(payload: &mut [u8]) {
        card::set_was(payload, Was::Copied);
    }

    fn forgotten(&mut self, half: u128, entry: &Entry<Note>) {
        self.listed.remove(&(entry.note.accepted_at, half));
    }

    fn farewell(&self, note: &Note) -> Vec<u8> {
        self.card(note, Was::Removed)
    }

    fn removed(&mut self, half: u128, entry: &Entry<Note>) {
        self.count(entry.note.function, Was::Removed, entry.note.code);
        self.forgotten(half, entry);
    }

    fn buckets_go(&self, names: Vec<String>, values: Tally) -> Vec<u8> {
        let executions = values.into_iter().filter_map(|((function, code), count)| {
            Some((Arc::from(function), Code::new(u8::try_from(code).ok()?)?, count))
        });
        Own::Gone { buckets: names, executions: executions.collect() }.to_bytes()
    }

    fn buckets_gone(&mut self) {
        self.gone.clear();
    }

    fn is_gone(&self, bucket: &str) -> bool {
        self.gone.contains(bucket)
    }
}
