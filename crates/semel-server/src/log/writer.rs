//! The thread that writes.
//!
//! 1. Whoever has a line hands it over and goes on. Lines that come together are written together.
//! 2. A queue that is full loses the line, and counts it.
//! 3. Dropping [`Writing`] waits until everything that was handed over is written, for a while.

use super::line::Line;
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

/// Most lines that wait to be written.
const LINES_MAX: usize = 8_192;
/// Most bytes that are written at once.
const BATCH_BYTES_MAX: usize = 64 * 1024;
/// How long the end waits for lines to be written.
const END_MAX: Duration = Duration::from_secs(2);

enum Message {
    Line(String),
    /// Answered when everything before it was written.
    End(SyncSender<()>),
}

/// Takes lines.
pub(super) struct Writer {
    lines: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

/// Keeps the log; when it is dropped, everything is written.
#[derive(Debug)]
pub struct Writing {
    lines: SyncSender<Message>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

impl Writer {
    pub(super) fn start(to: impl Write + Send + 'static, is_json: bool) -> (Self, Writing) {
        let (lines, received) = sync_channel(LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        // Without its thread nothing is written, and nothing else suffers.
        let _ = thread::Builder::new()
            .name("semel-log".to_owned())
            .spawn(move || run(&received, to, &counted, is_json));
        (Self { lines: lines.clone(), lost }, Writing { lines })
    }

    pub(super) fn write(&self, line: String) {
        if self.lines.try_send(Message::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn run(received: &Receiver<Message>, mut to: impl Write, lost: &AtomicU64, is_json: bool) {
    let mut batch = Vec::with_capacity(BATCH_BYTES_MAX);
    while let Ok(first) = received.recv() {
        let mut ends = Vec::new();
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Line(line) => batch.extend_from_slice(line.as_bytes()),
                Message::End(told) => ends.push(told),
            }
            next = if batch.len() < BATCH_BYTES_MAX { received.try_recv().ok() } else { None };
        }
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            lines => batch.extend_from_slice(Line::lost(is_json, lines).as_bytes()),
        }
        // Nobody could be told.
        let _ = to.write_all(&batch).and_then(|()| to.flush());
        batch.clear();
        for told in ends {
            let _ = told.try_send(());
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let (told, ended) = sync_channel(1);
        let mut message = Message::End(told);
        let step = Duration::from_millis(10);
        for _ in 0..(END_MAX.as_millis() / step.as_millis()) {
            match self.lines.try_send(message) {
                Ok(()) => {
                    // Written, or nobody reads: either way this is the end.
                    let _ = ended.recv_timeout(END_MAX);
                    return;
                }
                Err(TrySendError::Full(back)) => {
                    message = back;
                    thread::sleep(step);
                }
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_is_written_before_the_end() {
        let written = Shared::default();
        let (writer, writing) = Writer::start(written.clone(), false);
        for n in 0..1_000 {
            writer.write(format!("{n}\n"));
        }
        drop(writing);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(text.lines().eq((0..1_000).map(|n| n.to_string())), "{text}");
    }

    /// Writes nothing until it is let.
    struct Stuck(Receiver<()>, Shared);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // Once the test has let go of it, everything flows.
            let _ = self.0.recv();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_nobody_reads_stops_nobody_and_says_what_it_lost() {
        let written = Shared::default();
        let (let_it, let_in) = sync_channel(1);
        let (writer, writing) = Writer::start(Stuck(let_in, written.clone()), true);
        // As many as fit into the queue and into what is being written, and more.
        for n in 0..2 * (LINES_MAX + BATCH_BYTES_MAX) {
            writer.write(format!("{n}\n"));
        }
        assert!(writer.lost.load(Ordering::Relaxed) > 0);
        drop(let_it);
        drop(writing);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("0\n1\n"), "{}", &text[..40]);
        assert!(text.contains("\"event\":\"log lines lost\",\"lines\":"));
    }
}
