//! Handing out.

use super::{
    Shared,
    lines::Lines,
    row,
    send::{Operation, Query, Reading, Trouble},
};
use semel::store::postgres::shared::told;
use semel_core::{
    call::LAPSED,
    execution::Execution,
    queue::{Demand, Fenced},
    store::StoreError,
};
use sqlx::{AssertSqlSafe, Row as _, postgres::PgRow};
use std::{collections::BTreeMap, sync::Arc};

const DOING: &str = "claiming executions";

/// Most times that a demand is made whose answer was lost.
const TRIES_MAX: u32 = 3;

/// Hands out what is due, the longest due first within each function.
///
/// A demand whose answer was lost is not made again before it was looked what it was given.
pub(super) async fn claim(shared: Arc<Shared>, demand: Demand) -> Result<Vec<Fenced<Execution>>, StoreError> {
    let claim = Claim::new(&demand)?;
    let mut tries = 1;
    loop {
        match shared.attempt(&claim).await {
            Ok(rows) => return shared.readable(&rows).await,
            Err(Trouble::Lost(_)) if tries < TRIES_MAX => tries += 1,
            Err(Trouble::Conflict(error) | Trouble::Lost(error) | Trouble::Refused(error)) => {
                return Err(error);
            }
        }
        let held = shared.held(&claim.holder).await?;
        if !held.is_empty() {
            return Ok(held);
        }
    }
}

impl Shared {
    async fn held(&self, holder: &[u8]) -> Result<Vec<Fenced<Execution>>, StoreError> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.statements.held))).bind(holder);
        let rows = self.read(Reading { doing: DOING, query }).await?;
        let mut held: Vec<_> = rows.iter().map(|row| row::read(row, 0)).collect::<Result<_, _>>()?;
        held.sort_by_key(|it| it.fence);
        Ok(held)
    }
}

struct Claim {
    functions: Vec<String>,
    limits: Vec<i64>,
    leases: Vec<i64>,
    holder: Vec<u8>,
    writer: [u8; 16],
}

impl Claim {
    fn new(demand: &Demand) -> Result<Self, StoreError> {
        // A function that is named twice gets both.
        let mut wants: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for want in &demand.wants {
            let lease = i64::try_from(want.lease.as_millis()).unwrap_or(i64::MAX);
            let (limit, _) = wants.entry(row::escaped(&want.function)).or_insert((0, lease));
            *limit += i64::from(want.limit);
        }
        Ok(Self {
            limits: wants.values().map(|it| it.0).collect(),
            leases: wants.values().map(|it| it.1).collect(),
            functions: wants.into_keys().collect(),
            holder: row::holder_bytes(demand.holder),
            writer: super::send::writer()?,
        })
    }
}

impl Shared {
    /// What was handed out and can be read. The rest is put aside, so that it stands in nobody's way but that of those
    /// behind it in its line; if nothing else was handed out, it is told.
    async fn readable(&self, rows: &[PgRow]) -> Result<Vec<Fenced<Execution>>, StoreError> {
        let (mut handed_out, mut trouble) = (Vec::with_capacity(rows.len()), None);
        let (mut ids, mut fences) = (Vec::new(), Vec::new());
        for row in rows {
            let turn = turn(row).map_err(|error| told(DOING, error))?;
            match row::read(row, 6) {
                Ok(it) => handed_out.push((turn, it)),
                Err(error) => {
                    let id: Vec<u8> = row.try_get(6).map_err(|error| told(DOING, error))?;
                    self.damaged.note(&id);
                    ids.push(id);
                    fences.push(row.try_get::<i64, _>(7).map_err(|error| told(DOING, error))?);
                    trouble = Some(error);
                }
            }
        }
        if !ids.is_empty() {
            let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.statements.put_aside)));
            self.read(Reading { doing: "putting damaged rows aside", query: query.bind(ids).bind(fences) })
                .await?;
        }
        handed_out.sort_by(|a, b| a.0.cmp(&b.0));
        match trouble {
            Some(error) if handed_out.is_empty() => Err(error),
            _ => Ok(handed_out.into_iter().map(|(_, it)| it).collect()),
        }
    }
}

/// What a row was handed out by: its function, since when it was due, and the fence it had.
fn turn(row: &PgRow) -> Result<(String, i64, i64), sqlx::Error> {
    Ok((row.try_get(2)?, row.try_get(0)?, row.try_get(1)?))
}

impl Operation for Claim {
    fn doing(&self) -> &'static str {
        DOING
    }

    fn hands_out(&self) -> bool {
        true
    }

    fn lines(&self) -> &Lines {
        Lines::none()
    }

    fn query(&self, shared: &Shared) -> Query<'_> {
        sqlx::query(AssertSqlSafe(Arc::clone(&shared.statements.claim)))
            .bind(&self.functions)
            .bind(&self.limits)
            .bind(&self.leases)
            .bind(&self.holder)
            .bind(&self.writer[..])
            .bind(row::error_print(LAPSED))
    }

    fn moment(&self) -> usize {
        3
    }
}
