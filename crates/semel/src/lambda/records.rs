//! Functions that get records in batches: SQS, Kinesis and DynamoDB Streams, and SNS.
//!
//! 1. Each record of a batch is a call of its own. Those that fail, or that another invocation runs, are listed in
//!    the answer (`batchItemFailures`) and delivered again; those that succeeded are not run again.
//! 2. In a FIFO queue, what follows a failed message of its group is not begun, and listed. In a stream, nothing
//!    after the first failed record is begun: Lambda goes on from there.
//! 3. A record that failed for good is listed, too, each time: the source's own settings decide when it goes to a
//!    dead-letter queue. It is not run again for that.
//! 4. Sources that take no partial answer get an error if a record failed, and deliver everything again.
//! 5. A record that cannot be named in the answer fails the whole batch: nothing is lost.
//!
//! It cannot see whether the event source has `ReportBatchItemFailures` switched on. Without it, failed records are
//! lost.

mod source;
mod window;

use super::{
    error::Fault,
    function::{Answering, Answers, Function},
    pick::Pick,
    run::{self, Kept, Plan},
    settings::{Lambda, Name},
};
use crate::{
    error::{Error, ErrorKind},
    observe::Observed,
    once::Once,
};
use lambda_runtime::{Diagnostic, LambdaEvent};
use semel_core::{BoxFuture, sabotage};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use source::{Item, Order};
use std::collections::HashSet;

/// Most records in one batch: Lambda's own limit.
pub const RECORDS_MAX: usize = 10_000;

/// Each record of an event is one operation.
#[derive(Clone, Debug)]
pub struct Records {
    /// Nothing for the id that the source gives its records.
    key: Option<Pick>,
    at_once: usize,
}

/// A function whose events are batches of records, of which each is one operation.
///
/// The handler gets a record, not the batch: `aws_lambda_events::sqs::SqsMessage` fits, or any type that can be
/// read from a record's JSON.
///
/// ```
/// use lambda_runtime::LambdaEvent;
/// use semel::{Once, lambda};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Message { body: String }
///
/// let function = lambda::records(Once::memory()).handler(async |record: LambdaEvent<Message>, lease| {
///     println!("attempt {}: {}", lease.attempt(), record.payload.body);
///     Ok(())
/// });
/// ```
pub fn records(once: Once) -> Lambda<Records> {
    Lambda::new(once, Records { key: None, at_once: 1 })
}

impl Lambda<Records> {
    /// What names a record, picked from the record: a business key, or the id of an event in its body.
    ///
    /// Unless this is set it is what the source calls it: `messageId` of SQS, `eventID` of Kinesis and DynamoDB with
    /// the ARN of the stream, `MessageId` of SNS. Records of other sources are then refused.
    pub fn key(mut self, key: Pick) -> Self {
        self.kind.key = Some(key);
        self
    }

    /// How many records are run at a time, where their order does not matter; one unless set. Records of FIFO
    /// queues and of streams are always run one after the other.
    pub fn at_once(mut self, records: usize) -> Self {
        self.kind.at_once = records.max(1);
        self
    }
}

/// A batch.
#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(rename = "Records", borrow)]
    records: Vec<&'a RawValue>,
}

/// The answer that Lambda takes for a batch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Partial<'a> {
    batch_item_failures: Vec<Failed<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Failed<'a> {
    item_identifier: &'a str,
}

impl Function<'_, Records> {
    async fn answered(self, event: LambdaEvent<Box<RawValue>>) -> Result<Box<RawValue>, Fault> {
        let (json, context) = event.into_parts();
        let items = items(&json)?;
        let is_free = items.iter().all(|it| it.order == Order::Free);
        let failed = if is_free {
            self.any_order(&items, &context).await
        } else {
            self.in_order(&items, &context).await
        };
        answer(&items, failed)
    }

    /// Runs all of them, some at a time; gives the failed ones.
    async fn any_order(&self, items: &[Item<'_>], context: &lambda_runtime::Context) -> Vec<Lost> {
        let begin =
            |at: usize| -> BoxFuture<'_, Result<(), Fault>> { Box::pin(self.one(&items[at], context)) };
        let ended = window::all(items.len(), self.lambda.kind.at_once, &begin).await;
        let lost = |(at, ended): (usize, Result<(), Fault>)| Some(Lost { at, why: Some(ended.err()?) });
        ended.into_iter().enumerate().filter_map(lost).collect()
    }

    /// Runs one after the other, and nothing that must come after one that failed.
    async fn in_order(&self, items: &[Item<'_>], context: &lambda_runtime::Context) -> Vec<Lost> {
        let mut failed = Vec::new();
        let mut stopped = HashSet::new();
        for (at, item) in items.iter().enumerate() {
            if stopped.contains(&item.order) {
                failed.push(Lost { at, why: None });
            } else if let Err(why) = self.one(item, context).await {
                failed.push(Lost { at, why: Some(why) });
                if item.order != Order::Free && !sabotage::is_on("lambda_fifo_goes_on") {
                    stopped.insert(item.order.clone());
                }
            }
        }
        failed
    }

    async fn one(&self, item: &Item<'_>, context: &lambda_runtime::Context) -> Result<(), Fault> {
        let plan = self.plan(item, context)?;
        let work = (self.handler)(item.json, context.clone())?;
        run::run(plan, work, |_| Kept::Whole).await.map(drop)
    }

    fn plan(&self, item: &Item<'_>, context: &lambda_runtime::Context) -> Result<Plan, Fault> {
        let Lambda { settings, kind } = &self.lambda;
        let key = kind.key.clone().unwrap_or_else(|| item.source.key());
        let id = key.id(item.json).map_err(|why| Error::keyless(ErrorKind::InvalidKey, why))?;
        let fingerprint = settings.fingerprint(item.json, &item.source.payload())?;
        Ok(Plan::Protected(settings.call(context, Name { below: Vec::new(), id }, fingerprint)?))
    }
}

/// A record that is to be delivered again; without a reason if it was not begun.
struct Lost {
    at: usize,
    why: Option<Fault>,
}

fn items(json: &RawValue) -> Result<Vec<Item<'_>>, Fault> {
    let batch: Batch<'_> = serde_json::from_str(json.get())
        .map_err(|error| Fault::Event(format!("the event is not a batch of records: {error}")))?;
    if batch.records.len() > RECORDS_MAX {
        return Err(Fault::Event(format!("the batch has more than {RECORDS_MAX} records")));
    }
    batch.records.into_iter().map(Item::read).collect()
}

/// What is answered when these failed.
fn answer(items: &[Item<'_>], failed: Vec<Lost>) -> Result<Box<RawValue>, Fault> {
    let mut batch_item_failures = Vec::new();
    let mut whole = None;
    for Lost { at, why } in failed {
        let item = &items[at];
        match (item.id.as_deref(), why) {
            (Some(id), why) => {
                batch_item_failures.push(Failed { item_identifier: id });
                if let Some(why) = why {
                    Observed::record_failed(id, &Diagnostic::from(why));
                }
            }
            (None, why) => whole = whole.or(why),
        }
    }
    if let Some(why) = whole {
        return Err(why);
    }
    if sabotage::is_on("lambda_batch_hides_failures") {
        batch_item_failures.clear();
    }
    Ok(to_raw_value(&Partial { batch_item_failures }).expect("ids are text"))
}

impl Answers for Records {
    fn answer(function: Function<'_, Self>, event: LambdaEvent<Box<RawValue>>) -> Answering<'_> {
        Box::pin(async move { Ok(function.answered(event).await?) })
    }
}
