//! When something happened, as senders write it: RFC 3339.
//!
//! 1. The text is kept as it was sent, and goes out as it came in.
//! 2. The moment is read from it, to the millisecond. What was before 1970 counts as 1970: the moment is compared
//!    with limits, and both are long past them.
//! 3. A leap second is read as the moment after it.
//!
//! It knows no time zones but offsets, and corrects nothing: the 30th of February is refused.

use semel_core::time::Timestamp;

/// Longest time as text, in bytes. Longer ones have digits that no clock has.
pub const TIME_BYTES_MAX: usize = 40;

const SECONDS_A_DAY: i64 = 86_400;
/// 9999-12-31T23:59:59Z.
const SECONDS_MAX: i64 = 253_402_300_799;

/// When an event happened, and how its sender wrote it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EventTime {
    text: Box<str>,
    at: Timestamp,
}

impl EventTime {
    /// Reads an RFC 3339 text such as `2026-11-16T04:44:31.250Z`.
    ///
    /// ```
    /// use semel_events::event::EventTime;
    /// let time = EventTime::parse("2018-04-05T19:31:00+02:00").expect("RFC 3339");
    /// assert_eq!(time.at().as_millis(), 1_522_949_460_000);
    /// assert_eq!(time.text(), "2018-04-05T19:31:00+02:00");
    /// assert!(EventTime::parse("yesterday").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() <= TIME_BYTES_MAX).then_some(())?;
        let millis = millis(text.as_bytes())?;
        let at = Timestamp::from_millis(u64::try_from(millis).unwrap_or(0));
        Some(Self { text: text.into(), at })
    }

    /// The moment so many seconds after 1970, written as RFC 3339; nothing after the year 9999.
    ///
    /// ```
    /// use semel_events::event::EventTime;
    /// assert_eq!(EventTime::from_unix_seconds(951_827_696).expect("it is near").text(), "2000-02-29T12:34:56Z");
    /// ```
    pub fn from_unix_seconds(seconds: u64) -> Option<Self> {
        let seconds = i64::try_from(seconds).ok().filter(|it| *it <= SECONDS_MAX)?;
        let (year, month, day) = date(seconds / SECONDS_A_DAY);
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        Self::parse(&format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
    }

    /// As it was sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The moment.
    pub const fn at(&self) -> Timestamp {
        self.at
    }
}

/// Milliseconds since 1970 of an RFC 3339 text.
fn millis(text: &[u8]) -> Option<i64> {
    let [
        y0,
        y1,
        y2,
        y3,
        b'-',
        m0,
        m1,
        b'-',
        d0,
        d1,
        b'T' | b't',
        h0,
        h1,
        b':',
        n0,
        n1,
        b':',
        s0,
        s1,
        rest @ ..,
    ] = text
    else {
        return None;
    };
    let year = number(&[*y0, *y1, *y2, *y3])?;
    let month = number(&[*m0, *m1]).filter(|it| (1..=12).contains(it))?;
    let day = number(&[*d0, *d1]).filter(|it| (1..=days_in(year, month)).contains(it))?;
    let hour = number(&[*h0, *h1]).filter(|it| *it < 24)?;
    let minute = number(&[*n0, *n1]).filter(|it| *it < 60)?;
    let second = number(&[*s0, *s1]).filter(|it| *it <= 60)?;
    let (fraction, zone) = fraction(rest)?;
    let seconds = days_since_1970(year, month, day) * SECONDS_A_DAY + hour * 3_600 + minute * 60 + second;
    Some((seconds - offset(zone)?) * 1_000 + fraction)
}

/// The number that these digits write.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, it| it.is_ascii_digit().then(|| number * 10 + i64::from(it - b'0')))
}

/// Milliseconds of the part behind the seconds, and what follows it.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let length = rest.iter().take_while(|it| it.is_ascii_digit()).count();
    let (digits, zone) = rest.split_at(length);
    let three = [0, 1, 2].map(|it| digits.get(it).copied().unwrap_or(b'0'));
    (length > 0).then_some(())?;
    Some((number(&three)?, zone))
}

/// Seconds that the zone is ahead of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] => {
            let hours = number(&[*h0, *h1]).filter(|it| *it < 24)?;
            let minutes = number(&[*m0, *m1]).filter(|it| *it < 60)?;
            let seconds = hours * 3_600 + minutes * 60;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to this day of the Gregorian calendar, by eras of 400 years that begin in March.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The other way round: year, month and day.
const fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, millis: Option<u64>) {
        assert_eq!(EventTime::parse(text).map(|it| it.at().as_millis()), millis, "{text}");
    }

    #[test]
    fn a_moment_is_read_to_the_millisecond() {
        check("1970-01-01T00:00:00Z", Some(0));
        check("2018-04-05T17:31:00Z", Some(1_522_949_460_000));
        check("2018-04-05t17:31:00.5z", Some(1_522_949_460_500));
        check("2018-04-05T17:31:00.1239999Z", Some(1_522_949_460_123));
        check("2018-04-05T19:31:00+02:00", Some(1_522_949_460_000));
        check("2018-04-05T16:01:00-01:30", Some(1_522_949_460_000));
        check("2000-02-29T00:00:00Z", Some(951_782_400_000));
        check("2016-12-31T23:59:60Z", Some(1_483_228_800_000));
        check("9999-12-31T23:59:59Z", Some(253_402_300_799_000));
        check("0000-01-01T00:00:00Z", Some(0));
        check("1969-12-31T23:59:59Z", Some(0));
    }

    #[test]
    fn seconds_are_written_as_they_are_read() {
        let seconds = (0..SECONDS_MAX as u64).step_by(86_400 * 13 + 1_234_567);
        for seconds in seconds.chain([0, 951_827_696, SECONDS_MAX as u64]) {
            let time = EventTime::from_unix_seconds(seconds).unwrap();
            assert_eq!(time.at().as_millis(), seconds * 1_000, "{}", time.text());
        }
        for seconds in [SECONDS_MAX as u64 + 1, 1_000_000_000_000_000_000, u64::MAX] {
            assert_eq!(EventTime::from_unix_seconds(seconds), None, "{seconds}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        let long = format!("2018-04-05T17:31:00.{}Z", "1".repeat(40));
        let bad = [
            "",
            "yesterday",
            "2018-04-05",
            "2018-04-05T17:31Z",
            "2018-04-05 17:31:00Z",
            "2018-04-05T17:31:00",
            "2018-13-05T17:31:00Z",
            "2018-02-30T17:31:00Z",
            "1900-02-29T00:00:00Z",
            "2018-04-05T24:00:00Z",
            "2018-04-05T17:60:00Z",
            "2018-04-05T17:31:61Z",
            "2018-04-05T17:31:00.Z",
            "2018-04-05T17:31:00+0200",
            "2018-04-05T17:31:00+24:00",
            "-0001-04-05T17:31:00Z",
            "+2018-04-05T17:31:00Z",
            "12018-04-05T17:31:00Z",
            "2018-04-05T17:31:00Z ",
            "２018-04-05T17:31:00Z",
            &long,
        ];
        for text in bad {
            check(text, None);
        }
    }
}
