//! How a command ends, told so that a person can act and a script can branch.
//!
//! 1. A failure is one line of what happened, its causes below it, and at most one remedy after `hint:`.
//! 2. The exit code says which kind of failure it is: see [`Code`].
//!
//! It does not log: a failure is printed once, by whoever ends the program.

use std::{error::Error as StdError, fmt, process::ExitCode};

/// What a script can branch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// The answer is no: something that was checked does not hold.
    No = 1,
    /// It was called wrongly, or its configuration is wrong.
    Usage = 2,
    /// Something it needs is not there: a store, an address to listen on.
    Unavailable = 69,
    /// It cannot go on: a mistake in this program, or a disk that broke under it.
    Bug = 70,
}

/// Why a command did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    code: Code,
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    /// The answer is no.
    pub fn no(what: impl Into<String>) -> Self {
        Self::new(Code::No, what)
    }

    /// It was called wrongly, or its configuration is wrong.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Code::Usage, what)
    }

    /// Something it needs is not there.
    pub fn unavailable(what: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, what)
    }

    /// What it stands on broke while it ran.
    pub fn broken(what: impl Into<String>) -> Self {
        Self::new(Code::Bug, what)
    }

    /// A mistake in this program.
    pub fn bug(what: impl Into<String>) -> Self {
        Self::new(Code::Bug, what)
    }

    fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), causes: Vec::new(), hint: None }
    }

    /// With one more cause.
    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// With this error and everything that caused it.
    #[must_use]
    pub fn because(mut self, error: &(dyn StdError + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            // Some errors say what their source says.
            if !self.causes.iter().any(|it| it.contains(&text)) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same, as the answer of a command that only asks.
    #[must_use]
    pub fn as_answer(self) -> Self {
        let code = if self.code == Code::Usage { Code::No } else { self.code };
        Self { code, ..self }
    }

    /// What happened, and why, a line each.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.what).chain(&self.causes).map(String::as_str)
    }

    /// Which kind of failure it is.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What the program ends with.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", printable(&self.what))?;
        for cause in &self.causes {
            writeln!(f, "  {}", printable(cause))?;
        }
        match &self.hint {
            Some(hint) => writeln!(f, "\nhint: {}", printable(hint)),
            None => Ok(()),
        }
    }
}

/// What comes from outside cannot move the cursor or end a line.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_its_causes_and_a_remedy() {
        let failure = Failure::unavailable("cannot listen on `127.0.0.1:80`")
            .because(&std::io::Error::other("permission denied"))
            .hint("choose a port above 1023");
        assert_eq!(
            failure.to_string(),
            "error: cannot listen on `127.0.0.1:80`\n  permission denied\n\nhint: choose a port above 1023\n"
        );
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let failure = Failure::usage("`\u{1b}[2J\n` is no route");
        assert_eq!(failure.to_string(), "error: `\\u{1b}[2J\\n` is no route\n");
    }
}
