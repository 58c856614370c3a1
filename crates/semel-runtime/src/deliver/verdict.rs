//! What an answer means for its event.
//!
//! 1. The function's own word goes first: `Semel-Outcome`.
//! 2. Else the status decides, by the function's [`Preset`].
//! 3. No whole answer means that nobody knows, and an event of which nobody knows is sent again. So is one whose answer
//!    has a status that HTTP does not have.
//! 4. A target that the guard refused stays refused until somebody changes something: fatal.
//! 5. The body of a successful answer is the result. What is longer than is read is a success without a result.
//!
//! It does not decide when to retry, nor how often: see [`semel_core::retry`].

use super::{Answer, Outcome, Stage, Status, Trouble, retry_after::retry_after, trouble::clean};
use http::StatusCode;
use semel_core::{sabotage, time::Timestamp};
use std::{fmt, str::FromStr, time::Duration};

/// How much of a body is quoted in an error, in bytes.
pub const ERROR_BODY_BYTES_MAX: usize = 1024;

/// What an answer means.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Verdict {
    /// The event took effect.
    Done(Status),
    /// It did not, and may another time.
    Retry {
        /// What happened, in a line.
        error: String,
        /// How long the target asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// It did not, and never will.
    Fatal {
        /// What happened, in a line.
        error: String,
    },
    /// The target is gone, and wants no more events.
    StopFunction {
        /// What happened, in a line.
        error: String,
    },
}

/// Which answers are retried: as somebody else's system does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Preset {
    /// Semel's own: Knative's, with every other 4xx fatal.
    #[default]
    Default,
    /// Google Pub/Sub push: everything but five statuses is retried.
    PubSub,
    /// Knative Eventing.
    Knative,
    /// Google Eventarc.
    Eventarc,
    /// Standard Webhooks: everything but 2xx is retried, and 410 stops the function.
    StandardWebhooks,
}

/// A preset that nobody knows.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no such preset: `default`, `pubsub`, `knative`, `eventarc` or `standard-webhooks`")]
pub struct UnknownPreset;

impl Preset {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Default, Self::PubSub, Self::Knative, Self::Eventarc, Self::StandardWebhooks];

    /// As written in configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::PubSub => "pubsub",
            Self::Knative => "knative",
            Self::Eventarc => "eventarc",
            Self::StandardWebhooks => "standard-webhooks",
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(text: &str) -> Result<Self, UnknownPreset> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == text).ok_or(UnknownPreset)
    }
}

/// What an answer means.
///
/// ```
/// use http::StatusCode;
/// use semel_core::time::Timestamp;
/// use semel_runtime::deliver::{Answer, Preset, Status, Verdict, verdict};
///
/// let gone = Answer::Status(Status::of(StatusCode::GONE));
/// let means = verdict(gone, Preset::StandardWebhooks, Timestamp::EPOCH);
/// assert_eq!(means, Verdict::StopFunction { error: "answered 410 Gone".into() });
/// ```
pub fn verdict(answer: Answer, preset: Preset, now: Timestamp) -> Verdict {
    match answer {
        Answer::Status(status) => of_status(status, preset, now),
        Answer::NotSent(cause) if cause.trouble == Trouble::Blocked => {
            Verdict::Fatal { error: cause.to_string() }
        }
        Answer::NotSent(cause) | Answer::Broken(cause) => again(cause.to_string()),
        Answer::TimedOut(Stage::Head) => again("no answer in time".into()),
        Answer::TimedOut(Stage::Body) => again("no whole answer in time".into()),
    }
}

fn again(error: String) -> Verdict {
    Verdict::Retry { error, retry_after: None }
}

fn of_status(status: Status, preset: Preset, now: Timestamp) -> Verdict {
    let said = status.outcome.filter(|_| !sabotage::is_on("outcome_header_ignored"));
    let class = said.map_or_else(|| preset.class(status.code), Class::from);
    if class == Class::Done {
        return Verdict::Done(status);
    }
    let error = told(&status);
    match class {
        Class::Done | Class::Fatal => Verdict::Fatal { error },
        Class::Stop => Verdict::StopFunction { error },
        Class::Retry => {
            let retry_after = status.retry_after.and_then(|value| retry_after(&value, now));
            Verdict::Retry { error, retry_after }
        }
    }
}

/// `answered 503 Service Unavailable: try later`.
fn told(status: &Status) -> String {
    let beginning = &status.body[..status.body.len().min(ERROR_BODY_BYTES_MAX)];
    let text = clean(&String::from_utf8_lossy(beginning));
    let code = status.code.as_u16();
    let reason = status.code.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    if text.is_empty() {
        format!("answered {code}{reason}")
    } else {
        format!("answered {code}{reason}: {text}")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Done,
    Retry,
    Fatal,
    Stop,
}

impl From<Outcome> for Class {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Retry => Self::Retry,
            Outcome::Fatal => Self::Fatal,
        }
    }
}

impl Preset {
    const fn class(self, code: StatusCode) -> Class {
        let code = code.as_u16();
        match self {
            Self::PubSub => match code {
                102 | 200 | 201 | 202 | 204 => Class::Done,
                _ => Class::Retry,
            },
            Self::StandardWebhooks => match code {
                200..=299 => Class::Done,
                410 => Class::Stop,
                _ => Class::Retry,
            },
            Self::Default | Self::Knative => match code {
                200..=299 => Class::Done,
                404 | 408 | 409 | 429 => Class::Retry,
                300..=499 => Class::Fatal,
                _ => Class::Retry,
            },
            Self::Eventarc => match code {
                200..=299 => Class::Done,
                408 | 409 | 429 | 500 | 502 | 503 | 504 => Class::Retry,
                300..=599 => Class::Fatal,
                _ => Class::Retry,
            },
        }
    }
}

#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;
