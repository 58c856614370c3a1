//! The runtime of Semel, as a library: executions are claimed, delivered to functions, and settled.
//!
//! It has no command line and no HTTP server of its own.

pub mod control;
pub mod deliver;
pub mod engine;
pub mod function;
#[doc(hidden)]
pub mod fuzz;
pub mod queue;

pub use control::{
    Aborting, Action, AuditEntry, Auditing, BulkOptions, Decided, Job, JobReport, JobState, Operated,
    Progress,
};
pub use engine::{
    Answered, Builder, CallOutcome, Called, Entry, FunctionStatus, FunctionsError, Receipt, Refused, Runtime,
    StartError, Taken, Totals, Waiting,
};
pub use function::{
    Aim, Attempted, Content, DeadLetter, Function, FunctionName, Handle, HandleError, InvalidName, KeyRule,
    OnLost, Rate, handler,
};
