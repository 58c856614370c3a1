//! What operators do, and what is remembered of it.
//!
//! 1. Everything an operator sets (which functions are paused, which jobs run) is kept in the queue, as documents that all nodes
//!    read: executions of the function `$control`, which nobody claims.
//! 2. Everything an operator changes leaves an [entry](AuditEntry) behind: an execution of the function `$audit` that was
//!    accepted as ended, in the same write as the change. It is listed, remembered and purged like everything else.
//! 3. An operation is a step of the machine, fenced like every other: whoever is superseded by it notices.
//! 4. An operation on many executions is a [`Job`]: it runs in the background of one node, can be watched and aborted on
//!    each, can try a few first, and can be counted beforehand.
//! 5. A queue that forgot something is handed nothing out of until somebody decides: replay, or skip.
//!
//! It does not know who may do what: that is for whoever lets people in.

mod audit;
mod bulk;
mod calm;
mod canary;
mod document;
pub(crate) mod fuzz;
mod jobs;
mod oldest;
mod operate;
mod past;
mod pause;
mod stops;
mod words;

pub use audit::{AUDIT_RETENTION, AuditEntry, Auditing};
pub use bulk::{BulkOptions, CANARY_WAIT_MAX, Job};
pub use document::DOCUMENT_NAME_BYTES_MAX;
pub(crate) use jobs::Jobs;
pub use jobs::{Aborting, JOBS_MAX, JobReport, JobState, Progress};
pub use operate::{Action, Operated};
pub use past::Decided;
pub(crate) use pause::{follow, load, pause_by_runtime};
pub(crate) use stops::{Stops, stopped};
