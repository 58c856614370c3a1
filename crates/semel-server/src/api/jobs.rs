//! What is done to many executions at once.

use super::{
    desk::Desk,
    executions::filter,
    problems::{self, Trouble},
    shape::Moment,
    table::Asked,
    views::{BulkRequest, JobView, JobsView, Nothing, PastView, Stage, Verb},
};
use crate::config;
use semel_core::{
    execution::ErrorPrint,
    queue::{Filter, PAGE_MAX},
    record::Status,
    time::Timestamp,
};
use semel_runtime::{Aborting, Action, BulkOptions, Decided, JobReport, JobState, Progress, Rate};
use std::{sync::Arc, time::Duration};

/// `POST /v1/bulk`.
pub(super) async fn bulk(desk: Arc<Desk>, asked: Asked<Nothing, BulkRequest>) -> Result<JobView, Trouble> {
    let (filter, action, options) = meant(asked.body)?;
    desk.knows(&filter).await?;
    let clock = desk.runtime.queue().clock();
    // What was accepted until now, by the clock that is furthest ahead, in this millisecond too.
    let soon = clock.now() + clock.margin() + Duration::from_millis(1);
    let filters = passes(filter, &action, options.dry_run, soon);
    let job = desk.runtime.bulk_each(filters, action, options, &asked.who.name).await?;
    Ok(view(job.ok_or(problems::BUSY)?.report()))
}

/// What is looked for, one after the other. Only what has not ended can be cancelled: that is in two statuses, and goes from one
/// to the other while it is looked for, so that a second look is taken. What came after that was said is not meant.
fn passes(filter: Filter, action: &Action, is_dry: bool, soon: Timestamp) -> Vec<Filter> {
    if filter.status.is_some() || filter.reason.is_some() || !matches!(action, Action::Cancel) {
        return vec![filter];
    }
    let before = filter.accepted_before.map_or(soon, |it| it.min(soon));
    let in_status = |it| Filter { status: Some(it), accepted_before: Some(before), ..filter.clone() };
    let both = [Status::Pending, Status::InProgress].map(in_status);
    if is_dry { both.to_vec() } else { [both.clone(), both].concat() }
}

/// What a request means.
fn meant(request: BulkRequest) -> Result<(Filter, Action, BulkOptions), Trouble> {
    let BulkRequest { action, filter: wanted, all, dry_run, rate, canary } = request;
    let mut filter = wanted.as_ref().map(filter).transpose()?.unwrap_or_default();
    if filter == Filter::default() && all != Some(true) {
        return Err(Trouble::invalid("`filter` says nothing: say which executions, or `\"all\": true`."));
    }
    let (action, status) = match action {
        Verb::Redrive => (Action::Redrive(None), Some(Status::Failed)),
        Verb::Cancel => (Action::Cancel, None),
        Verb::Park => (Action::Park, Some(Status::Pending)),
        Verb::Unpark => (Action::Unpark, Some(Status::Pending)),
        Verb::Resolve => {
            return Err(Trouble::invalid(
                "`resolve` is for one execution at a time: somebody has to have looked.",
            ));
        }
    };
    // Only where it makes sense: the rest would be skipped one by one.
    filter.status = filter.status.or(status);
    let rate = rate.as_deref().map(read_rate).transpose()?;
    if canary.is_some_and(|it| it == 0 || it > PAGE_MAX) {
        return Err(Trouble::invalid(format!("`canary` is out of its range: wanted 1 to {PAGE_MAX}.")));
    }
    Ok((filter, action, BulkOptions { dry_run: dry_run.unwrap_or_default(), rate, canary }))
}

fn read_rate(text: &str) -> Result<Rate, Trouble> {
    let rate = config::rate(text).ok().and_then(|it| Rate::new(it.events, it.per));
    rate.ok_or_else(|| Trouble::invalid("`rate` is none: wanted such as `100/s`, `10/m` or `1000/h`."))
}

/// `GET /v1/jobs`.
pub(super) async fn list(desk: Arc<Desk>, _: Asked<Nothing, Nothing>) -> Result<JobsView, Trouble> {
    Ok(JobsView { jobs: desk.runtime.jobs().await?.into_iter().map(view).collect() })
}

/// `GET /v1/jobs/{number}`.
pub(super) async fn show(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<JobView, Trouble> {
    let job = desk.runtime.job(number(&asked.name)?).await?;
    Ok(view(job.ok_or(problems::NOT_FOUND)?))
}

/// `POST /v1/jobs/{number}/abort`.
pub(super) async fn abort(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<JobView, Trouble> {
    match desk.runtime.abort(number(&asked.name)?, &asked.who.name).await? {
        Aborting::Told(job) => Ok(view(job)),
        Aborting::Over(_) => Err(Trouble::conflict("The job is over.")),
        Aborting::NotFound => Err(problems::NOT_FOUND.into()),
    }
}

/// `POST /v1/errors/{print}/stop`.
pub(super) async fn stop_errors(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<JobView, Trouble> {
    let print: ErrorPrint = asked.name.parse().map_err(|_| problems::NOT_FOUND)?;
    let job = desk.runtime.stop_errors(print, &asked.who.name).await?.ok_or(problems::BUSY)?;
    Ok(view(job.report()))
}

/// `POST /v1/past/replay`.
pub(super) async fn replay_past(
    desk: Arc<Desk>,
    asked: Asked<Nothing, Nothing>,
) -> Result<PastView, Trouble> {
    Ok(PastView { found: decided(desk.runtime.replay_past(&asked.who.name).await?)? })
}

/// `POST /v1/past/skip`.
pub(super) async fn skip_past(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<JobView, Trouble> {
    Ok(view(decided(desk.runtime.skip_past(&asked.who.name).await?)?.report()))
}

fn decided<T>(decided: Decided<T>) -> Result<T, Trouble> {
    match decided {
        Decided::Done(it) => Ok(it),
        Decided::Nothing => Err(Trouble::conflict("The store forgot nothing: there is nothing to decide.")),
        Decided::Busy => Err(problems::BUSY.into()),
    }
}

impl Desk {
    /// Whoever names a function that nobody has misspelt it, and should not read that there is nothing to be done. One
    /// that is gone may have left executions.
    async fn knows(&self, filter: &Filter) -> Result<(), Trouble> {
        let Some(name) = &filter.function else { return Ok(()) };
        let is_known = self.runtime.status().iter().any(|it| it.function == *name)
            || self.runtime.counts().await?.iter().any(|it| it.function == *name);
        if is_known {
            return Ok(());
        }
        Err(Trouble::invalid(format!(
            "There is no function `{name}`, and no execution of one: `semel functions` lists them."
        )))
    }
}

/// The number of a job, as it stands in an address.
fn number(text: &str) -> Result<u64, Trouble> {
    text.parse().map_err(|_| problems::NOT_FOUND.into())
}

fn view(job: JobReport) -> JobView {
    let JobReport { number, action, who, began_at, progress } = job;
    let Progress { matched, done, skipped, state } = progress;
    let (state, error) = match state {
        JobState::Running => (Stage::Running, None),
        JobState::Canary => (Stage::Canary, None),
        JobState::Finished => (Stage::Finished, None),
        JobState::Aborted => (Stage::Aborted, None),
        JobState::Interrupted => (Stage::Interrupted, None),
        JobState::CanaryFailed => (Stage::CanaryFailed, None),
        JobState::Failed(error) => (Stage::Failed, Some(error)),
    };
    JobView { number, action, who, began_at: Moment(began_at), state, matched, done, skipped, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::views::FilterRequest;

    fn request(text: &str) -> Result<(Filter, Action, BulkOptions), Trouble> {
        meant(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn everything_is_only_meant_if_it_is_said() {
        assert!(request(r#"{"action": "redrive"}"#).is_err());
        assert!(request(r#"{"action": "redrive", "filter": {}}"#).is_err());
        let (filter, ..) = request(r#"{"action": "redrive", "all": true}"#).unwrap();
        assert_eq!(filter, Filter { status: Some(Status::Failed), ..Filter::default() });
        let (filter, ..) = request(r#"{"action": "cancel", "filter": {"function": "orders"}}"#).unwrap();
        assert_eq!((filter.function.as_deref(), filter.status), (Some("orders"), None));
    }

    /// Hundreds of thousands that took effect are not looked at one by one.
    #[test]
    fn only_what_has_not_ended_is_looked_for_to_be_cancelled() {
        let soon = Timestamp::from_millis(5_000);
        let looked_for = |filter: Filter, action: &Action, is_dry| {
            let passes = passes(filter, action, is_dry, soon);
            passes.iter().map(|it| (it.status, it.accepted_before)).collect::<Vec<_>>()
        };
        let both = [Status::Pending, Status::InProgress].map(|it| (Some(it), Some(soon)));
        assert_eq!(looked_for(Filter::default(), &Action::Cancel, true), both);
        assert_eq!(looked_for(Filter::default(), &Action::Cancel, false), [both, both].concat());
        let early = Some(Timestamp::from_millis(7));
        let filter = Filter { accepted_before: early, ..Filter::default() };
        assert!(looked_for(filter, &Action::Cancel, true).iter().all(|it| it.1 == early));
        let failed = Filter { status: Some(Status::Failed), ..Filter::default() };
        assert_eq!(looked_for(failed.clone(), &Action::Cancel, false), [(Some(Status::Failed), None)]);
        assert_eq!(looked_for(failed, &Action::Redrive(None), false), [(Some(Status::Failed), None)]);
    }

    #[test]
    fn limits_of_a_job_are_checked() {
        for wrong in
            [r#""rate": "fast""#, r#""canary": 0"#, r#""canary": 501"#, r#""filter": {"error": "x"}"#]
        {
            assert!(request(&format!(r#"{{"action": "cancel", "all": true, {wrong}}}"#)).is_err(), "{wrong}");
        }
        assert!(request(r#"{"action": "resolve", "all": true}"#).is_err());
        let right = r#"{"action": "redrive", "all": true, "rate": "10/s", "canary": 5, "dry_run": true}"#;
        let (.., options) = request(right).unwrap();
        assert_eq!((options.canary, options.dry_run), (Some(5), true));
    }

    #[test]
    fn a_filter_is_the_same_in_a_body_and_in_a_query() {
        let wanted = FilterRequest {
            function: Some("orders".to_owned()),
            status: None,
            reason: None,
            r#type: None,
            name: None,
            error: Some("0123456789abcdef".to_owned()),
            accepted_from: None,
            accepted_before: None,
        };
        assert_eq!(filter(&wanted).unwrap().error, Some(ErrorPrint(0x0123_4567_89ab_cdef)));
    }
}
