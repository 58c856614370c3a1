//! Seeded bugs that prove the tests bite.
//!
//! 1. Without the hidden feature `__sabotage`, [`is_on`] is `false` and the branch is compiled away.
//! 2. With it, the bug named by the environment variable `SEMEL_SABOTAGE` is live, and no other.
//! 3. Every name stands in [`all`], with the invariant it breaks; the test command runs each and demands
//!    that a test fails.
//! 4. A bug that is found on a server is named after it, as in `nats_…`: so the test command knows what to start.

mod control;
mod library;
mod runtime;

/// The name of a seeded bug, and what it breaks.
pub struct Sabotage {
    /// As given in `SEMEL_SABOTAGE`.
    pub name: &'static str,
    /// The rule that no longer holds.
    pub breaks: &'static str,
    /// A nextest filter for the tests expected to notice.
    pub caught_by: &'static str,
}

/// Every seeded bug there is.
pub fn all() -> impl Iterator<Item = &'static Sabotage> {
    library::ALL.iter().chain(runtime::ALL).chain(control::ALL)
}

/// Whether the bug of this name is switched on.
#[cfg(not(feature = "__sabotage"))]
#[inline]
pub const fn is_on(_name: &str) -> bool {
    false
}

/// Whether the bug of this name is switched on.
#[cfg(feature = "__sabotage")]
pub fn is_on(name: &str) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    debug_assert!(all().any(|it| it.name == name), "unlisted sabotage `{name}`");
    CHOSEN.get_or_init(|| std::env::var("SEMEL_SABOTAGE").ok()).as_deref() == Some(name)
}
