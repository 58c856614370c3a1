//! A function, as its owner described it.

use super::{Aim, FunctionName, Rate};
use crate::deliver::{Preset, Protocol, guard::Target};
use semel_core::retry::RetryPolicy;
use semel_events::{
    auth::standard_webhooks::StandardWebhooks, event::Event, expression::Expression, filter::Filter,
};
use std::num::NonZeroU32;

/// Most attempts of a function at once that can be asked for.
pub const CONCURRENCY_MAX: u32 = 10_000;
/// Attempts of a function at once, if nobody said otherwise.
pub const CONCURRENCY_DEFAULT: NonZeroU32 = NonZeroU32::new(64).expect("64 is not 0");

/// What is called, for which events, and on which terms.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: FunctionName,
    /// Where it is.
    pub aim: Aim,
    /// Which events it takes; all of them if there is none.
    pub filter: Option<Filter>,
    /// What names an execution of it.
    pub key: KeyRule,
    /// What events must not overtake each other by. One that waits for its next attempt blocks those behind it.
    pub order: Option<Expression>,
    /// When failed attempts are made again, how long one may take, and how long the outcome is remembered.
    pub policy: RetryPolicy,
    /// What its answers mean.
    pub answers: Preset,
    /// Most calls at once, on each node; [`CONCURRENCY_MAX`] at most.
    pub concurrency: NonZeroU32,
    /// Most attempts over time, on each node.
    pub rate: Option<Rate>,
    /// What becomes of an event that was sent to it, and whose answer was lost.
    pub on_lost: OnLost,
    /// What becomes of events that it never took.
    pub dead_letter: DeadLetter,
    /// Whether a second event with the same name and another payload is refused, and not only noted.
    pub strict_mismatch: bool,
    /// How events are sent to it.
    pub content: Content,
    /// What is spoken to it.
    pub protocol: Protocol,
    /// What requests to it are signed with, by Standard Webhooks.
    pub signing: Option<StandardWebhooks>,
    /// Whether this node starts nothing of it, as if it were paused here alone: what comes for it is kept, and waits for another
    /// node, or for this one to be told otherwise.
    pub is_held: bool,
}

impl Function {
    /// A function that takes every event, on the usual terms: no retry, nothing ordered, dead letters kept.
    pub fn new(name: FunctionName, aim: Aim) -> Self {
        Self {
            name,
            aim,
            filter: None,
            key: KeyRule::default(),
            order: None,
            policy: RetryPolicy::default(),
            answers: Preset::default(),
            concurrency: CONCURRENCY_DEFAULT,
            rate: None,
            on_lost: OnLost::default(),
            dead_letter: DeadLetter::default(),
            strict_mismatch: false,
            content: Content::default(),
            protocol: Protocol::default(),
            signing: None,
            is_held: false,
        }
    }
}

impl Function {
    /// Whether it takes this event.
    pub fn takes(&self, event: &Event) -> bool {
        self.filter.as_ref().is_none_or(|it| it.matches(event))
    }
}

/// What becomes of an event that was sent, and whose answer was lost: it did not come in time, the connection broke, or whoever
/// waited for it is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnLost {
    /// It failed, and is sent again: the function notices that it has come before, or may be called twice.
    #[default]
    Retry,
    /// Nobody can tell what became of it, until an operator does: it is not sent again.
    Report,
}

/// What names an execution, besides its function.
#[derive(Clone, Debug, Default)]
pub enum KeyRule {
    /// The event's `source` and `id`.
    #[default]
    SourceAndId,
    /// What this finds. An event for which it finds nothing is refused.
    Expression(Expression),
}

/// What becomes of an event that its function never took.
#[derive(Clone, Debug, Default)]
pub enum DeadLetter {
    /// It stays where it is, as long as the function's executions are remembered.
    #[default]
    Keep,
    /// It stays, and is sent there too.
    Url(Target),
    /// It stays, and goes through this function too.
    Function(FunctionName),
    /// Only the fact stays.
    Forget,
}

/// How an event is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Content {
    /// Attributes in headers, data as the body.
    #[default]
    Binary,
    /// All of it as JSON.
    Structured,
}
