//! The knobs of a retry policy, and what each may be set to.

use std::{iter, time::Duration};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

/// Shortest retry window.
pub const WINDOW_MIN: Duration = Duration::from_mins(10);
/// Longest retry window.
pub const WINDOW_MAX: Duration = Duration::from_hours(7 * 24);
/// Longest delay between two attempts by backoff, or because a function asked for it; but a schedule may have longer ones,
/// and then a function may ask for as long as its longest.
pub const DELAY_MAX: Duration = Duration::from_mins(10);
/// Longest delay in a schedule: as long as the longest window.
pub const SCHEDULE_DELAY_MAX: Duration = WINDOW_MAX;
/// Most delays in a schedule.
pub const SCHEDULE_ENTRIES_MAX: usize = 100;
/// Lowest limit of attempts.
pub const ATTEMPTS_MAX_LEAST: u32 = 5;
/// Highest limit of attempts.
pub const ATTEMPTS_MAX: u32 = 100;
/// Shortest timeout of an attempt.
pub const TIMEOUT_MIN: Duration = SECOND;
/// Longest timeout of an attempt.
pub const TIMEOUT_MAX: Duration = Duration::from_hours(1);
/// Shortest retention of a finished execution.
pub const RETENTION_MIN: Duration = MINUTE;
/// Longest retention of a finished execution.
pub const RETENTION_MAX: Duration = Duration::from_hours(10 * 365 * 24);

/// How long to wait between attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Backoff {
    /// Doubling, with jitter over the whole band from `min` to the doubled value.
    Exponential {
        /// The shortest delay.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Not at all.
    Immediate,
    /// These delays, one after the other, exactly; then the last one again and again.
    Schedule(Vec<Duration>),
}

impl Backoff {
    /// 10 s … 600 s.
    pub const DEFAULT: Self = Self::Exponential { min: Duration::from_secs(10), max: DELAY_MAX };

    /// The longest delay that a `Retry-After` can ask for.
    pub(super) fn longest(&self) -> Duration {
        match self {
            Self::Exponential { max, .. } => *max,
            Self::Immediate => DELAY_MAX,
            // Whoever lets a function rest for a day lets it ask for one. The window ends it all the same.
            Self::Schedule(delays) => delays.iter().copied().max().unwrap_or_default().max(DELAY_MAX),
        }
    }
}

/// When a function's failed attempts are made again. Every value in it was checked.
///
/// ```
/// use semel_core::retry::{Backoff, RetryPolicy};
/// use std::time::Duration;
/// let policy = RetryPolicy::gen2().with_window(Duration::from_hours(1))?.with_attempts_max(Some(20))?;
/// assert!(policy.is_on());
/// let error = policy.with_window(Duration::from_mins(1)).unwrap_err();
/// assert_eq!(error.to_string(), "`window` is 60s, but must be 600s … 604800s");
/// # Ok::<(), semel_core::retry::OutOfRange>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetryPolicy {
    is_on: bool,
    window: Duration,
    backoff: Backoff,
    attempts_max: Option<u32>,
    event_age_max: Option<Duration>,
    timeout: Duration,
    retention: Duration,
}

/// A knob was set to something it cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{knob}` is {value}, but must be {allowed}")]
pub struct OutOfRange {
    knob: &'static str,
    value: String,
    allowed: String,
}

impl OutOfRange {
    /// The knob, as written in a configuration.
    pub const fn knob(&self) -> &'static str {
        self.knob
    }
}

impl Default for RetryPolicy {
    /// Retry is off: one attempt, and what fails is dropped.
    fn default() -> Self {
        Self {
            is_on: false,
            window: DAY,
            backoff: Backoff::DEFAULT,
            attempts_max: None,
            event_age_max: None,
            timeout: MINUTE,
            retention: DAY * 7,
        }
    }
}

/// Presets.
impl RetryPolicy {
    /// As Cloud Functions of the first generation with retry on: 10 s … 600 s for seven days.
    pub fn gen1() -> Self {
        Self { is_on: true, window: WINDOW_MAX, ..Self::default() }
    }

    /// As Eventarc and Cloud Functions of the second generation with retry on: 10 s … 600 s for a day.
    pub fn gen2() -> Self {
        Self { is_on: true, ..Self::default() }
    }

    /// As a Pub/Sub subscription with backoff: 10 s … 600 s while the message is retained, seven days.
    pub fn pubsub() -> Self {
        Self { is_on: true, window: WINDOW_MAX, ..Self::default() }
    }

    /// As Standard Webhooks recommends: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h.
    pub fn standard_webhooks() -> Self {
        let minutes = [5, 30, 120, 300, 600, 840, 1_200, 1_440].map(Duration::from_mins);
        let delays = iter::once(SECOND * 5).chain(minutes).collect::<Vec<_>>();
        let attempts_max = u32::try_from(delays.len() + 1).ok();
        let backoff = Backoff::Schedule(delays);
        Self { is_on: true, window: WINDOW_MAX, backoff, attempts_max, ..Self::default() }
    }

    /// Again at once, for a day. Only the function's own pace slows it down.
    pub fn immediate() -> Self {
        Self { is_on: true, backoff: Backoff::Immediate, ..Self::default() }
    }
}

/// Knobs.
impl RetryPolicy {
    /// Whether a failed attempt is made again at all.
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// How long after the first attempt another may begin.
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// How long to wait between attempts.
    pub const fn backoff(&self) -> &Backoff {
        &self.backoff
    }

    /// Most attempts, if the window alone does not end it.
    pub const fn attempts_max(&self) -> Option<u32> {
        self.attempts_max
    }

    /// How old an event may be when an attempt begins.
    pub const fn event_age_max(&self) -> Option<Duration> {
        self.event_age_max
    }

    /// How long one attempt may take.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How long a finished execution is remembered.
    pub const fn retention(&self) -> Duration {
        self.retention
    }

    /// With retry switched on or off.
    #[must_use]
    pub fn with_retry(self, is_on: bool) -> Self {
        Self { is_on, ..self }
    }

    /// With another window: 10 min … 7 d.
    pub fn with_window(self, window: Duration) -> Result<Self, OutOfRange> {
        within("window", window, WINDOW_MIN, WINDOW_MAX)?;
        Ok(Self { window, ..self })
    }

    /// With another backoff, every delay of which is 0 … 600 s, or 0 … 7 d in a schedule.
    pub fn with_backoff(self, backoff: Backoff) -> Result<Self, OutOfRange> {
        match &backoff {
            Backoff::Immediate => {}
            Backoff::Exponential { min, max } => {
                within("backoff.max", *max, Duration::ZERO, DELAY_MAX)?;
                within("backoff.min", *min, Duration::ZERO, *max)?;
            }
            Backoff::Schedule(delays) => {
                within("backoff.schedule length", delays.len(), 1, SCHEDULE_ENTRIES_MAX)?;
                for delay in delays {
                    within("backoff.schedule", *delay, Duration::ZERO, SCHEDULE_DELAY_MAX)?;
                }
            }
        }
        Ok(Self { backoff, ..self })
    }

    /// With another limit of attempts: 5 … 100, or none.
    pub fn with_attempts_max(self, attempts_max: Option<u32>) -> Result<Self, OutOfRange> {
        if let Some(it) = attempts_max {
            within("attempts_max", it, ATTEMPTS_MAX_LEAST, ATTEMPTS_MAX)?;
        }
        Ok(Self { attempts_max, ..self })
    }

    /// With another limit of the event's age: any, or none.
    #[must_use]
    pub fn with_event_age_max(self, event_age_max: Option<Duration>) -> Self {
        Self { event_age_max, ..self }
    }

    /// With another timeout: 1 s … 60 min.
    pub fn with_timeout(self, timeout: Duration) -> Result<Self, OutOfRange> {
        within("timeout", timeout, TIMEOUT_MIN, TIMEOUT_MAX)?;
        Ok(Self { timeout, ..self })
    }

    /// With another retention: 1 min … 10 years.
    pub fn with_retention(self, retention: Duration) -> Result<Self, OutOfRange> {
        within("retention", retention, RETENTION_MIN, RETENTION_MAX)?;
        Ok(Self { retention, ..self })
    }
}

fn within<T>(knob: &'static str, value: T, least: T, most: T) -> Result<(), OutOfRange>
where
    T: PartialOrd + Copy + std::fmt::Debug,
{
    if least <= value && value <= most {
        return Ok(());
    }
    Err(OutOfRange { knob, value: format!("{value:?}"), allowed: format!("{least:?} … {most:?}") })
}
