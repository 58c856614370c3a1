//! The engine's two threads.
//!
//! 1. The syncer syncs whenever somebody who waits for the disk asks for it, and sleeps otherwise.
//! 2. The housekeeper makes the next file of the journal ahead of need, moves full ones into SQLite, removes
//!    buckets that have expired (of an owner who counts: when it is asked to), and verifies files that were there at the start.
//! 3. It keeps a reserve for when the disk is full ([`crate::spares`]).
//! 4. Both end when the store is dropped, after the journal was synced.

use crate::{
    engine::{Engine, State},
    error::disk as disk_error,
    lock,
    owner::Owner,
};
use semel_core::store::StoreError;
use std::{
    pin::pin,
    sync::{Arc, PoisonError, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};

/// How often the housekeeper looks for expired buckets.
const TICK: Duration = Duration::from_mins(1);
/// How long it waits before it tries again what went wrong.
const TROUBLE: Duration = Duration::from_secs(1);

/// How long it lets others go first between two slices of a file that it removes.
const SLICE_PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Workers<O: Owner> {
    engine: Arc<Engine<O>>,
    threads: Vec<JoinHandle<()>>,
}

impl<O: Owner> Workers<O> {
    pub(crate) fn start(engine: &Arc<Engine<O>>) -> std::io::Result<Self> {
        let spawn = |name: &str, work: fn(&Engine<O>)| {
            let engine = Arc::clone(engine);
            thread::Builder::new().name(name.to_owned()).spawn(move || work(&engine))
        };
        let threads = vec![spawn("semel-sync", sync_loop)?, spawn("semel-keep", housekeeping_loop)?];
        Ok(Self { engine: Arc::clone(engine), threads })
    }
}

impl<O: Owner> Drop for Workers<O> {
    fn drop(&mut self) {
        lock(&self.engine.state).is_closing = true;
        self.engine.pace.close();
        self.engine.wanted.notify_all();
        self.engine.chores.notify_all();
        for thread in self.threads.drain(..) {
            // A panic there was printed when it happened.
            let _ = thread.join();
        }
        // Twice: the second time notes that the first was durable, so that damage to it will be noticed.
        // Nobody waits for either, and an error has been told to those who did.
        let _ = self.engine.sync().and_then(|()| self.engine.sync());
    }
}

impl<O: Owner> Engine<O> {
    /// Resolves when the housekeeper has nothing to do.
    pub(crate) async fn settled(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            // Enlisted before the look, so that an end in between is not missed.
            idle.as_mut().enable();
            if self.is_settled() {
                return;
            }
            idle.await;
        }
    }

    fn is_settled(&self) -> bool {
        self.has_no_chores(&lock(&self.state)) && self.files.try_lock().is_ok()
    }

    /// Whether everything is made ahead, and nothing is to move. The reserve may have been used while it was being filled.
    fn has_no_chores(&self, state: &State<O>) -> bool {
        let is_short = state.next.is_some() && state.segments.len() <= self.options.flush_segments;
        is_short && self.spares.is_whole() && !state.purging.is_asked()
    }
}

fn sync_loop<O: Owner>(engine: &Engine<O>) {
    loop {
        let mut state = lock(&engine.state);
        while !state.is_sync_asked {
            if state.is_closing || state.poison.is_some() {
                return;
            }
            state.is_syncer_idle = true;
            state = engine.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.is_syncer_idle = false;
        }
        drop(state);
        // An error has been told to everybody who waits.
        if engine.sync().is_err() {
            return;
        }
    }
}

fn housekeeping_loop<O: Owner>(engine: &Engine<O>) {
    loop {
        let worked = tidy(engine);
        engine.idle.notify_waiters();
        let mut state = lock(&engine.state);
        state.trouble = worked.as_ref().err().map(ToString::to_string);
        if state.is_closing || state.poison.is_some() {
            return;
        }
        let is_idle = engine.has_no_chores(&state);
        let pause = match worked {
            Err(_) => TROUBLE,
            Ok(()) if is_idle => TICK,
            Ok(()) => continue,
        };
        if engine.is_full.load(Ordering::Acquire) {
            engine.room.notify_waiters();
        }
        drop(engine.chores.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Does what is to be done. What cannot be done, because the disk is full, keeps nothing else from being done: it may be what
/// makes room.
fn tidy<O: Owner>(engine: &Engine<O>) -> Result<(), StoreError> {
    let prepared = engine.prepare_next();
    let moved = move_out(engine);
    engine.purge_as_asked();
    let reserved = engine.spares.fill_reserve().map_err(disk_error("keep room for when the disk is full"));
    // Last, because files that were there at the start are read as a whole.
    let removed = tidy_up(engine);
    prepared.and(moved).and(reserved).and(removed)
}

/// Moves full files of the journal into SQLite.
fn move_out<O: Owner>(engine: &Engine<O>) -> Result<(), StoreError> {
    if lock(&engine.state).segments.len() <= engine.options.flush_segments {
        return Ok(());
    }
    engine.flush()?;
    engine.merge()
}

/// Removes what has expired, and looks at files that were there at the start.
fn tidy_up<O: Owner>(engine: &Engine<O>) -> Result<(), StoreError> {
    if !O::IS_COUNTING {
        let _files = lock(&engine.files);
        engine.purge_buckets(engine.clock.now())?;
    }
    let pause = || thread::sleep(if lock(&engine.state).is_closing { Duration::ZERO } else { SLICE_PAUSE });
    engine.archive.empty_trash(&*engine.disk, pause).map_err(disk_error("remove expired records"))?;
    for bucket in &engine.archive.buckets().list {
        if lock(&engine.state).is_closing {
            break;
        }
        // Damage is told to whoever asks for a key in there.
        let _ = bucket.verify();
    }
    Ok(())
}
