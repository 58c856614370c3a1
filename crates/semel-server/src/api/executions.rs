//! Executions: listing, searching, showing, and what is done to one.

use super::{
    beginning::{SEARCHED_MAX, begin_like, is_beginning},
    desk::Desk,
    next::{self, Readiness},
    problems::{self, Trouble},
    shape::Moment,
    table::Asked,
    views::{
        AttemptView, ExecutionView, ExecutionsQuery, ExecutionsView, FilterRequest, Found, Nothing,
        RedriveRequest, ResolveRequest, ResultView, Standing, StoryView, Why, WhyQuery, WhyView,
    },
};
use crate::hex;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use semel_core::{
    call::Resolution,
    execution::{Due, ErrorPrint, Execution, ExecutionId, Phase},
    key::Identity,
    queue::{CURSOR_BYTES_MAX, Cursor, Fenced, Filter, PAGE_MAX},
    record::{Body, Reason, Status},
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
    time::Timestamp,
};
use semel_events::{event::Event, format::cloudevents::read_structured};
use semel_runtime::{Action, Operated};
use std::sync::Arc;

/// Items of a page, if nobody said otherwise.
pub(super) const PAGE: u32 = 50;
/// Most executions that one search tells of.
pub(super) const FOUND_MAX: usize = 20;
/// So much of a result is shown, in bytes.
const RESULT_BYTES_SHOWN_MAX: usize = 16 * 1024;

/// `GET /v1/executions`.
pub(super) async fn list(
    desk: Arc<Desk>,
    asked: Asked<ExecutionsQuery, Nothing>,
) -> Result<ExecutionsView, Trouble> {
    let ExecutionsQuery {
        function,
        status,
        reason,
        r#type,
        name,
        error,
        accepted_from,
        accepted_before,
        dead,
        cursor,
        limit,
    } = asked.query;
    let wanted =
        FilterRequest { function, status, reason, r#type, name, error, accepted_from, accepted_before };
    let (mut filter, from) = (filter(&wanted)?, cursor.as_deref().map(read_cursor).transpose()?);
    let only_dead = dead == Some(true);
    if only_dead {
        filter.status = filter.status.or(Some(Status::Failed));
    }
    let page = desk.runtime.queue().list(&filter, from.as_ref(), page_size(limit)).await;
    let page = page.map_err(|error| cursor_trouble(from.is_some(), error))?;
    let now = desk.runtime.queue().clock().now();
    let is_wanted =
        |it: &&Fenced<Execution>| is_anybodys(now, &it.value) && (!only_dead || it.value.is_dead_letter());
    let executions = page.items.iter().filter(is_wanted).map(|it| view(&it.value));
    Ok(ExecutionsView { executions: executions.collect(), next: page.next.as_ref().map(write_cursor) })
}

/// `GET /v1/executions/{id}`.
pub(super) async fn show(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<StoryView, Trouble> {
    let id = read_id(&asked.name).ok_or(problems::NOT_FOUND)?;
    let found = desk.runtime.queue().get(&[id]).await?.pop().flatten();
    let now = desk.runtime.queue().clock().now();
    let found = found.filter(|it| is_anybodys(now, &it.value)).ok_or(problems::NOT_FOUND)?;
    Ok(desk.story(now, &found.value))
}

/// `GET /v1/why`.
pub(super) async fn why(desk: Arc<Desk>, asked: Asked<WhyQuery, Nothing>) -> Result<WhyView, Trouble> {
    let queue = desk.runtime.queue();
    let text = asked.query.q.as_str();
    let now = queue.clock().now();
    let mut found: Vec<Fenced<Execution>> = Vec::new();
    if let Some(id) = read_id(text) {
        found.extend(queue.get(&[id]).await?.pop().flatten());
    }
    let by_name = Filter { name: Some(text.into()), ..Filter::default() };
    let page = queue.list(&by_name, None, FOUND_MAX as u32 + 1).await?;
    let has_more = page.items.len() > FOUND_MAX || page.next.is_some();
    found.extend(page.items.into_iter().take(FOUND_MAX));
    let mut is_whole = true;
    if found.is_empty() && is_beginning(text) {
        (found, is_whole) = begin_like(&**queue, text, SEARCHED_MAX).await?;
    }
    found.retain(|it| is_anybodys(now, &it.value));
    Ok(WhyView {
        found: found.iter().map(|it| desk.story(now, &it.value)).collect(),
        has_more,
        is_whole,
        now: Moment(now),
    })
}

/// `POST /v1/executions/{id}/redrive`.
pub(super) async fn redrive(
    desk: Arc<Desk>,
    asked: Asked<Nothing, RedriveRequest>,
) -> Result<StoryView, Trouble> {
    let event = asked.body.event.map(|it| {
        let text = serde_json::to_vec(&it).expect("what was JSON is JSON");
        read_structured(&text).map_err(|error| Trouble::invalid(format!("The event is none: {error}.")))
    });
    let event = event.transpose()?;
    if let Some(event) = &event {
        desk.check_edit(&asked.name, event).await?;
    }
    let action = Action::Redrive(event.map(Box::new));
    desk.operate(&asked.name, &action, &asked.who.name).await
}

/// `POST /v1/executions/{id}/cancel`.
pub(super) async fn cancel(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<StoryView, Trouble> {
    desk.operate(&asked.name, &Action::Cancel, &asked.who.name).await
}

/// `POST /v1/executions/{id}/park`.
pub(super) async fn park(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<StoryView, Trouble> {
    desk.operate(&asked.name, &Action::Park, &asked.who.name).await
}

/// `POST /v1/executions/{id}/unpark`.
pub(super) async fn unpark(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<StoryView, Trouble> {
    desk.operate(&asked.name, &Action::Unpark, &asked.who.name).await
}

/// `POST /v1/executions/{id}/resolve`.
pub(super) async fn resolve(
    desk: Arc<Desk>,
    asked: Asked<Nothing, ResolveRequest>,
) -> Result<StoryView, Trouble> {
    let resolution = match asked.body.outcome {
        Found::Happened => Resolution::Happened(None),
        Found::DidNot => Resolution::DidNot,
    };
    desk.operate(&asked.name, &Action::Resolve(resolution), &asked.who.name).await
}

impl Desk {
    /// An edited event is still the event that the execution is of: what names it stays. Nobody else's name comes in that way,
    /// and a sender that comes again is still told that its event was taken.
    async fn check_edit(&self, id: &str, edited: &Event) -> Result<(), Trouble> {
        let id = read_id(id).ok_or(problems::NOT_FOUND)?;
        let found = self.runtime.queue().get(&[id]).await?.pop().flatten().ok_or(problems::NOT_FOUND)?;
        let origin = &found.value.origin;
        let names = [("id", edited.id() == &*origin.id), ("source", edited.source() == &*origin.source)];
        match names.into_iter().find(|(_, is_same)| !is_same) {
            Some((name, _)) if !is_on("api_edits_identity") => Err(Trouble::invalid(format!(
                "The `{name}` of the edited event is another: it names the execution, and stays. Send a new event instead."
            ))),
            Some(_) | None => Ok(()),
        }
    }

    async fn operate(&self, id: &str, action: &Action, who: &str) -> Result<StoryView, Trouble> {
        let id = read_id(id).ok_or(problems::NOT_FOUND)?;
        match self.runtime.operate(id, action, who).await? {
            Operated::Done(stands) => Ok(self.story(self.runtime.queue().clock().now(), &stands.value)),
            Operated::NotFound => Err(problems::NOT_FOUND.into()),
            Operated::Refused(refused) => Err(Trouble::conflict(format!("It was not done: {refused}."))),
        }
    }

    /// Everything about an execution.
    fn story(&self, now: Timestamp, execution: &Execution) -> StoryView {
        let event = execution.event.as_deref().and_then(|it| Event::decode(&it.to_vec().into()).ok());
        let attempt = |it: &semel_core::execution::Attempt| AttemptView {
            generation: it.generation,
            number: it.number,
            began_at: Moment(it.began_at),
            ended_at: Moment(it.ended_at),
            error: it.error.clone(),
        };
        let repeats = execution.repeats.plus(self.runtime.repeats(&execution.id()));
        StoryView {
            execution: ExecutionView {
                duplicates: repeats.same,
                mismatches: repeats.other,
                ..view(execution)
            },
            event: event.and_then(|it| serde_json::from_slice(&it.to_structured()).ok()),
            result: result(now, &execution.phase),
            history: execution.history.iter().map(attempt).collect(),
            repeated_at: repeats.last_at.map(Moment),
            order: execution.order.as_ref().map(|it| it.key.to_string()),
            expires_at: Moment::some(execution.expires_at),
            next: next::next(now, execution, self.readiness(&execution.function)),
            can: next::can(now, execution),
        }
    }

    fn readiness(&self, function: &str) -> Readiness {
        match self.runtime.status().iter().find(|it| *it.function == *function) {
            None => Readiness::Missing,
            Some(it) if it.is_removed => Readiness::Missing,
            Some(it) if it.is_paused => Readiness::Paused,
            Some(it) if !it.breaker.is_closed() => Readiness::Down,
            Some(_) => Readiness::Ready,
        }
    }
}

/// Whether an execution is somebody's, and not of the runtime's own books, and still remembered.
pub(super) fn is_anybodys(now: Timestamp, execution: &Execution) -> bool {
    !matches!(&*execution.function, "$control" | "$audit") && !execution.is_expired(now)
}

/// What the function answered, as long as that is kept.
fn result(now: Timestamp, phase: &Phase) -> Option<ResultView> {
    let Phase::Completed(body) = phase else { return None };
    let none = ResultView { size: 0, text: None, base64: None, is_whole: false, until: None };
    let (bytes, until) = match body {
        Body::Kept { bytes, until } if *until > now => (bytes.as_slice(), *until),
        Body::Kept { bytes, .. } => return Some(ResultView { size: bytes.len() as u64, ..none }),
        Body::NotKept { size, .. } => return Some(ResultView { size: *size, ..none }),
    };
    let shown = &bytes[..bytes.len().min(RESULT_BYTES_SHOWN_MAX)];
    // Only what was cut ends within a letter and is text nevertheless.
    let (text, is_text) = match std::str::from_utf8(shown) {
        Ok(text) => (text, true),
        Err(error) => {
            let text = std::str::from_utf8(&shown[..error.valid_up_to()]).unwrap_or_default();
            (text, error.error_len().is_none() && shown.len() < bytes.len())
        }
    };
    Some(ResultView {
        size: bytes.len() as u64,
        text: is_text.then(|| text.to_owned()),
        base64: (!is_text).then(|| STANDARD.encode(shown)),
        is_whole: shown.len() == bytes.len(),
        until: Some(Moment(until)),
    })
}

/// An execution, as people see it.
pub(super) fn view(execution: &Execution) -> ExecutionView {
    let error = execution.error();
    ExecutionView {
        id: execution.id().to_string(),
        function: execution.function.to_string(),
        event_id: execution.origin.id.to_string(),
        source: execution.origin.source.to_string(),
        r#type: execution.origin.kind.to_string(),
        key: execution.key.id(),
        status: standing(execution.status()),
        reason: execution.phase.reason().map(why_of),
        is_parked: matches!(execution.phase, Phase::Pending(Due::Parked { .. })),
        attempts: execution.attempts,
        generation: execution.generation,
        duplicates: execution.repeats.same,
        mismatches: execution.repeats.other,
        accepted_at: Moment(execution.accepted_at),
        updated_at: Moment(execution.updated_at),
        due_at: execution.due_at().map(Moment),
        error: error.map(str::to_owned),
        error_print: error.map(|it| ErrorPrint::of(it).to_string()),
    }
}

/// What a filter means.
pub(super) fn filter(wanted: &FilterRequest) -> Result<Filter, Trouble> {
    let error = wanted.error.as_deref().map(str::parse).transpose();
    Ok(Filter {
        function: wanted.function.as_deref().map(Into::into),
        status: wanted.status.map(status),
        reason: wanted.reason.map(reason),
        holder: None,
        accepted_from: wanted.accepted_from.map(|it| it.0),
        accepted_before: wanted.accepted_before.map(|it| it.0),
        name: wanted.name.as_deref().map(Into::into),
        kind: wanted.r#type.as_deref().map(Into::into),
        error: error.map_err(|_| Trouble::invalid("`error` is no print: wanted 16 hexadecimal digits."))?,
    })
}

const fn standing(status: Status) -> Standing {
    match status {
        Status::Pending => Standing::Pending,
        Status::InProgress => Standing::InProgress,
        Status::Completed => Standing::Completed,
        Status::Failed => Standing::Failed,
    }
}

const fn status(standing: Standing) -> Status {
    match standing {
        Standing::Pending => Status::Pending,
        Standing::InProgress => Status::InProgress,
        Standing::Completed => Status::Completed,
        Standing::Failed => Status::Failed,
    }
}

const fn why_of(reason: Reason) -> Why {
    match reason {
        Reason::Fatal => Why::Fatal,
        Reason::Exhausted => Why::Exhausted,
        Reason::Window => Why::Window,
        Reason::TooOld => Why::TooOld,
        Reason::Cancelled => Why::Cancelled,
        Reason::Dropped => Why::Dropped,
        Reason::OutcomeUnknown => Why::OutcomeUnknown,
    }
}

const fn reason(why: Why) -> Reason {
    match why {
        Why::Fatal => Reason::Fatal,
        Why::Exhausted => Reason::Exhausted,
        Why::Window => Reason::Window,
        Why::TooOld => Reason::TooOld,
        Why::Cancelled => Reason::Cancelled,
        Why::Dropped => Reason::Dropped,
        Why::OutcomeUnknown => Reason::OutcomeUnknown,
    }
}

/// How many items a page has.
pub(super) fn page_size(limit: Option<u32>) -> u32 {
    limit.unwrap_or(PAGE).clamp(1, PAGE_MAX)
}

/// A cursor as text. What stands in it is the queue's business.
pub(super) fn write_cursor(cursor: &Cursor) -> String {
    hex::write(&cursor.0)
}

/// A cursor that [`write_cursor`] wrote.
pub(super) fn read_cursor(text: &str) -> Result<Cursor, Trouble> {
    let bytes = (text.len() <= 2 * CURSOR_BYTES_MAX).then(|| hex::read(text)).flatten();
    bytes.map(Cursor).ok_or_else(no_cursor)
}

/// What a queue says that was given somebody else's cursor.
pub(super) fn cursor_trouble(has_cursor: bool, error: StoreError) -> Trouble {
    if has_cursor && error.kind() == StoreErrorKind::Refused {
        return no_cursor();
    }
    error.into()
}

fn no_cursor() -> Trouble {
    Trouble::invalid("`cursor` is none that this server gave: begin the list anew.")
}

fn read_id(text: &str) -> Option<ExecutionId> {
    let bytes = (text.len() == 64).then(|| hex::read(text)).flatten()?;
    Some(ExecutionId::from_identity(Identity::from_bytes(bytes.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_were_written_and_nothing_else_is() {
        let cursor = Cursor(vec![0, 1, 0xfe, 0xff]);
        assert_eq!(read_cursor(&write_cursor(&cursor)).unwrap(), cursor);
        for wrong in ["a", "zz", "ü", &"00".repeat(CURSOR_BYTES_MAX + 1)] {
            assert!(read_cursor(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_id_is_sixty_four_digits() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(read_id(&id).unwrap().to_string(), id);
        assert!(read_id(&id[1..]).is_none());
    }

    #[test]
    fn a_result_is_shown_as_far_as_it_is_kept_and_no_further_than_a_limit() {
        let (now, until) = (Timestamp::from_millis(1_000), Timestamp::from_millis(2_000));
        let kept = |bytes: &[u8]| Phase::Completed(Body::Kept { bytes: bytes.to_vec(), until });
        let of = |bytes: &[u8]| result(now, &kept(bytes)).unwrap();
        let short = of(b"\"done\"");
        assert_eq!((short.size, short.text.as_deref(), short.is_whole), (6, Some("\"done\""), true));
        assert_eq!(short.until, Some(Moment(until)));
        let bytes = of(&[0xff, 0, 1]);
        assert_eq!((bytes.text, bytes.base64.as_deref()), (None, Some("/wAB")));
        assert_eq!(of("ü".as_bytes()).text.as_deref(), Some("ü"));
        assert_eq!(of(&"ü".as_bytes()[..1]).text, None, "it ends within a letter by itself");
        let long = of("ü".repeat(RESULT_BYTES_SHOWN_MAX).as_bytes());
        let text = long.text.unwrap();
        assert_eq!(
            (text.len(), long.is_whole, long.size),
            (RESULT_BYTES_SHOWN_MAX, false, 2 * text.len() as u64)
        );
        let odd = of(format!("x{}", "ü".repeat(RESULT_BYTES_SHOWN_MAX)).as_bytes());
        assert_eq!(odd.text.unwrap().len(), RESULT_BYTES_SHOWN_MAX - 1, "no half of a letter is shown");
        let later = result(until, &kept(b"done")).unwrap();
        assert_eq!((later.size, later.text, later.until), (4, None, None));
        let cause = semel_core::record::NotKept::TooLarge;
        let noted = result(now, &Phase::Completed(Body::NotKept { cause, size: 70_000, digest: [0; 32] }));
        assert_eq!(noted.map(|it| (it.size, it.text, it.until)), Some((70_000, None, None)));
        assert_eq!(result(now, &Phase::Pending(Due::At(now))), None);
    }

    #[test]
    fn pages_have_a_largest_size() {
        assert_eq!((page_size(None), page_size(Some(0)), page_size(Some(u32::MAX))), (PAGE, 1, PAGE_MAX));
    }
}
