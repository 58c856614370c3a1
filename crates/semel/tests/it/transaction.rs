//! Effects that commit with the user's own rows.

use crate::support::{World, crash, never};
use semel::{
    BoxFuture, ErrorKind, Fence, HandlerError, Key, Lease, Record, StoreError, Stored, Swap, Transaction,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// A user's database: rows, and records beside them, both changed by a commit.
#[derive(Default)]
struct Database {
    rows: Vec<String>,
    records: HashMap<Key, Stored>,
    fence: u64,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Database>>);
/// Owns what it uses, as a pool's transactions do: so the future that holds it can be spawned.
struct Tx {
    shared: Shared,
    rows: Vec<String>,
    records: HashMap<Key, Stored>,
}

impl Tx {
    fn insert(&mut self, row: &str) {
        self.rows.push(row.to_owned());
    }

    fn commit(self) {
        let mut database = self.shared.0.lock().unwrap();
        database.rows.extend(self.rows);
        database.records.extend(self.records);
    }
}

impl Transaction for Tx {
    fn load<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move { Ok(self.shared.0.lock().unwrap().records.get(key).cloned()) })
    }

    fn swap<'a>(
        &'a mut self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let mut database = self.shared.0.lock().unwrap();
            let found = database.records.get(key).cloned();
            if found.as_ref().map(|it| it.fence) != expected {
                return Ok(Swap::Lost(found));
            }
            database.fence += 1;
            let fence = Fence::new(database.fence).unwrap();
            self.records.insert(key.clone(), Stored { fence, record: record.clone() });
            Ok(Swap::Won(fence))
        })
    }
}

impl Shared {
    fn begin(&self) -> Tx {
        Tx { shared: self.clone(), rows: Vec::new(), records: HashMap::new() }
    }

    fn rows(&self) -> usize {
        self.0.lock().unwrap().rows.len()
    }
}

async fn book(shared: &Shared, lease: &Lease, commits: bool) -> Result<u32, HandlerError> {
    let mut tx = shared.begin();
    let booked = lease
        .effect("book")
        .transactional(&mut tx)
        .run(async |tx| {
            tx.insert("a row");
            Ok::<_, HandlerError>(7)
        })
        .await?;
    if !commits {
        return never().await;
    }
    tx.commit();
    Ok(booked)
}

#[tokio::test]
async fn a_transactional_effect_commits_with_the_rows_or_not_at_all() {
    let (world, shared) = (World::new(), Shared::default());
    crash(world.call().run(async |lease| book(&shared, lease, false).await));
    assert_eq!(shared.rows(), 0);
    world.lapse();
    crash(world.call().run(async |lease| {
        book(&shared, lease, true).await?;
        never::<Result<u32, HandlerError>>().await
    }));
    assert_eq!(shared.rows(), 1);
    world.lapse();
    assert_eq!(world.call().run(async |lease| book(&shared, lease, true).await).await.unwrap(), 7);
    assert_eq!(shared.rows(), 1, "what was committed was run again");
}

#[tokio::test]
async fn a_transactional_effect_that_lost_to_another_commit_is_superseded() {
    let (world, shared) = (World::new(), Shared::default());
    let lost = world.call().run(async |lease| {
        let mut tx = shared.begin();
        let outcome = lease.effect("book").transactional(&mut tx).run(async |tx| {
            tx.insert("a row");
            let key = lease.key().effect("book")?;
            let mut other = shared.begin();
            let record = semel::Store::load(&*world.store, lease.key()).await?.expect("it runs").record;
            assert!(matches!(other.swap(&key, None, &record).await?, Swap::Won(_)));
            other.commit();
            Ok::<_, HandlerError>(7)
        });
        Ok(outcome.await?)
    });
    assert_eq!(lost.await.unwrap_err().kind(), ErrorKind::Superseded);
    assert_eq!(shared.rows(), 0);
}

#[tokio::test]
async fn a_transactional_effect_can_be_spawned() {
    let world = World::new();
    let call = world.call();
    let task = tokio::spawn(async move {
        let shared = Shared::default();
        call.run(async |lease| book(&shared, lease, true).await).await
    });
    assert_eq!(task.await.unwrap().unwrap(), 7);
}
