//! Seeded bugs that prove the tests bite.
//!
//! 1. Without the hidden feature `__sabotage`, [`is_on`] is `false` and the branch is compiled away.
//! 2. With it, the bug named by the environment variable `SEMEL_SABOTAGE` is live, and no other.
//! 3. Every name stands in [`ALL`], with the invariant it breaks; the test command runs each and demands
//!    that a test fails.

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
pub const ALL: &[Sabotage] = &[];

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
    debug_assert!(ALL.iter().any(|it| it.name == name), "unlisted sabotage `{name}`");
    CHOSEN.get_or_init(|| std::env::var("SEMEL_SABOTAGE").ok()).as_deref() == Some(name)
}
