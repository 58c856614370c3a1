//! Writing changes, together with what they cause.

use super::{
    Shared,
    lines::Lines,
    row::{self, Rows},
    send::{Operation, Query, Reading},
};
use semel::store::postgres::shared::{STORE, fence, told};
use semel_core::{
    execution::ExecutionId,
    fence::Fence,
    queue::{CAUSES_MAX, Change, Written},
    store::StoreError,
};
use sqlx::{AssertSqlSafe, Row as _};
use std::{collections::BTreeMap, sync::Arc};

const DOING: &str = "writing changes";

/// Writes each change if its fence is the current one, and answers for each in order.
///
/// An event is sent only if the row turns out to have another.
pub(super) async fn write(shared: Arc<Shared>, changes: Vec<Change>) -> Result<Vec<Written>, StoreError> {
    // Of two that expect the same fence the first can win.
    let mut firsts: BTreeMap<(ExecutionId, Fence), usize> = BTreeMap::new();
    for (place, change) in changes.iter().enumerate() {
        firsts.entry((change.after.id(), change.expected)).or_insert(place);
    }
    let mut writing = Writing {
        shared: &shared,
        changes: &changes,
        writer: super::send::writer()?,
        written: vec![Written::Lost; changes.len()],
    };
    let places: Vec<usize> = firsts.into_values().collect();
    let differ = writing.send(&places, false).await?;
    if !differ.is_empty() {
        writing.send(&differ, true).await?;
    }
    Ok(writing.written)
}

/// A batch that is being written.
struct Writing<'a> {
    shared: &'a Shared,
    changes: &'a [Change],
    writer: [u8; 16],
    /// What became of each change so far.
    written: Vec<Written>,
}

impl Writing<'_> {
    /// Sends some changes, and gives those that were not written because their event is another than the row's.
    async fn send(&mut self, places: &[usize], sends_events: bool) -> Result<Vec<usize>, StoreError> {
        let batch = Batch::new(self.changes, places, sends_events, &self.writer);
        let answer = self.shared.send(&batch).await?;
        let mut differ = Vec::new();
        for row in &answer.rows {
            let item: i64 = row.try_get(0).map_err(column)?;
            // Items are counted from 1, in the order of the batch.
            let Some(place) = usize::try_from(item - 1).ok().and_then(|it| places.get(it)) else { continue };
            match row.try_get::<Option<i64>, _>(1).map_err(column)? {
                Some(number) => self.written[*place] = Written::Won(fence(STORE, number)?),
                None => differ.push(*place),
            }
        }
        if answer.is_repeated {
            self.recognise(places, &batch.rows).await?;
        }
        Ok(differ)
    }

    /// Of those that seem lost, finds the ones that are our own, of a statement whose reply was lost.
    async fn recognise(&mut self, places: &[usize], rows: &Rows) -> Result<(), StoreError> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.shared.statements.authors)));
        let query = query.bind(&rows.ids).bind(&self.writer[..]);
        let mut ours: BTreeMap<Content, i64> = BTreeMap::new();
        for row in self.shared.read(Reading { doing: DOING, query }).await? {
            let [id, execution] = [0, 2].map(|it| row.try_get::<Vec<u8>, _>(it));
            let key = (id.map_err(column)?, execution.map_err(column)?, row.try_get(3).map_err(column)?);
            ours.insert(key, row.try_get(1).map_err(column)?);
        }
        for (index, place) in places.iter().enumerate() {
            let event = rows.event_prints[index].clone();
            let ours = ours.get(&(rows.ids[index].clone(), rows.executions[index].clone(), event));
            if let (Written::Lost, Some(number)) = (self.written[*place], ours) {
                self.written[*place] = Written::Won(fence(STORE, *number)?);
            }
        }
        Ok(())
    }
}

/// What tells one write of ours from another: the id, the execution, and the hash of its event.
type Content = (Vec<u8>, Vec<u8>, Option<Vec<u8>>);

fn column(error: sqlx::Error) -> StoreError {
    told(DOING, error)
}

/// Some changes of a batch, as rows, and what they cause.
struct Batch<'a> {
    rows: Rows,
    expected: Vec<i64>,
    sends: Vec<bool>,
    causes: Rows,
    /// Whose causes they are, counted from 1, and their places in the batch.
    owners: Vec<i64>,
    places: Vec<i64>,
    writer: &'a [u8; 16],
    lines: Lines,
}

impl<'a> Batch<'a> {
    fn new(changes: &[Change], places: &[usize], sends_events: bool, writer: &'a [u8; 16]) -> Self {
        let (mut rows, mut causes) = (Rows::default(), Rows::default());
        let (mut expected, mut sends) = (Vec::new(), Vec::new());
        let (mut owners, mut caused) = (Vec::new(), Vec::new());
        for (item, place) in (1..).zip(places) {
            let change = &changes[*place];
            rows.push(&change.after, sends_events);
            expected.push(change.expected.get().cast_signed());
            // An execution without an event needs none to be sent.
            sends.push(sends_events || change.after.event.is_none());
            for (index, cause) in change.causes.iter().enumerate() {
                causes.push(cause, true);
                owners.push(item);
                caused.push(row::number(place * CAUSES_MAX + index));
            }
        }
        let lines = Lines::of(rows.lines.iter().chain(&causes.lines));
        Self { rows, expected, sends, causes, owners, places: caused, writer, lines }
    }
}

impl Operation for Batch<'_> {
    fn doing(&self) -> &'static str {
        DOING
    }

    fn lines(&self) -> &Lines {
        &self.lines
    }

    fn query(&self, shared: &Shared) -> Query<'_> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&shared.statements.write)));
        let query = self.rows.bind(query).bind(&self.expected).bind(&self.sends);
        self.causes.bind(query).bind(&self.owners).bind(&self.places).bind(&self.writer[..])
    }

    fn moment(&self) -> usize {
        2
    }
}
