//! What a repository makes of documents: on documents that fail on command.

use semel::{
    BoxFuture, Key, MemoryStore, Once, StoreError, StoreErrorKind,
    repository::{
        DOCUMENT_BYTES_MAX, Document, Documents, Put, Repository, RepositoryErrorKind, StoreDocuments,
        Version,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, VecDeque},
    error::Error as _,
    sync::{Arc, Mutex},
};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Asset {
    facility: String,
    load: u32,
}

fn asset(load: u32) -> Asset {
    Asset { facility: "north".to_owned(), load }
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

/// What happens to one write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// It fails, and nothing is written.
    Before,
    /// It is carried out, and the reply is lost.
    After,
    /// Somebody else writes first.
    Overtaken,
}

/// Documents that fail on command.
struct Scripted {
    inner: StoreDocuments,
    script: Mutex<VecDeque<Fault>>,
    writes: Mutex<u32>,
}

impl Scripted {
    fn unavailable() -> StoreError {
        StoreError::new(StoreErrorKind::Unavailable, "scripted", "write a document")
    }

    /// Somebody else adds a hundred.
    async fn overtake(&self, key: &Key) {
        let found = self.inner.load(key).await.unwrap().unwrap();
        let mut value: Asset = serde_json::from_str(&found.json).unwrap();
        value.load += 100;
        let json = serde_json::to_string(&value).unwrap();
        let theirs = Document { version: found.version.next(), writer: 1, json };
        assert_eq!(self.inner.put(key, Some(found.version), &theirs).await.unwrap(), Put::Written);
    }
}

impl Documents for Scripted {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        self.inner.load(key)
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        document: &'a Document,
    ) -> BoxFuture<'a, Result<Put, StoreError>> {
        Box::pin(async move {
            *self.writes.lock().unwrap() += 1;
            let fault = self.script.lock().unwrap().pop_front();
            match fault {
                None => {}
                Some(Fault::Before) => return Err(Scripted::unavailable()),
                Some(Fault::After) => {
                    let _ = self.inner.put(key, expected, document).await?;
                    return Err(Scripted::unavailable());
                }
                Some(Fault::Overtaken) => self.overtake(key).await,
            }
            self.inner.put(key, expected, document).await
        })
    }
}

struct World {
    scripted: Arc<Scripted>,
    once: Once,
    assets: Repository<Asset>,
}

impl World {
    fn new() -> Self {
        let once = Once::new(MemoryStore::new());
        let inner = once.documents();
        let scripted = Arc::new(Scripted { inner, script: Mutex::default(), writes: Mutex::default() });
        let assets = Repository::from_documents(scripted.clone(), "assets");
        Self { scripted, once, assets }
    }

    fn script(&self, faults: impl IntoIterator<Item = Fault>) {
        self.scripted.script.lock().unwrap().extend(faults);
    }

    fn writes(&self) -> u32 {
        *self.scripted.writes.lock().unwrap()
    }

    async fn check(&self, load: u32, at: u64) {
        let found = self.assets.get("a-1").await.unwrap().unwrap();
        assert_eq!((found.value, found.version), (asset(load), version(at)));
    }
}

#[tokio::test]
async fn the_same_upsert_twice_leaves_the_same_state_and_version() {
    let world = World::new();
    assert_eq!(world.assets.upsert("a-1", &asset(5)).await.unwrap(), version(1));
    assert_eq!(world.assets.upsert("a-1", &asset(5)).await.unwrap(), version(1));
    assert_eq!(world.assets.upsert("a-1", &asset(6)).await.unwrap(), version(2));
    assert_eq!(world.assets.upsert("a-1", &asset(6)).await.unwrap(), version(2));
    world.check(6, 2).await;
}

#[tokio::test]
async fn the_order_of_members_is_no_change() {
    let once = Once::memory();
    let values = Repository::<HashMap<String, u32>>::new(once.documents(), "values");
    let value: HashMap<_, _> = (0..50).map(|it| (it.to_string(), it)).collect();
    let other: HashMap<_, _> = (0..50).rev().map(|it| (it.to_string(), it)).collect();
    let first = values.upsert("a", &value).await.unwrap();
    assert_eq!(values.upsert("a", &other).await.unwrap(), first);
}

#[tokio::test]
async fn a_stale_version_is_refused_with_the_current_one() {
    let world = World::new();
    let first = world.assets.create("a-1", &asset(1)).await.unwrap();
    let second = world.assets.update_if("a-1", first, &asset(2)).await.unwrap();
    assert_eq!(second, version(2));
    let stale = world.assets.update_if("a-1", first, &asset(3)).await.unwrap_err();
    assert_eq!(stale.kind(), RepositoryErrorKind::ConcurrentModification { current: Some(second) });
    assert_eq!(
        stale.to_string(),
        "`assets/a-1`: was written by somebody else and is at version 2 now: read it again"
    );
    let again = world.assets.create("a-1", &asset(3)).await.unwrap_err();
    assert_eq!(again.kind(), RepositoryErrorKind::ConcurrentModification { current: Some(second) });
    let absent = world.assets.update_if("a-2", first, &asset(3)).await.unwrap_err();
    assert_eq!(absent.kind(), RepositoryErrorKind::ConcurrentModification { current: None });
    world.check(2, 2).await;
}

#[tokio::test]
async fn an_equal_value_of_somebody_else_is_not_taken_for_ones_own() {
    let world = World::new();
    let seen = world.assets.create("a-1", &asset(5)).await.unwrap();
    world.assets.update_if("a-1", seen, &asset(6)).await.unwrap();
    world.assets.update_if("a-1", seen, &asset(6)).await.unwrap_err();
    world.check(6, 2).await;
}

#[tokio::test]
async fn a_modification_is_applied_again_to_what_is_really_there() {
    let world = World::new();
    world.assets.create("a-1", &asset(1)).await.unwrap();
    world.script([Fault::Overtaken, Fault::Overtaken]);
    let mut seen = Vec::new();
    let modified = world.assets.modify("a-1", |asset| {
        seen.push(asset.load);
        asset.load += 10;
    });
    let modified = modified.await.unwrap();
    assert_eq!((modified.value, modified.version), (asset(211), version(4)));
    assert_eq!(seen, [1, 101, 201]);
    world.check(211, 4).await;
}

#[tokio::test]
async fn a_modification_gives_up_within_its_bound_and_says_where_things_are() {
    let world = World::new();
    world.assets.create("a-1", &asset(1)).await.unwrap();
    world.script([Fault::Overtaken; 10]);
    let bounded = world.assets.clone().modify_max(3);
    let error = bounded.modify("a-1", |asset| asset.load += 10).await.unwrap_err();
    assert_eq!(error.kind(), RepositoryErrorKind::ConcurrentModification { current: Some(version(4)) });
    assert!(error.is_transient());
}

#[tokio::test]
async fn a_modification_that_changes_nothing_is_not_written() {
    let world = World::new();
    world.assets.create("a-1", &asset(1)).await.unwrap();
    let writes = world.writes();
    let modified = world.assets.modify("a-1", |_| {}).await.unwrap();
    assert_eq!((modified.version, world.writes()), (version(1), writes));
}

#[tokio::test]
async fn what_is_not_there_is_modified_only_if_it_may_be_made() {
    let world = World::new();
    let error = world.assets.modify("a-1", |asset| asset.load += 1).await.unwrap_err();
    assert_eq!(error.kind(), RepositoryErrorKind::NotFound);
    for at in 1..=3 {
        let made = world.assets.modify_or("a-1", || asset(0), |asset| asset.load += 1).await.unwrap();
        assert_eq!(made.version, version(at));
    }
    world.check(3, 3).await;
}

#[tokio::test]
async fn a_write_whose_reply_was_lost_is_recognised() {
    let world = World::new();
    world.script([Fault::After]);
    assert_eq!(world.assets.create("a-1", &asset(1)).await.unwrap(), version(1));
    world.script([Fault::After]);
    assert_eq!(world.assets.update_if("a-1", version(1), &asset(2)).await.unwrap(), version(2));
    world.script([Fault::Before, Fault::After]);
    let modified = world.assets.modify("a-1", |asset| asset.load += 1).await.unwrap();
    assert_eq!(modified.version, version(3));
    world.check(3, 3).await;
}

#[tokio::test]
async fn a_change_that_may_have_been_written_and_was_overtaken_is_not_applied_twice() {
    let world = World::new();
    world.assets.create("a-1", &asset(1)).await.unwrap();
    world.script([Fault::After, Fault::Overtaken]);
    let error = world.assets.modify("a-1", |asset| asset.load += 10).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (RepositoryErrorKind::Store, false), "{error:?}");
    world.check(111, 3).await;
    world.script([Fault::After, Fault::Overtaken]);
    let error = world.assets.update_if("a-1", version(3), &asset(5)).await.unwrap_err();
    assert_eq!(error.kind(), RepositoryErrorKind::Store, "it was written");
    let told = error.source().unwrap().to_string();
    assert!(told.contains("at version 5 by now") && told.contains("whether the change is in it"), "{told}");
    world.check(105, 5).await;
    world.script([Fault::After, Fault::Overtaken]);
    assert_eq!(world.assets.upsert("a-1", &asset(7)).await.unwrap(), version(7), "the last one wins");
    world.check(7, 7).await;
}

#[tokio::test]
async fn a_change_that_was_not_written_is_applied_to_what_took_its_place() {
    let world = World::new();
    world.assets.create("a-1", &asset(1)).await.unwrap();
    world.script([Fault::Before, Fault::Overtaken]);
    let modified = world.assets.modify("a-1", |asset| asset.load += 10).await.unwrap();
    assert_eq!((modified.value, modified.version), (asset(111), version(3)));
}

#[tokio::test]
async fn a_database_that_stays_away_is_reported_within_a_bound() {
    let world = World::new();
    world.script([Fault::Before; 10]);
    let error = world.assets.upsert("a-1", &asset(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (RepositoryErrorKind::Store, true));
    assert_eq!(world.writes(), 4);
}

#[tokio::test]
async fn many_at_once_lose_no_change() {
    let world = World::new();
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let assets = world.assets.clone();
            tokio::spawn(async move {
                assets.modify_or("a-1", || asset(0), |asset| asset.load += 1).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    world.check(50, 50).await;
}

#[tokio::test]
async fn bad_ids_and_values_are_told() {
    let once = Once::memory();
    let texts = Repository::<String>::new(once.documents(), "texts");
    assert_eq!(texts.get("").await.unwrap_err().kind(), RepositoryErrorKind::InvalidId);
    assert_eq!(texts.get("a\nb").await.unwrap_err().kind(), RepositoryErrorKind::InvalidId);
    let fits = "x".repeat(DOCUMENT_BYTES_MAX - 2);
    texts.upsert("a", &fits).await.unwrap();
    let large = texts.upsert("a", &(fits + "x")).await.unwrap_err();
    assert_eq!(large.kind(), RepositoryErrorKind::Unwritable);
    let numbers = Repository::<u32>::new(once.documents(), "texts");
    assert_eq!(numbers.get("a").await.unwrap_err().kind(), RepositoryErrorKind::Unreadable);
}

#[tokio::test]
async fn documents_and_calls_of_one_name_do_not_meet_and_documents_are_not_purged() {
    let world = World::new();
    world.assets.create("a-1", &asset(1)).await.unwrap();
    assert!(world.once.get("assets", "a-1").await.unwrap().is_none());
    let ran = world.once.call("assets", "a-1").run(async |_| Ok(7)).await.unwrap();
    assert_eq!(ran, 7);
    world.once.purge(1_000).await.unwrap();
    world.check(1, 1).await;
}

#[tokio::test]
async fn a_forgotten_document_can_be_created_anew() {
    let world = World::new();
    world.assets.create("a-1", &asset(1)).await.unwrap();
    let place = Key::new("assets", "a-1").unwrap().effect(("semel", "document")).unwrap();
    world.once.forget(&place, "ann", "it was made up").await.unwrap();
    assert!(world.assets.get("a-1").await.unwrap().is_none());
    assert_eq!(world.assets.upsert("a-1", &asset(2)).await.unwrap(), version(1));
    world.check(2, 1).await;
}
