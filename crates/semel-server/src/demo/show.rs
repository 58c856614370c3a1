//! What the demo shows: a line that is redrawn where there is a terminal, lines of their own where there is none, and a
//! table in the end.

use crate::{
    cli::text::grouped,
    progress::{CLEAR, bar, write},
};
use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

/// How often a line is written where it cannot be redrawn.
const EVERY: Duration = Duration::from_secs(2);

/// Shows progress on standard error.
#[derive(Debug)]
pub(super) struct Show {
    is_terminal: bool,
    began: Instant,
    shown: Option<Instant>,
}

impl Show {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), began: Instant::now(), shown: None }
    }

    /// How it stands, if it is time to say so.
    pub(super) fn progress(&mut self, done: u64, of: u64, text: &str) {
        if self.is_terminal {
            let (elapsed, bar) = (self.began.elapsed().as_secs_f64(), bar(done, of));
            write(&format!("{CLEAR}{elapsed:>5.1} s  {bar}  {text}"));
        } else if self.shown.is_none_or(|it| it.elapsed() >= EVERY) {
            self.shown = Some(Instant::now());
            write(&format!("{:>5.1} s  {text}\n", self.began.elapsed().as_secs_f64()));
        }
    }

    /// Something that happened, which stays.
    pub(super) fn happened(&self, text: &str) {
        let clear = if self.is_terminal { CLEAR } else { "" };
        write(&format!("{clear}{:>5.1} s  {text}\n", self.began.elapsed().as_secs_f64()));
    }

    /// The line that was redrawn is gone.
    pub(super) fn end(&self) {
        if self.is_terminal {
            write(CLEAR);
        }
    }
}

/// What the demo came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    pub(super) deliveries: u64,
    pub(super) events: u64,
    pub(super) again: u64,
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) repeated: u64,
    pub(super) effects: u64,
}

impl Outcome {
    /// For people.
    pub(super) fn table(&self) -> String {
        let Self { deliveries, events, again, calls, failed, repeated, effects } = *self;
        let mut table = String::new();
        for (name, value, note) in [
            ("deliveries", deliveries, ""),
            ("  distinct events", events, ""),
            ("  duplicates", deliveries - events, ""),
            ("sent again", again, "the server was not there, or did not answer"),
            ("calls of the function", calls, ""),
            ("  failed attempts", failed, "an error, or a crash"),
            ("  after the effect", repeated, "known by their idempotency key"),
            ("effects", effects, ""),
            ("expected effects", events, ""),
        ] {
            let line = format!("{name:<22} {:>10}  {note}", grouped(value));
            // Nothing fails to be written to a string.
            let _ = writeln!(table, "{}", line.trim_end());
        }
        table
    }
}
