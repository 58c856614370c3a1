//! What people read: tables, moments, durations, numbers.
//!
//! 1. Columns are aligned and need no colour. The last one is as long as it is.
//! 2. What comes from outside cannot move a cursor, end a line or turn the direction of writing.

use crate::api::shape::Moment;
use std::{fmt::Write as _, time::Duration};

/// Longest cell but the last, in characters.
const CELL_CHARS_MAX: usize = 48;
/// Longest last cell, in characters.
const LAST_CHARS_MAX: usize = 160;

/// Rows of text, aligned.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these titles.
    pub(super) fn new(titles: &[&str]) -> Self {
        Self { rows: vec![titles.iter().map(|it| (*it).to_owned()).collect()] }
    }

    /// With one more row.
    pub(super) fn add(&mut self, cells: Vec<String>) {
        let last = cells.len().saturating_sub(1);
        let cut = |(place, cell): (usize, String)| {
            shortened(&clean(&cell), if place == last { LAST_CHARS_MAX } else { CELL_CHARS_MAX })
        };
        self.rows.push(cells.into_iter().enumerate().map(cut).collect());
    }

    /// Whether there are only titles.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// As lines.
    pub(super) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column| {
            self.rows.iter().filter_map(|it| it.get(column)).map(|it: &String| it.chars().count()).max()
        };
        let widths: Vec<_> = (0..columns).map(|it| width(it).unwrap_or_default()).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Text from outside that does nothing to a terminal.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let is_turning = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if character.is_control() || is_turning {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// The beginning of a text that is too long.
pub(super) fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

/// A moment, to the second.
pub(super) fn moment(at: Moment) -> String {
    let text = at.text();
    format!("{} {}", &text[..10], &text[11..19])
}

/// How long something took, in two units at most.
pub(super) fn lasting(time: Duration) -> String {
    let millis = time.as_millis();
    if millis < 1_000 {
        return format!("{millis} ms");
    }
    let mut rest = time.as_secs();
    let mut text = String::new();
    for (unit, size) in [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)] {
        if (rest >= size || unit == "s" && text.is_empty()) && text.split(' ').count() < 4 {
            if !text.is_empty() {
                text.push(' ');
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "{} {unit}", rest / size);
            rest %= size;
        }
    }
    text
}

/// So many bytes, in the unit that has the fewest digits.
pub(super) fn bytes(bytes: u64) -> String {
    let mut scaled = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if scaled < 1_024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{scaled:.1} {unit}") };
        }
        scaled /= 1_024.0;
    }
    format!("{scaled:.1} TiB")
}

/// So many of something.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A number with commas.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_threes() {
        let all = [0, 999, 1_000, 10_000, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "999", "1,000", "10,000", "1,234,567"]);
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["NAME", "COUNT"]);
        table.add(vec!["a".to_owned(), "1".to_owned()]);
        table.add(vec!["longer".to_owned(), "22".to_owned()]);
        assert_eq!(table.text(), "NAME    COUNT\na       1\nlonger  22\n");
    }

    /// Hostile 38.
    #[test]
    fn nothing_from_outside_moves_the_cursor() {
        for hostile in ["a\nb", "\u{1b}[2J", "\u{202e}gpj.exe", "\0", "\u{9b}1m", "\u{feff}"] {
            let clean = clean(hostile);
            assert!(clean.chars().all(|it| it.is_ascii_graphic()), "{clean:?}");
        }
        assert_eq!(clean("Größe 5"), "Größe 5");
    }

    #[test]
    fn sizes_have_few_digits() {
        for (size, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (5 << 19, "2.5 MiB"),
            (46 << 30, "46.0 GiB"),
            (3 << 50, "3072.0 TiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn times_have_two_units() {
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (61_000, "1 min 1 s"),
            (3_600_000, "1 h"),
            (90_061_000, "1 d 1 h"),
        ] {
            assert_eq!(lasting(Duration::from_millis(millis)), text);
        }
    }
}
