//! What the running configuration of a store really promises.
//!
//! 1. Each store has a method `doctor` that looks at what it can see of its server or disk and gives a
//!    [`Report`]: the [`Tier`] that this configuration really has, and what was found.
//! 2. A [`Finding`] says what was looked at, what was found, what was wanted, and what to do about it.
//! 3. What cannot be right is [`Severity::Refused`]: [`Report::accepted`] makes an error of it, to start with.
//! 4. What cannot be seen (no permission, a managed server) is a warning, and never believed to be right.
//!
//! It does not change anything, and it does not watch: what was right at the start can be changed later.
//!
//! ```
//! use semel::{MemoryStore, doctor::Tier};
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let report = MemoryStore::new().doctor().await?.accepted()?;
//! assert_eq!(report.tier, Tier::C);
//! println!("{report}");
//! # Ok::<(), semel::StoreError>(()) }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(feature = "embedded")]
mod embedded;

#[cfg(feature = "embedded")]
pub use embedded::embedded;

use semel_core::store::{StoreError, StoreErrorKind};
use std::{borrow::Cow, fmt};

/// How much a store promises, as it is set up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tier {
    /// Nothing that was acknowledged is lost to a kill or a power cut.
    A,
    /// Nothing that was acknowledged is lost while a majority of its servers lives.
    B,
    /// Best effort: a failover, an eviction or a restart may forget what was acknowledged.
    C,
}

impl Tier {
    /// The one that promises less.
    #[must_use]
    pub const fn weaker(self, other: Self) -> Self {
        match (self, other) {
            (Self::C, _) | (_, Self::C) => Self::C,
            (Self::B, _) | (_, Self::B) => Self::B,
            (Self::A, Self::A) => Self::A,
        }
    }

    /// What it promises, as a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::A => "nothing that was acknowledged is lost to a kill or a power cut",
            Self::B => "nothing that was acknowledged is lost while a majority of its servers lives",
            Self::C => "best effort: a failover, an eviction or a restart may forget what was acknowledged",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        })
    }
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Severity {
    /// It is as it should be.
    Fine,
    /// It works, and promises less than it could, or nobody could look.
    Warning,
    /// It cannot be right: records would be lost, or nothing could be written.
    Refused,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fine => "fine",
            Self::Warning => "warning",
            Self::Refused => "refused",
        })
    }
}

/// One thing that was looked at.
///
/// ```
/// use semel::doctor::{Finding, Severity};
/// let finding = Finding::warning("synchronous_commit")
///     .found("off")
///     .wanted("on")
///     .remedy("set `synchronous_commit = on`");
/// assert_eq!(finding.severity, Severity::Warning);
/// assert_eq!(finding.to_string(), "synchronous_commit is off, wanted on: set `synchronous_commit = on`");
/// assert_eq!(Finding::fine("fsync", "on").to_string(), "fsync is on");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was looked at: the setting, by the name that its manual gives it.
    pub what: Cow<'static, str>,
    /// What it is.
    pub found: Cow<'static, str>,
    /// What it should be; empty where it is fine.
    pub wanted: Cow<'static, str>,
    /// What to do about it; empty where it is fine.
    pub remedy: Cow<'static, str>,
    /// How bad it is.
    pub severity: Severity,
}

impl Finding {
    /// It is as it should be.
    pub fn fine(what: impl Into<Cow<'static, str>>, found: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Severity::Fine, what).found(found)
    }

    /// It works, and promises less than it could. Say the rest with [`Finding::found`], [`Finding::wanted`] and
    /// [`Finding::remedy`].
    pub fn warning(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Severity::Warning, what)
    }

    /// It cannot be right. Say the rest with [`Finding::found`], [`Finding::wanted`] and [`Finding::remedy`].
    pub fn refused(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Severity::Refused, what)
    }

    fn new(severity: Severity, what: impl Into<Cow<'static, str>>) -> Self {
        let empty = Cow::Borrowed("");
        let (found, wanted, remedy) = (empty.clone(), empty.clone(), empty);
        Self { what: what.into(), found, wanted, remedy, severity }
    }

    /// What it is.
    #[must_use]
    pub fn found(self, found: impl Into<Cow<'static, str>>) -> Self {
        Self { found: found.into(), ..self }
    }

    /// What it should be.
    #[must_use]
    pub fn wanted(self, wanted: impl Into<Cow<'static, str>>) -> Self {
        Self { wanted: wanted.into(), ..self }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// What was found, what was wanted, and the remedy, as far as they were said.
    fn verdict(&self) -> String {
        let mut verdict = self.found.to_string();
        if !self.wanted.is_empty() {
            verdict = format!("{verdict}, wanted {}", self.wanted);
        }
        if !self.remedy.is_empty() {
            verdict = format!("{verdict}: {}", self.remedy);
        }
        verdict
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.what, self.verdict())
    }
}

/// What a store promises as it is set up, and why.
///
/// ```
/// use semel::doctor::{Finding, Report, Tier};
/// let report = Report::new("redis", Tier::C)
///     .with(Finding::fine("appendonly", "yes"))
///     .with(Finding::refused("maxmemory-policy").found("allkeys-lru").wanted("noeviction")
///         .remedy("set `maxmemory-policy noeviction`"));
/// assert!(report.is_refused());
/// assert_eq!(report.to_string(), "\
/// redis store: tier C, refused
/// best effort: a failover, an eviction or a restart may forget what was acknowledged
///   fine     appendonly        yes
///   refused  maxmemory-policy  allkeys-lru, wanted noeviction: set `maxmemory-policy noeviction`
/// ");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The store's name, as in its errors.
    pub store: &'static str,
    /// What this configuration really promises.
    pub tier: Tier,
    /// What was looked at, in the order of looking.
    pub findings: Vec<Finding>,
}

impl Report {
    /// A store that promises this much if nothing else is found.
    pub const fn new(store: &'static str, tier: Tier) -> Self {
        Self { store, tier, findings: Vec::new() }
    }

    /// With one more finding.
    #[must_use]
    pub fn with(mut self, finding: Finding) -> Self {
        self.findings.push(finding);
        self
    }

    /// Promising no more than this.
    #[must_use]
    pub fn at_most(self, tier: Tier) -> Self {
        Self { tier: self.tier.weaker(tier), ..self }
    }

    /// Whether something was found that cannot be right.
    pub fn is_refused(&self) -> bool {
        self.findings.iter().any(|it| it.severity == Severity::Refused)
    }

    /// Itself, or an error that names everything that cannot be right: what a service starts with.
    pub fn accepted(self) -> Result<Self, StoreError> {
        if !self.is_refused() {
            return Ok(self);
        }
        let refused = self.findings.iter().filter(|it| it.severity == Severity::Refused);
        let refused: Vec<String> = refused.map(ToString::to_string).collect();
        Err(StoreError::new(StoreErrorKind::Misconfigured, self.store, refused.join("; ")))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = if self.is_refused() { ", refused" } else { "" };
        writeln!(f, "{} store: tier {}{refused}", self.store, self.tier)?;
        writeln!(f, "{}", self.tier.meaning())?;
        let width = self.findings.iter().map(|it| it.what.chars().count()).max().unwrap_or(0);
        self.findings
            .iter()
            .try_for_each(|it| writeln!(f, "  {:7}  {:width$}  {}", it.severity, it.what, it.verdict()))
    }
}

impl crate::MemoryStore {
    /// What this store promises: nothing beyond this process.
    #[expect(clippy::unused_async, reason = "every store's doctor is asked in the same way")]
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        let finding = Finding::warning("durability")
            .found("none: records end with this process")
            .wanted("a disk or a server")
            .remedy("use it for tests, and for duplicates that all arrive within one life of one process");
        Ok(Report::new("memory", Tier::C).with(finding))
    }
}
