//! How a function stands, for whoever asks.

use super::gate::breaker::Breaker;
use crate::function::Rate;
use std::sync::Arc;

/// How a function stands on this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionStatus {
    /// Its name.
    pub function: Arc<str>,
    /// Calls under way.
    pub in_flight: u32,
    /// Executions that this node holds: those that are called, and those that are being written before or after their call.
    pub held: u32,
    /// Most calls at once.
    pub concurrency: u32,
    /// Most attempts over time.
    pub rate: Option<Rate>,
    /// What its target is thought to be.
    pub breaker: Breaker,
    /// Whether it starts nothing.
    pub is_paused: bool,
    /// Whether it was removed, and something of it still runs.
    pub is_removed: bool,
    /// What this node has done for it.
    pub totals: Totals,
}

/// What a node has done for a function since it was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Events accepted.
    pub accepted: u64,
    /// Of them, delivered from memory.
    pub accepted_claimed: u64,
    /// Events that had come before.
    pub duplicates: u64,
    /// Of them, with another payload.
    pub mismatches: u64,
    /// Attempts that began.
    pub attempts: u64,
    /// Attempts that took effect.
    pub completed: u64,
    /// Attempts that are made again.
    pub retried: u64,
    /// Executions that became dead letters.
    pub dead: u64,
    /// Claimed executions that were handed back.
    pub handed_back: u64,
    /// Attempts that somebody else had taken over.
    pub superseded: u64,
    /// Attempts whose end could not be written.
    pub abandoned: u64,
}
