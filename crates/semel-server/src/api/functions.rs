//! Functions: listing, adding, removing, pausing.

use super::{
    book::Unchanged,
    desk::Desk,
    function_shape::FunctionRequest,
    overview::ledger_of,
    problems::{self, Trouble},
    table::Asked,
    views::{DefinedBy, DrainRequest, FunctionView, FunctionsView, LedgerView, Nothing, SwitchView},
};
use crate::config::duration_text;
use semel_core::queue::Counts;
use semel_runtime::{FunctionStatus, Rate};
use std::{sync::Arc, time::Duration};

/// How long draining waits, if nobody said otherwise, and at most.
pub const DRAIN_SECS: (u32, u32) = (30, 300);

/// `GET /v1/functions`.
pub(super) async fn list(desk: Arc<Desk>, _: Asked<Nothing, Nothing>) -> Result<FunctionsView, Trouble> {
    let counts = desk.runtime.counts().await?;
    let mut functions: Vec<_> = desk.runtime.status().iter().map(|it| desk.function(it, &counts)).collect();
    let left_out = desk.book.left_out();
    functions.retain(|it| !left_out.contains_key(&it.name));
    functions.extend(left_out.into_iter().map(|(name, why)| left_out_view(name, why, &counts)));
    functions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(FunctionsView { functions })
}

/// `GET /v1/functions/{name}`.
pub(super) async fn show(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<FunctionView, Trouble> {
    let counts = desk.runtime.counts().await?;
    if let Some(why) = desk.book.left_out().remove(&asked.name) {
        return Ok(left_out_view(asked.name, why, &counts));
    }
    Ok(desk.function(&desk.status_of(&asked.name)?, &counts))
}

/// `PUT /v1/functions/{name}`.
pub(super) async fn put(
    desk: Arc<Desk>,
    asked: Asked<Nothing, FunctionRequest>,
) -> Result<FunctionView, Trouble> {
    let Asked { who, name, body, query } = asked;
    desk.book.put(&name, body.0, &who.name).await?;
    show(desk, Asked { who, name, query, body: Nothing {} }).await
}

/// `DELETE /v1/functions/{name}`.
pub(super) async fn remove(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<Nothing, Trouble> {
    desk.book.remove(&asked.name, &asked.who.name).await?;
    Ok(Nothing {})
}

/// `POST /v1/functions/{name}/pause`.
pub(super) async fn pause(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<SwitchView, Trouble> {
    let before = desk.status_of(&asked.name)?;
    let is_changed = desk.runtime.pause(&asked.name, &asked.who.name).await?;
    Ok(SwitchView { function: asked.name, is_paused: true, is_changed, is_idle: before.held == 0 })
}

/// `POST /v1/functions/{name}/resume`.
pub(super) async fn resume(desk: Arc<Desk>, asked: Asked<Nothing, Nothing>) -> Result<SwitchView, Trouble> {
    let before = desk.status_of(&asked.name)?;
    let is_changed = desk.runtime.resume(&asked.name, &asked.who.name).await?;
    Ok(SwitchView { function: asked.name, is_paused: false, is_changed, is_idle: before.held == 0 })
}

/// `POST /v1/functions/{name}/drain`.
pub(super) async fn drain(
    desk: Arc<Desk>,
    asked: Asked<Nothing, DrainRequest>,
) -> Result<SwitchView, Trouble> {
    let before = desk.status_of(&asked.name)?;
    let within = asked.body.within_secs.unwrap_or(DRAIN_SECS.0);
    if within > DRAIN_SECS.1 {
        return Err(Trouble::invalid(format!(
            "`within_secs` is out of its range: wanted 0 to {}.",
            DRAIN_SECS.1
        )));
    }
    let (within, only_waits) = (Duration::from_secs(within.into()), asked.body.only_wait == Some(true));
    let is_idle = if only_waits {
        desk.runtime.drained(&asked.name, within).await?
    } else {
        desk.runtime.drain(&asked.name, &asked.who.name, within).await?
    };
    // Somebody may have resumed it meanwhile. One that is gone starts nothing.
    let is_paused = desk.status_of(&asked.name).map_or(true, |it| it.is_paused);
    let is_changed = !only_waits && !before.is_paused;
    Ok(SwitchView { function: asked.name, is_paused, is_changed, is_idle })
}

impl Desk {
    fn status_of(&self, name: &str) -> Result<FunctionStatus, Trouble> {
        let found = self.runtime.status().into_iter().find(|it| *it.function == *name);
        found.ok_or_else(|| problems::NOT_FOUND.into())
    }

    fn function(&self, status: &FunctionStatus, counts: &[Counts]) -> FunctionView {
        let known = self.book.known(&status.function);
        FunctionView {
            name: status.function.to_string(),
            defined_by: match &known {
                Some((true, _)) => DefinedBy::File,
                Some((false, _)) => DefinedBy::Api,
                None => DefinedBy::Server,
            },
            url: known.map(|(_, url)| url),
            is_paused: status.is_paused,
            is_removed: status.is_removed,
            left_out: None,
            breaker: status.breaker.as_str().to_owned(),
            in_flight: status.in_flight,
            concurrency: status.concurrency,
            rate: status.rate.as_ref().map(rate_text),
            ledger: ledger_in(counts, &status.function),
        }
    }
}

/// A function that this node leaves out.
fn left_out_view(name: String, why: String, counts: &[Counts]) -> FunctionView {
    FunctionView {
        ledger: ledger_in(counts, &name),
        name,
        defined_by: DefinedBy::Api,
        url: None,
        is_paused: false,
        is_removed: false,
        left_out: Some(why),
        breaker: "closed".to_owned(),
        in_flight: 0,
        concurrency: 0,
        rate: None,
    }
}

/// The books of a function among these.
fn ledger_in(counts: &[Counts], name: &str) -> LedgerView {
    let found = counts.iter().find(|it| *it.function == *name);
    found.map_or_else(|| ledger_of(&Counts::none(name.into())), ledger_of)
}

/// A rate, as the file has it.
fn rate_text(rate: &Rate) -> String {
    let per = match rate.per().as_secs() {
        1 => "s".to_owned(),
        60 => "m".to_owned(),
        3_600 => "h".to_owned(),
        _ => duration_text(rate.per()),
    };
    format!("{}/{per}", rate.count())
}

impl From<Unchanged> for Trouble {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Missing => problems::NOT_FOUND.into(),
            Unchanged::TheFiles => Self::conflict(
                "The function is in the configuration file: change it there, and reload the file.",
            ),
            Unchanged::Needed(other) => Self::conflict(format!(
                "The function `{other}` sends its dead letters there: change that one first."
            )),
            Unchanged::TooMany => Self::conflict("There are as many functions as there may be."),
            Unchanged::Wrong(mistakes) => {
                let all = mistakes.join("; ");
                let end = if all.ends_with('?') { "" } else { "." };
                Self::invalid(format!("The function is wrong: {all}{end}"))
            }
            Unchanged::Store(error) => error.into(),
        }
    }
}
