//! The limits of the port, checked before anything is done: what is over them is the caller's mistake.

use semel_core::{
    execution::{Execution, ExecutionId},
    queue::{BATCH_MAX, CAUSES_MAX, Change, Demand, EVENT_BYTES_MAX, PAGE_MAX, WANTS_MAX},
    store::{StoreError, StoreErrorKind},
};

pub(super) fn accept(queue: &'static str, new: &[Execution]) -> Result<(), StoreError> {
    within(queue, "executions in one batch", new.len(), BATCH_MAX)?;
    new.iter().try_for_each(|it| event(queue, it))
}

pub(super) fn claim(queue: &'static str, demand: &Demand) -> Result<(), StoreError> {
    within(queue, "functions in one demand", demand.wants.len(), WANTS_MAX)
}

pub(super) fn write(queue: &'static str, changes: &[Change]) -> Result<(), StoreError> {
    within(queue, "changes in one batch", changes.len(), BATCH_MAX)?;
    changes.iter().try_for_each(|change| {
        within(queue, "executions caused by one change", change.causes.len(), CAUSES_MAX)?;
        change.causes.iter().chain([&change.after]).try_for_each(|it| event(queue, it))
    })
}

pub(super) fn get(queue: &'static str, ids: &[ExecutionId]) -> Result<(), StoreError> {
    within(queue, "ids in one batch", ids.len(), BATCH_MAX)
}

/// How many items a page has when so many were asked for.
pub(super) fn page(limit: u32) -> usize {
    limit.clamp(1, PAGE_MAX) as usize
}

fn event(queue: &'static str, execution: &Execution) -> Result<(), StoreError> {
    let bytes = execution.event.as_ref().map_or(0, |it| it.len());
    within(queue, "bytes of an event", bytes, EVENT_BYTES_MAX)
}

fn within(queue: &'static str, what: &str, count: usize, max: usize) -> Result<(), StoreError> {
    if count <= max {
        return Ok(());
    }
    let context = format!("{count} {what}, where {max} are the most");
    Err(StoreError::new(StoreErrorKind::Misconfigured, queue, context))
}
