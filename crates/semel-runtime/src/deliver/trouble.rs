//! What can go wrong on the way, in few words.

use super::guard::Refusal;
use std::{error::Error as StdError, fmt, io};

/// Longest detail of a cause, in bytes.
pub const DETAIL_BYTES_MAX: usize = 256;

/// What went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Trouble {
    /// The guard refused the target.
    #[error("the target is blocked")]
    Blocked,
    /// The name of the host has no address.
    #[error("the host has no address")]
    Unresolved,
    /// Nobody listens, or the way there is closed.
    #[error("no connection could be made")]
    Unconnected,
    /// This machine has nothing left to make a connection with: descriptors, memory or ports. It says nothing of the target.
    #[error("this machine has nothing left to make a connection with")]
    Exhausted,
    /// No connection in time.
    #[error("no connection could be made in time")]
    ConnectTooLate,
    /// The target could not prove who it is, or speaks no encryption that is safe.
    #[error("the connection could not be encrypted")]
    Unencrypted,
    /// A connection of the pool was closed before it took the request.
    #[error("the connection was closed before anything was sent")]
    Stale,
    /// The target refused the request unseen, as HTTP/2 lets it: it has too much to do.
    #[error("the target refused the request before it looked at it")]
    Refused,
    /// The connection ended before the answer did.
    #[error("the connection ended before the answer did")]
    Closed,
    /// The answer is not HTTP, or its head is too large.
    #[error("the answer cannot be read")]
    Malformed,
}

impl Trouble {
    /// As in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Unresolved => "unresolved",
            Self::Unconnected => "unconnected",
            Self::Exhausted => "exhausted",
            Self::ConnectTooLate => "connect_too_late",
            Self::Unencrypted => "unencrypted",
            Self::Stale => "stale",
            Self::Refused => "refused",
            Self::Closed => "closed",
            Self::Malformed => "malformed",
        }
    }
}

/// What went wrong, and what the machine said about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// What went wrong.
    pub trouble: Trouble,
    /// What the machine said; may be empty. Never a URL, a header or a body.
    pub detail: String,
}

impl Cause {
    /// Trouble about which the machine said this.
    pub fn new(trouble: Trouble, detail: impl fmt::Display) -> Self {
        let mut detail = detail.to_string();
        detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
        Self { trouble, detail: clean(&detail) }
    }

    /// What the guard refused.
    pub(super) fn blocked(refusal: Refusal) -> Self {
        Self::new(Trouble::Blocked, refusal)
    }

    /// What the machine said about a connection that it could not make, or a name that it could not look up.
    pub(super) fn from_machine(trouble: Trouble, error: &io::Error) -> Self {
        Self::from_error(if is_exhaustion(error) { Trouble::Exhausted } else { trouble }, error)
    }

    /// Trouble, with the innermost of the errors that led to it.
    pub(super) fn from_error(trouble: Trouble, error: &(dyn StdError + 'static)) -> Self {
        let innermost = chain(error).last().expect("a chain has at least its beginning");
        Self::new(trouble, innermost)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trouble.fmt(f)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl StdError for Cause {}

/// Whether an error of the machine means that it has run out of what every connection needs: nothing was tried.
pub(super) fn is_exhaustion(error: &io::Error) -> bool {
    // Neither has a kind of its own; their numbers are the same on every Unix.
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = if cfg!(target_os = "linux") { 105 } else { 55 };
    error.kind() == io::ErrorKind::OutOfMemory
        || matches!(error.raw_os_error(), Some(ENFILE | EMFILE | ENOBUFS))
}

/// An error and everything that led to it.
pub(super) fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Text without what would move a cursor or forge a line.
pub(super) fn clean(text: &str) -> String {
    let printable = |c: char| if c.is_control() || is_direction(c) { ' ' } else { c };
    text.trim().chars().map(printable).collect()
}

/// Marks that turn the direction of what follows.
const fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_short_and_cannot_forge_a_line() {
        let cause = Cause::new(Trouble::Closed, format!("a\r\nb\u{1b}[31m\u{202e}{}", "é".repeat(1_000)));
        assert!(cause.detail.len() <= DETAIL_BYTES_MAX);
        assert!(cause.detail.starts_with("a  b [31m é"), "{}", cause.detail);
    }

    #[test]
    fn a_machine_that_has_run_out_is_told_from_a_target_that_is_not_there() {
        let trouble =
            |number| Cause::from_machine(Trouble::Unconnected, &io::Error::from_raw_os_error(number)).trouble;
        // ENFILE, EMFILE, ENOMEM.
        assert_eq!([23, 24, 12].map(trouble), [Trouble::Exhausted; 3]);
        let refused = Cause::from_machine(Trouble::Unconnected, &io::ErrorKind::ConnectionRefused.into());
        assert_eq!(refused.trouble, Trouble::Unconnected);
        let unknown = Cause::from_machine(Trouble::Unresolved, &io::Error::other("no such host"));
        assert_eq!(unknown.trouble, Trouble::Unresolved);
    }

    #[test]
    fn a_cause_without_a_detail_ends_without_a_colon() {
        assert_eq!(Cause::new(Trouble::Stale, "").to_string(), Trouble::Stale.to_string());
    }
}
