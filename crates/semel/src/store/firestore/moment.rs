//! Moments as Google's JSON writes them: `2026-11-15T23:37:09.389739Z`.
//!
//! It does not read offsets other than `Z`, which Google's JSON never has, nor years beyond 9999.

/// Microseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1_000_000;
/// The first moment that is written with five digits of year, in microseconds since the epoch.
const END: u64 = 253_402_300_800_000_000;

/// A moment in microseconds since the epoch, as text; `None` beyond the year 9999.
pub(super) fn written(micros: u64) -> Option<String> {
    if micros >= END {
        return None;
    }
    let (year, month, day) = date_of(micros / DAY);
    let (seconds, micros) = (micros % DAY / 1_000_000, micros % 1_000_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"))
}

/// Reads a moment back; `None` if it is none, lies before the epoch, or is finer than a microsecond, since then it
/// could not be told from its neighbours.
pub(super) fn read(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':')?;
    let is_time = hour < 24 && minute < 60 && second < 60;
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_time || !is_date {
        return None;
    }
    let seconds = days_before(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(seconds * 1_000_000 + micros(fraction)?)
}

fn numbers<const N: usize>(text: &str, separator: char) -> Option<[u64; N]> {
    let parts: Option<Vec<u64>> = text.split(separator).map(digits).collect();
    parts?.try_into().ok()
}

/// A number of plain digits: Rust would take a sign, too.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A fraction of a second in microseconds.
fn micros(fraction: &str) -> Option<u64> {
    let nanos =
        digits(fraction)? * 10_u64.checked_pow(9_u32.checked_sub(fraction.len().try_into().ok()?)?)?;
    (nanos % 1_000 == 0).then_some(nanos / 1_000)
}

/// Days from the epoch to this date of the Gregorian calendar. Years begin in March here, so that the day that
/// some of them have more is their last.
fn days_before(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

/// The date so many days after the epoch: year, month, day.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_and_read() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1, "1970-01-01T00:00:00.000001Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_794_785_829_389_739, "2026-11-15T23:37:09.389739Z"),
            (4_107_542_399_999_999, "2100-02-28T23:59:59.999999Z"),
            (END - 1, "9999-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(written(micros).as_deref(), Some(text));
            assert_eq!(read(text), Some(micros), "{text}");
        }
        assert_eq!(written(END), None);
    }

    #[test]
    fn every_day_of_four_centuries_comes_back_and_follows_the_one_before() {
        let mut last = String::new();
        for day in 0..146_097 {
            let text = written(day * DAY).expect("before the year 9999");
            assert_eq!(read(&text), Some(day * DAY), "{text}");
            assert!(last < text, "{last} and then {text}");
            last = text;
        }
    }

    #[test]
    fn fractions_may_be_short_and_not_finer_than_a_microsecond() {
        for (fraction, micros) in [("", Some(0)), (".5", Some(500_000)), (".123456000", Some(123_456))] {
            assert_eq!(read(&format!("1970-01-01T00:00:00{fraction}Z")), micros);
        }
        assert_eq!(read("1970-01-01T00:00:00.123456789Z"), None);
    }

    #[test]
    fn what_is_no_moment_is_not_read() {
        for text in [
            "",
            "Z",
            "1970-01-01",
            "1970-01-01T00:00:00+01:00",
            "1969-12-31T23:59:59Z",
            "1970-13-01T00:00:00Z",
            "1970-01-00T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:+1Z",
            "10000-01-01T00:00:00Z",
            "1970-01-01T00:00:00.0000000000Z",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
