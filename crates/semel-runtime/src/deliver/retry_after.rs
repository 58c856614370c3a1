//! `Retry-After`: when to come again.

use http::HeaderValue;
use semel_core::time::Timestamp;
use std::time::{Duration, UNIX_EPOCH};

/// Longest delay that a target can ask for; the function's policy has the last word.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(7 * 24);

/// How long a target asks to be left alone: seconds, or until a date. `None` if it cannot be read.
pub(crate) fn retry_after(value: &HeaderValue, now: Timestamp) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    let delay = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has is a long time.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        date.duration_since(UNIX_EPOCH).ok()?.saturating_sub(now.since(Timestamp::EPOCH))
    };
    Some(delay.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1994-11-06 08:49:37.
    const NOW: Timestamp = Timestamp::from_millis(784_111_777_000);

    fn check(value: &str, expected: Option<u64>) {
        let value = HeaderValue::from_str(value).unwrap();
        assert_eq!(retry_after(&value, NOW), expected.map(Duration::from_secs), "{value:?}");
    }

    #[test]
    fn seconds_and_dates_are_read() {
        check("0", Some(0));
        check("120", Some(120));
        check(" 007 ", Some(7));
        check("Sun, 06 Nov 1994 08:50:37 GMT", Some(60));
        check("Sunday, 06-Nov-94 08:50:37 GMT", Some(60));
        check("Sun Nov  6 08:50:37 1994", Some(60));
    }

    #[test]
    fn the_past_is_now() {
        check("Sun, 06 Nov 1994 08:49:36 GMT", Some(0));
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
    }

    #[test]
    fn a_delay_is_never_longer_than_the_longest() {
        let longest = Some(RETRY_AFTER_MAX.as_secs());
        check("604801", longest);
        check("1000000000000000000", longest);
        check(&"9".repeat(100), longest);
        check("Fri, 31 Dec 9999 23:59:59 GMT", longest);
    }

    #[test]
    fn anything_else_says_nothing() {
        for value in
            ["", "-1", "+5", "1.5", "0x10", "5 seconds", "tomorrow", "1e3", "Sun, 99 Nov 1994 08:50:37 GMT"]
        {
            check(value, None);
        }
    }
}
