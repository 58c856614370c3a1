//! From the tail in memory to the operating system, and to the disk.
//!
//! 1. Bytes leave in the order they were appended, whoever carries them.
//! 2. A full segment is durable before anything is written into the next.
//! 3. One sync serves everybody whose change was written before it began; the next batch gathers meanwhile. It begins when
//!    one of those who wait asks for it.
//! 4. An error here stops the engine: see [`Engine`].

use crate::{
    engine::{Batch, Engine, State, Tail},
    error::{disk as disk_error, poisoned, refused},
    frame::Frame,
    lock,
    owner::Owner,
    spares::{FULL, Made, Purpose},
};
use semel_core::{sabotage, store::StoreError};
use std::{
    io, mem,
    sync::{Arc, atomic::Ordering},
};
use tokio::sync::oneshot;

/// Somebody who waits for a change to be durable.
pub(crate) type Waiter = oneshot::Sender<Result<(), StoreError>>;

const BEGINNING: &str = "begin a file of the journal";

impl<O: Owner> Engine<O> {
    /// Hands the journal to the OS up to this point, and with it whatever else waits in memory.
    pub(crate) fn write_upto(&self, upto: u64) -> Result<(), StoreError> {
        while self.written.load(Ordering::Acquire) < upto {
            let mut buffer = lock(&self.io);
            if self.written.load(Ordering::Acquire) < upto {
                let mut state = lock(&self.state);
                state.check()?;
                let batches = state.take(&mut buffer);
                let taken = state.taken;
                drop(state);
                self.write(batches, taken, &mut buffer)?;
            }
        }
        Ok(())
    }

    /// Makes everything appended so far durable, and tells those who wait.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let mut buffer = lock(&self.io);
        let mut state = lock(&self.state);
        state.check()?;
        state.mark();
        let batches = state.take(&mut buffer);
        let waiters = mem::take(&mut state.waiters);
        state.is_sync_asked = false;
        state.syncs += 1;
        let (segment, end, taken) = (Arc::clone(&state.tail.segment), state.tail.start, state.taken);
        drop(state);
        if sabotage::is_on("embedded_acknowledges_before_sync") {
            answer(waiters, None);
            return Ok(());
        }
        let written = self.write(batches, taken, &mut buffer);
        drop(buffer);
        let synced = written.and_then(|()| segment.file.sync().map_err(|it| self.stop(&it)));
        if synced.is_ok() {
            let mut state = lock(&self.state);
            state.durable = state.durable.max((segment.number, end));
            if state.tail.segment.number == segment.number {
                state.tail.durable = end;
            }
        }
        answer(waiters, lock(&self.state).poison.as_deref());
        synced
    }

    fn write(&self, batches: Vec<Batch>, taken: u64, buffer: &mut Vec<u8>) -> Result<(), StoreError> {
        let last = batches.len().saturating_sub(1);
        for (index, Batch { segment, start, mut bytes }) in batches.into_iter().enumerate() {
            let written = segment.file.write_at(&bytes, start.into());
            let synced = if index < last { written.and_then(|()| segment.file.sync()) } else { written };
            synced.map_err(|it| self.stop(&it))?;
            bytes.clear();
            *buffer = bytes;
        }
        self.written.store(taken, Ordering::Release);
        Ok(())
    }

    /// Stops the engine for good, and says why to everybody who waits.
    fn stop(&self, cause: &io::Error) -> StoreError {
        let mut state = lock(&self.state);
        let cause = state.poison.get_or_insert_with(|| cause.to_string()).clone();
        answer(mem::take(&mut state.waiters), Some(&cause));
        self.chores.notify_all();
        poisoned(&cause)
    }

    /// Waits while the journal is so far ahead of SQLite that new keys would only make it worse.
    pub(crate) async fn wait_for_room(&self) -> Result<(), StoreError> {
        while self.is_full.load(Ordering::Acquire) {
            let room = self.room.notified();
            self.check_backlog()?;
            if self.is_full.load(Ordering::Acquire) {
                room.await;
            }
        }
        Ok(())
    }

    /// Refuses to wait for the journal to become shorter where it cannot.
    pub(crate) fn check_backlog(&self) -> Result<(), StoreError> {
        match &lock(&self.state).trouble {
            Some(cause) if self.is_full.load(Ordering::Acquire) => {
                Err(refused(format!("cannot move its journal into SQLite: {cause}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until everything appended so far is on disk.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        let (waiter, durable) = oneshot::channel();
        self.wait(waiter);
        settled(durable).await
    }

    fn wait(&self, waiter: oneshot::Sender<Result<(), StoreError>>) {
        let mut state = lock(&self.state);
        if let Some(cause) = &state.poison {
            // Whoever gave up waiting does not want to know.
            return drop(waiter.send(Err(poisoned(cause))));
        }
        state.waiters.push(waiter);
        state.is_sync_asked = true;
        self.wanted.notify_one();
    }

    /// Has those who wait synced for, unless that was begun since so many syncs.
    pub(crate) fn ask_to_sync(&self, syncs: u64) {
        let mut state = lock(&self.state);
        if state.syncs == syncs && !state.is_sync_asked {
            state.is_sync_asked = true;
            if state.is_syncer_idle {
                self.wanted.notify_one();
            }
        }
    }

    /// Ends the tail's segment and begins the next.
    pub(crate) fn roll(&self, state: &mut State<O>, purpose: Purpose) -> Result<(), StoreError> {
        let (next, is_short, limit) = if let Some(it) = state.next.take() {
            (it, false, self.options.segment_bytes)
        } else {
            let number = state.next_number();
            let made = self.spares.make_now(number, self.clock.now(), purpose);
            let Made { segment, is_short, limit, is_of_reserve } = made.map_err(disk_error(BEGINNING))?;
            if is_of_reserve {
                state.trouble.get_or_insert_with(|| FULL.to_owned());
            }
            (Arc::new(segment), is_short, limit)
        };
        assert!(next.number > state.tail.segment.number, "segments are numbered upwards");
        let follows = Frame::Follows { segment: state.tail.segment.number, end: state.tail.end() };
        let full = mem::replace(&mut state.tail, Tail::new(Arc::clone(&next), is_short, limit));
        state.segments.insert(next.number, next);
        state.retired.push(Batch { segment: full.segment, start: full.start, bytes: full.pending });
        state.push(&follows);
        state.push_summary();
        self.note_length(state);
        self.chores.notify_one();
        Ok(())
    }

    /// Notes how long the journal is, for those who do not hold the lock.
    pub(crate) fn note_length(&self, state: &State<O>) {
        let segments = state.segments.len();
        self.is_full.store(segments > self.options.backlog_segments_max, Ordering::Release);
        self.pace.has(segments);
    }

    /// Makes the next segment ahead of need; ends the present one if that is short.
    pub(crate) fn prepare_next(&self) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        if state.next.is_some() {
            return Ok(());
        }
        let number = state.next_number();
        drop(state);
        let made = self.spares.make_full(number, self.clock.now());
        let next = Arc::new(made.map_err(disk_error(BEGINNING))?);
        let mut state = lock(&self.state);
        if number < state.tail.segment.number {
            // A swap could not wait for it, and went on to a later one.
            drop(state);
            return self.spares.keep(&next).map_err(disk_error(BEGINNING));
        }
        state.next = Some(next);
        if state.tail.is_short { self.roll(&mut state, Purpose::Known) } else { Ok(()) }
    }
}

/// Waits for the answer of whoever syncs.
pub(crate) async fn settled(durable: oneshot::Receiver<Result<(), StoreError>>) -> Result<(), StoreError> {
    durable.await.unwrap_or_else(|_| Err(poisoned("it was closed")))
}

fn answer(waiters: Vec<Waiter>, poison: Option<&str>) {
    for waiter in waiters {
        // Whoever gave up waiting does not want to know.
        let _ = waiter.send(poison.map_or(Ok(()), |cause| Err(poisoned(cause))));
    }
}

impl<O: Owner> State<O> {
    /// Takes what is to be written out, leaving an empty buffer behind.
    fn take(&mut self, buffer: &mut Vec<u8>) -> Vec<Batch> {
        let mut batches = mem::take(&mut self.retired);
        let start = self.tail.start;
        let bytes = mem::replace(&mut self.tail.pending, mem::take(buffer));
        self.tail.start += bytes.len() as u32;
        self.taken = self.appended;
        batches.push(Batch { segment: Arc::clone(&self.tail.segment), start, bytes });
        batches
    }

    /// A number that no segment ever had.
    fn next_number(&mut self) -> u32 {
        self.last_number += 1;
        self.last_number
    }

    /// Notes in the journal how far it is known to be durable.
    fn mark(&mut self) {
        const MARK_BYTES: u32 = 16;
        let Tail { durable, marked, .. } = self.tail;
        if durable > marked && self.tail.end() + MARK_BYTES <= self.tail.limit {
            self.push(&Frame::Durable { upto: durable });
            self.tail.marked = durable;
        }
    }
}
