//! Accepting.

use super::{
    Shared,
    lines::Lines,
    row::{self, Rows},
    send::{Operation, Query},
};
use semel::store::postgres::shared::{SENDS_MAX, STORE, fence, told};
use semel_core::{
    execution::{Execution, ExecutionId},
    queue::{Accepted, Fenced},
    store::{StoreError, StoreErrorKind},
};
use sqlx::{AssertSqlSafe, Row as _, postgres::PgRow};
use std::{collections::BTreeMap, sync::Arc};

const DOING: &str = "accepting executions";

/// Accepts what is new, and answers for each in order.
pub(super) async fn accept(shared: Arc<Shared>, new: Vec<Execution>) -> Result<Vec<Accepted>, StoreError> {
    let writer = super::send::writer()?;
    // Of each id the first of the batch, in key order.
    let mut firsts: BTreeMap<ExecutionId, usize> = BTreeMap::new();
    for (place, execution) in new.iter().enumerate() {
        firsts.entry(execution.id()).or_insert(place);
    }
    let mut answers: BTreeMap<usize, Accepted> = BTreeMap::new();
    let mut given: BTreeMap<usize, u64> = BTreeMap::new();
    let mut left: Vec<usize> = firsts.values().copied().collect();
    for _ in 0..SENDS_MAX {
        if left.is_empty() {
            break;
        }
        let batch = Batch::new(&new, &left, &writer);
        for row in shared.send(&batch).await?.rows {
            let Some((place, answer, sequence)) = batch.answer(&row)? else { continue };
            answers.insert(place, answer);
            given.extend(sequence.map(|it| (place, it)));
        }
        left.retain(|place| !answers.contains_key(place));
    }
    if !left.is_empty() {
        let context = format!("{DOING}: others accept the same, again and again; try again");
        return Err(StoreError::new(StoreErrorKind::Unavailable, STORE, context));
    }
    Ok((0..new.len()).map(|place| answer(&new, &firsts, &answers, &given, place)).collect())
}

/// The answer for this place: that of the first with its id, or the first itself.
fn answer(
    new: &[Execution],
    firsts: &BTreeMap<ExecutionId, usize>,
    answers: &BTreeMap<usize, Accepted>,
    given: &BTreeMap<usize, u64>,
    place: usize,
) -> Accepted {
    let first = firsts[&new[place].id()];
    match &answers[&first] {
        Accepted::New(fence) if place != first => {
            let mut value = new[first].clone();
            if let (Some(order), Some(sequence)) = (&mut value.order, given.get(&first)) {
                order.sequence = *sequence;
            }
            Accepted::Duplicate(Box::new(Fenced { fence: *fence, value }))
        }
        answer => answer.clone(),
    }
}

/// Some executions of a batch, as rows.
struct Batch<'a> {
    rows: Rows,
    /// Where they stand in the batch.
    places: Vec<i64>,
    writer: &'a [u8; 16],
    lines: Lines,
}

impl<'a> Batch<'a> {
    fn new(new: &[Execution], places: &[usize], writer: &'a [u8; 16]) -> Self {
        let mut rows = Rows::default();
        for place in places {
            rows.push(&new[*place], true);
        }
        let lines = Lines::of(rows.lines.iter());
        Self { rows, places: places.iter().copied().map(row::number).collect(), writer, lines }
    }

    /// What a row says: the place, what became of it, and its sequence if it was given one. Nothing if a twin was in
    /// flight: then the next look finds it.
    fn answer(&self, row: &PgRow) -> Result<Option<(usize, Accepted, Option<u64>)>, StoreError> {
        let column = |error| told(DOING, error);
        let place: i64 = row.try_get(0).map_err(column)?;
        let won: Option<i64> = row.try_get(1).map_err(column)?;
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        if let Some(number) = won {
            let sequence: Option<i64> = row.try_get(2).map_err(column)?;
            let new = Accepted::New(fence(STORE, number)?);
            return Ok(Some((place, new, sequence.map(i64::cast_unsigned))));
        }
        let Some(writer) = row.try_get::<Option<Vec<u8>>, _>(3).map_err(column)? else { return Ok(None) };
        let found = row::read(row, 7)?;
        // Our own, of a statement whose reply was lost.
        if writer == self.writer {
            let sequence = found.value.order.as_ref().map(|it| it.sequence);
            return Ok(Some((place, Accepted::New(found.fence), sequence)));
        }
        Ok(Some((place, Accepted::Duplicate(Box::new(found)), None)))
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
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&shared.statements.accept)));
        self.rows.bind(query).bind(&self.places).bind(&self.writer[..])
    }

    fn moment(&self) -> usize {
        4
    }
}
