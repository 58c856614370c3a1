//! The log: one line for each event, as text or as JSON.
//!
//! 1. Only Semel's own events are written, and of the library's own those that an operator should see. What drivers and
//!    other crates say is left out: it may contain what was sent.
//! 2. A field called `key` is never written: an idempotency key is a secret of its caller.
//! 3. What comes from outside is escaped: no event can forge another line, or move a cursor.
//! 4. Lines are written by a thread of their own. Where nobody reads them, they are counted and left out rather than
//!    waited for; the log says how many when it can.
//!
//! It does not keep spans, and it does not rotate files: it writes to standard error.

mod line;
mod writer;

pub(crate) use line::moment;
pub use writer::Writing;

use line::Line;
use std::io::Write;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::{Layer, layer::Context, prelude::*, registry::LookupSpan};
use writer::Writer;

/// How events are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For people.
    Text,
    /// For machines: one object a line.
    Json,
    /// Not at all.
    Off,
}

impl Format {
    /// As it is written in the configuration.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "off" => Ok(Self::Off),
            _ => Err("`text`, `json` or `off`".to_owned()),
        }
    }
}

/// Begins to write to standard error, for the rest of the process. What it gives must be kept, and dropped at the end.
pub fn start(format: Format) -> Option<Writing> {
    let is_json = match format {
        Format::Off => return None,
        Format::Text => false,
        Format::Json => true,
    };
    let (writer, writing) = Writer::start(std::io::stderr(), is_json);
    let subscriber = tracing_subscriber::registry().with(Lines { writer, is_json });
    // A second call in one process keeps the first one's log.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Some(writing)
}

/// Writes events as lines.
struct Lines {
    writer: Writer,
    is_json: bool,
}

/// Whether an event of this kind is written.
fn is_wanted(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let is_own = target == "semel_server" || target.starts_with("semel_server::") || target == "semel::audit";
    let is_runtime = target == "semel_runtime" || target.starts_with("semel_runtime::");
    let level_max = match () {
        () if is_own => Level::INFO,
        () if target == "semel" || is_runtime => Level::WARN,
        () => return false,
    };
    !metadata.is_span() && *metadata.level() <= level_max
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        is_wanted(metadata)
    }

    fn max_level_hint(&self) -> Option<tracing_subscriber::filter::LevelFilter> {
        Some(tracing_subscriber::filter::LevelFilter::INFO)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::new(self.is_json, *event.metadata().level());
        event.record(&mut line);
        self.writer.write(line.finish());
    }
}

/// Writes one line at once, past the thread: for the last words of a process.
pub(crate) fn say(text: &str) {
    // Nobody is left to be told that standard error is gone.
    let _ = writeln!(std::io::stderr(), "{text}");
}
