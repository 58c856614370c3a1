//! One event as one line.
//!
//! 1. Text: the time, the level, what happened, and `name=value` for each field. A value that is not plain is quoted,
//!    and everything in it that is no visible character is escaped.
//! 2. JSON: one object with `time`, `level`, `event`, and the fields.

use semel_core::sabotage;
use std::{
    fmt::{self, Write as _},
    time::{SystemTime, UNIX_EPOCH},
};
use tracing::{
    Level,
    field::{Field, Visit},
};

/// Longest value of a field, in characters; what is longer is cut.
pub(crate) const VALUE_CHARS_MAX: usize = 512;

/// A line that is being written.
pub(super) struct Line {
    is_json: bool,
    head: String,
    /// What happened.
    event: String,
    fields: String,
}

impl Line {
    pub(super) fn new(is_json: bool, level: Level) -> Self {
        let time = moment(SystemTime::now());
        let head = if is_json {
            format!("{{\"time\":\"{time}\",\"level\":\"{}\"", level.as_str().to_ascii_lowercase())
        } else {
            format!("{time} {level:>5} ")
        };
        Self { is_json, head, event: String::new(), fields: String::with_capacity(160) }
    }

    /// That so many lines were lost.
    pub(super) fn lost(is_json: bool, lines: u64) -> String {
        let mut line = Self::new(is_json, Level::WARN);
        "log lines lost".clone_into(&mut line.event);
        line.name("lines");
        line.fields.push_str(&lines.to_string());
        line.finish()
    }

    /// The whole line, with its end.
    pub(super) fn finish(self) -> String {
        let Self { is_json, mut head, event, fields } = self;
        if is_json {
            head.push_str(",\"event\":");
            quote(&mut head, &event);
            head.push_str(&fields);
            head.push_str("}\n");
        } else {
            escape(&mut head, &event);
            head.push_str(&fields);
            head.push('\n');
        }
        head
    }

    fn name(&mut self, name: &str) {
        // Nothing fails to be written to a string.
        let _ =
            if self.is_json { write!(self.fields, ",\"{name}\":") } else { write!(self.fields, " {name}=") };
    }

    fn text(&mut self, field: &Field, value: &str) {
        match field.name() {
            "key" if !sabotage::is_on("log_shows_keys") => {}
            "message" => cut(value).clone_into(&mut self.event),
            name => {
                self.name(name);
                let value = cut(value);
                if self.is_json || !is_plain(value) {
                    quote(&mut self.fields, value);
                } else {
                    self.fields.push_str(value);
                }
            }
        }
    }

    fn number(&mut self, field: &Field, value: impl fmt::Display) {
        self.name(field.name());
        let _ = write!(self.fields, "{value}");
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.number(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.number(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON knows no others.
        if value.is_finite() {
            self.number(field, value);
        }
    }
}

/// The beginning of a value that is too long.
fn cut(value: &str) -> &str {
    value.char_indices().nth(VALUE_CHARS_MAX).map_or(value, |(at, _)| &value[..at])
}

/// Whether a value can stand without quotes.
fn is_plain(value: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"/_.:+-[]*{}".contains(&it);
    !value.is_empty() && value.bytes().all(is_plain)
}

fn quote(to: &mut String, value: &str) {
    to.push('"');
    escape(to, value);
    to.push('"');
}

/// As it stands inside of quotes, in JSON and in text alike.
fn escape(to: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            it if it.is_control() || is_turning(it) => {
                let mut units = [0; 2];
                for unit in it.encode_utf16(&mut units) {
                    let _ = write!(to, "\\u{unit:04x}");
                }
            }
            it => to.push(it),
        }
    }
}

/// Characters that change the direction of writing, or that nobody sees.
const fn is_turning(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A moment of UTC, to the millisecond: `2026-11-16T01:45:07.123Z`.
pub(crate) fn moment(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date of a day since 1970, by the calendar that repeats every 400 years.
fn civil(day: u64) -> (u64, u64, u64) {
    // Years that begin in March end with the day that comes and goes.
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day_of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day_of_year - (153 * march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments_are_dates() {
        let at = |seconds: u64| moment(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_709_164_799), "2024-02-28T23:59:59.000Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59.000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000Z");
        assert_eq!(moment(UNIX_EPOCH + Duration::from_millis(1_794_793_507_123)), "2026-11-16T01:45:07.123Z");
    }

    #[test]
    fn nothing_from_outside_ends_a_line_or_moves_a_cursor() {
        for hostile in [
            "a\nb",
            "a\r\nb",
            "\u{1b}[2J",
            "\u{202e}gpj.exe",
            "\0",
            "\u{9b}1m",
            "\u{2028}",
            "\u{feff}",
            "\"\\",
        ] {
            let mut escaped = String::new();
            quote(&mut escaped, hostile);
            assert!(escaped.chars().all(|it| !it.is_control() && !is_turning(it)), "{escaped:?}");
            assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), hostile);
        }
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        assert_eq!(cut(&"ä".repeat(VALUE_CHARS_MAX + 1)), "ä".repeat(VALUE_CHARS_MAX));
        assert_eq!(cut("short"), "short");
    }
}
