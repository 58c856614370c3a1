//! What there is as a whole: the books, what is wrong, who changed what, and what this server is.

use super::{
    desk::Desk,
    executions::{cursor_trouble, filter, is_anybodys, page_size, read_cursor, view, write_cursor},
    openapi,
    problems::Trouble,
    shape::Moment,
    table::Asked,
    views::{
        AuditQuery, AuditView, AuditsView, ErrorView, ErrorsQuery, ErrorsView, ExecutionView, FilterRequest,
        LedgerLine, LedgerView, LedgersView, Nothing, PurgeView, ServerView, Standing, StoreView,
    },
};
use crate::serve::{Ailments, Foundation};
use semel_core::{
    execution::Execution,
    queue::{Counts, Filter, PAGE_MAX, Queue},
    record::{Reason, Status},
    store::StoreError,
};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Most executions in each status that are looked at to group errors: the latest.
pub const LOOKED_AT_MAX: u64 = 5_000;
/// Most pages of each status that they are looked for on: of what a filter seldom matches, a page has few.
const PAGES_MAX: u32 = 200;
/// Most executions that one request purges.
pub const PURGED_MAX: u64 = 100_000;
/// How long the queue is left alone after each batch that is purged: nobody else who waits for it notices.
const PURGE_PAUSE: Duration = Duration::from_millis(20);

/// `GET /v1/ledger`.
pub(super) async fn ledger(desk: Arc<Desk>, _: Asked<Nothing, Nothing>) -> Result<LedgersView, Trouble> {
    let mut counts = desk.runtime.counts().await?;
    counts.retain(|it| !matches!(&*it.function, "$control" | "$audit"));
    counts.sort_by(|a, b| a.function.cmp(&b.function));
    let line = |it: &Counts| LedgerLine { function: it.function.to_string(), ledger: ledger_of(it) };
    let mut total = Counts::none("".into());
    for it in &counts {
        total.accepted += it.accepted;
        total.pending += it.pending;
        total.in_progress += it.in_progress;
        total.completed += it.completed;
        total.purged += it.purged;
        for (sum, one) in total.failed.iter_mut().zip(it.failed) {
            *sum += one;
        }
    }
    Ok(LedgersView { functions: counts.iter().map(line).collect(), total: ledger_of(&total) })
}

/// The books of a function.
pub(super) fn ledger_of(counts: &Counts) -> LedgerView {
    let failed = |reason: Reason| counts.failed[reason as usize];
    let dead = [Reason::Fatal, Reason::Exhausted, Reason::Window, Reason::TooOld];
    LedgerView {
        accepted: counts.accepted,
        pending: counts.pending,
        in_progress: counts.in_progress,
        completed: counts.completed,
        dead: dead.into_iter().map(failed).sum(),
        cancelled: failed(Reason::Cancelled),
        dropped: failed(Reason::Dropped),
        unknown: failed(Reason::OutcomeUnknown),
        purged: counts.purged,
        is_balanced: counts.is_balanced(),
    }
}

/// `GET /v1/errors`.
pub(super) async fn errors(
    desk: Arc<Desk>,
    asked: Asked<ErrorsQuery, Nothing>,
) -> Result<ErrorsView, Trouble> {
    let ErrorsQuery { function, reason, r#type, name, error, accepted_from, accepted_before, limit } =
        asked.query;
    let wanted =
        FilterRequest { function, status: None, reason, r#type, name, error, accepted_from, accepted_before };
    let wanted = filter(&wanted)?;
    let (mut groups, mut looked_at, mut is_whole) = (BTreeMap::new(), 0, true);
    // What waits has failed for no reason yet.
    let statuses: &[_] =
        if reason.is_some() { &[Status::Failed] } else { &[Status::Failed, Status::Pending] };
    for status in statuses {
        let filter = Filter { status: Some(*status), ..wanted.clone() };
        let (seen, is_all) = group(&**desk.runtime.queue(), &filter, &mut groups).await?;
        is_whole &= is_all;
        looked_at += seen;
    }
    let mut errors: Vec<ErrorView> = groups.into_values().collect();
    errors.sort_by(|a, b| (b.dead + b.waiting, &a.print).cmp(&(a.dead + a.waiting, &b.print)));
    let most = limit.unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX) as usize;
    let has_more = errors.len() > most;
    errors.truncate(most);
    Ok(ErrorsView { errors, has_more, looked_at, is_whole })
}

/// Groups the latest that match. How many those were, and whether they were all.
async fn group(
    queue: &dyn Queue,
    filter: &Filter,
    groups: &mut BTreeMap<String, ErrorView>,
) -> Result<(u64, bool), StoreError> {
    let (mut from, mut seen) = (None, 0);
    for _ in 0..PAGES_MAX {
        let page = queue.list(filter, from.as_ref(), PAGE_MAX).await?;
        let now = queue.clock().now();
        for it in page.items.iter().filter(|it| is_anybodys(now, &it.value)) {
            seen += 1;
            if is_wrong(filter, &it.value) {
                count(groups, view(&it.value));
            }
        }
        from = page.next;
        if from.is_none() || seen >= LOOKED_AT_MAX {
            break;
        }
    }
    Ok((seen, from.is_none()))
}

/// Whether an execution counts: what waits, and dead letters, as they are listed and redriven. Whoever names a reason wants
/// what failed for it.
fn is_wrong(filter: &Filter, execution: &Execution) -> bool {
    execution.status() != Status::Failed || filter.reason.is_some() || execution.is_dead_letter()
}

/// Adds an execution to the group of its error.
fn count(groups: &mut BTreeMap<String, ErrorView>, execution: ExecutionView) {
    let ExecutionView { function, status, updated_at, error, error_print, .. } = execution;
    let (Some(example), Some(print)) = (error, error_print) else { return };
    let group = groups.entry(print.clone()).or_insert_with(|| ErrorView {
        print,
        example,
        dead: 0,
        waiting: 0,
        functions: Vec::new(),
        last_at: updated_at,
    });
    if status == Standing::Failed {
        group.dead += 1;
    } else {
        group.waiting += 1;
    }
    group.last_at = group.last_at.max(updated_at);
    if let Err(place) = group.functions.binary_search(&function) {
        group.functions.insert(place, function);
    }
}

/// `GET /v1/audit`.
pub(super) async fn audit(desk: Arc<Desk>, asked: Asked<AuditQuery, Nothing>) -> Result<AuditsView, Trouble> {
    let AuditQuery { subject, cursor, limit } = asked.query;
    let from = cursor.as_deref().map(read_cursor).transpose()?;
    let page = desk.runtime.audit(subject.as_deref(), from.as_ref(), page_size(limit)).await;
    let page = page.map_err(|error| cursor_trouble(from.is_some(), error))?;
    let entry = |it: semel_runtime::AuditEntry| AuditView {
        at: Moment(it.at),
        who: it.who.to_string(),
        what: it.what.to_string(),
        subject: it.subject.to_string(),
        detail: it.detail,
    };
    Ok(AuditsView {
        entries: page.items.into_iter().map(entry).collect(),
        next: page.next.as_ref().map(write_cursor),
    })
}

/// `POST /v1/purge`.
pub(super) async fn purge(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<PurgeView, Trouble> {
    let queue = desk.runtime.queue();
    let (now, mut purged, mut has_more) = (queue.clock().now(), 0, true);
    while has_more && purged < PURGED_MAX {
        let removed = queue.purge(now, PAGE_MAX).await?;
        purged += u64::from(removed);
        has_more = removed > 0;
        if has_more {
            queue.clock().sleep(PURGE_PAUSE).await;
        }
    }
    let detail = format!("{purged} purged");
    desk.runtime.note_change(&asked.who.name, "purge", "executions", &detail).await?;
    Ok(PurgeView { purged, has_more })
}

/// `GET /v1/server`.
pub(super) async fn server(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<ServerView, Trouble> {
    Ok(ServerView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now: Moment(desk.runtime.queue().clock().now()),
        who: asked.who.name.to_string(),
        role: asked.who.role,
        store: store(&desk.foundation, desk.runtime.queue().went_back()),
    })
}

fn store(foundation: &Foundation, went_back: Option<String>) -> StoreView {
    let (room, Ailments { damaged, trouble, refuses }) = (foundation.room(), foundation.ailments());
    StoreView {
        place: foundation.place.clone(),
        tier: foundation.tier.to_string(),
        promise: foundation.tier.meaning().to_owned(),
        warnings: foundation.warnings.clone(),
        used_bytes: room.map(|it| it.used),
        left_bytes: room.map(|it| it.left).filter(|it| *it < u64::MAX),
        days_to_full: room.and_then(|it| it.days_to_full),
        damaged,
        trouble,
        refuses,
        went_back,
    }
}

/// `GET /v1/openapi.json`.
pub(super) async fn document(
    desk: Arc<Desk>,
    _: Asked<Nothing, Nothing>,
) -> Result<Map<String, Value>, Trouble> {
    Ok(openapi::document(&desk.routes))
}
