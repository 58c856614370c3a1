//! How far long work is, on standard error.
//!
//! 1. Where there is a terminal, one line is redrawn, and gone in the end. Where there is none, nothing is written.
//! 2. A bar has a known end. Work without one is told by how much was done, and how fast.
//!
//! It does not read the size of the terminal: its lines are short.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// How often the line is redrawn at most.
pub(crate) const REDRAWN_EVERY: Duration = Duration::from_millis(100);
/// How long a bar is, in characters.
const BAR: u64 = 24;
/// Goes to the beginning of the line, and empties it.
pub(crate) const CLEAR: &str = "\r\u{1b}[2K";

/// A line that is redrawn.
#[derive(Debug)]
pub(crate) struct Progress {
    is_terminal: bool,
    began: Instant,
    shown: Option<Instant>,
}

impl Progress {
    /// Begins.
    pub(crate) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), began: Instant::now(), shown: None }
    }

    /// Whether anybody sees it.
    pub(crate) const fn is_shown(&self) -> bool {
        self.is_terminal
    }

    /// How long it has been.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How it stands, unless that was shown just now.
    pub(crate) fn show(&mut self, text: impl FnOnce(Duration) -> String) {
        if self.is_terminal && self.shown.is_none_or(|it| it.elapsed() >= REDRAWN_EVERY) {
            self.shown = Some(Instant::now());
            write(&format!("{CLEAR}{}", text(self.elapsed())));
        }
    }
}

impl Drop for Progress {
    /// The line is gone, however the work ended.
    fn drop(&mut self) {
        if self.shown.is_some() {
            write(CLEAR);
        }
    }
}

/// Writes to standard error at once.
pub(crate) fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    // Whoever does not look misses nothing.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// How much of it is done.
pub(crate) fn bar(done: u64, of: u64) -> String {
    let done = done.min(of);
    let share = |whole: u64| {
        if of == 0 { whole } else { (u128::from(done) * u128::from(whole) / u128::from(of)) as u64 }
    };
    let full = share(BAR) as usize;
    format!("[{}{}] {:>3} %", "#".repeat(full), "-".repeat(BAR as usize - full), share(100))
}

/// How fast something went.
pub(crate) fn per_second(done: u64, took: Duration) -> u64 {
    (done as f64 / took.as_secs_f64().max(0.001)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_when_all_is_done_and_not_earlier() {
        assert_eq!(bar(0, 10), "[------------------------]   0 %");
        assert_eq!(bar(5, 10), "[############------------]  50 %");
        assert_eq!(bar(999, 1_000), "[#######################-]  99 %");
        assert_eq!(bar(10, 10), "[########################] 100 %");
        for (done, of) in [(11, 10), (0, 0), (u64::MAX, u64::MAX)] {
            assert_eq!(bar(done, of), bar(1, 1), "{done} of {of}");
        }
    }

    #[test]
    fn a_rate_needs_no_time() {
        assert_eq!(per_second(1_000, Duration::from_secs(2)), 500);
        assert_eq!(per_second(1, Duration::ZERO), 1_000);
    }
}
