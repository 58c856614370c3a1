//! The assets of some facilities, kept up to date by events that arrive twice, late, and all at once.
//!
//! An asset is registered once and then changes its state; each event says when the change happened. The asset
//! itself remembers the latest change that it has seen, so an older one, or the same one again, changes nothing;
//! and a change that another writer overtakes is applied again to what is really there. The program prints what
//! happened, and checks it.
//!
//! Run it: `cargo run --example assets`

use semel::{
    Once,
    repository::{Repository, RepositoryError, RepositoryErrorKind, Version, Versioned},
};
use serde::{Deserialize, Serialize};
use std::error::Error;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Asset {
    facility: String,
    kind: Kind,
    /// In kilowatts.
    capacity: u32,
    /// In kilowatts.
    load: u32,
    state: State,
    /// The sequence number of the latest change that was applied.
    changed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Kind {
    Generator,
    Battery,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum State {
    Idle,
    Running,
    Tripped,
}

#[derive(Clone, Debug)]
enum Event {
    Registered { asset: &'static str, facility: &'static str, kind: Kind, capacity: u32 },
    StateChanged { asset: &'static str, sequence: u64, state: State, load: u32 },
}

struct Assets(Repository<Asset>);

impl Assets {
    /// Applies an event; however often and in whatever order they come, the same events give the same assets.
    async fn apply(&self, event: &Event) -> Result<Version, RepositoryError> {
        match *event {
            Event::Registered { asset, facility, kind, capacity } => {
                let facility = facility.to_owned();
                let new = Asset { facility, kind, capacity, load: 0, state: State::Idle, changed: 0 };
                match self.0.create(asset, &new).await {
                    Err(error) => already_there(error),
                    created => created,
                }
            }
            Event::StateChanged { asset, sequence, state, load } => {
                let change = |asset: &mut Asset| {
                    if sequence > asset.changed {
                        (asset.state, asset.load, asset.changed) = (state, load, sequence);
                    }
                };
                Ok(self.0.modify(asset, change).await?.version)
            }
        }
    }

    async fn get(&self, id: &str) -> Result<Versioned<Asset>, Box<dyn Error>> {
        Ok(self.0.get(id).await?.ok_or("the asset is not there")?)
    }
}

/// Registered before: whatever has become of the asset since is not undone.
fn already_there(error: RepositoryError) -> Result<Version, RepositoryError> {
    match error.kind() {
        RepositoryErrorKind::ConcurrentModification { current: Some(current) } => Ok(current),
        _ => Err(error),
    }
}

fn registered() -> Event {
    Event::Registered { asset: "gen-1", facility: "north", kind: Kind::Generator, capacity: 800 }
}

fn changed(sequence: u64, state: State, load: u32) -> Event {
    Event::StateChanged { asset: "gen-1", sequence, state, load }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let once = Once::open(directory.path()).await?;
    let assets = Assets(Repository::new(once.documents(), "assets"));

    a_change_before_its_asset_is_to_be_delivered_again(&assets).await?;
    duplicates_change_nothing(&assets).await?;
    late_events_change_nothing(&assets).await?;
    a_stale_write_is_told_the_current_version(&assets).await?;
    all_at_once_lose_nothing(&assets).await?;
    the_same_upsert_twice_is_one(&assets).await?;

    // Another life of the process finds everything.
    let last = assets.get("gen-1").await?;
    drop((assets, once));
    let once = Once::open(directory.path()).await?;
    let assets = Assets(Repository::new(once.documents(), "assets"));
    assert_eq!(assets.get("gen-1").await?, last);
    println!("after a restart: {last:?}");
    Ok(())
}

async fn a_change_before_its_asset_is_to_be_delivered_again(assets: &Assets) -> Result<(), Box<dyn Error>> {
    let early = assets.apply(&changed(1, State::Running, 300)).await.expect_err("it is not registered");
    println!("a change before its asset: {early}");
    assert_eq!(early.kind(), RepositoryErrorKind::NotFound);
    Ok(())
}

async fn duplicates_change_nothing(assets: &Assets) -> Result<(), Box<dyn Error>> {
    let first = assets.apply(&registered()).await?;
    let running = assets.apply(&changed(1, State::Running, 300)).await?;
    assert!(running > first, "versions grow");
    for event in [registered(), changed(1, State::Running, 300), registered()] {
        assert_eq!(assets.apply(&event).await?, running, "{event:?} again");
    }
    let asset = assets.get("gen-1").await?;
    println!("registered and changed, each several times: {asset:?}");
    assert_eq!((asset.value.state, asset.value.load, asset.version), (State::Running, 300, running));
    Ok(())
}

async fn late_events_change_nothing(assets: &Assets) -> Result<(), Box<dyn Error>> {
    let tripped = assets.apply(&changed(3, State::Tripped, 0)).await?;
    let late = assets.apply(&changed(2, State::Running, 700)).await?;
    assert_eq!(late, tripped, "what happened before is not applied after");
    assert_eq!(assets.get("gen-1").await?.value.state, State::Tripped);
    println!("a late change: still at version {late}");
    Ok(())
}

async fn a_stale_write_is_told_the_current_version(assets: &Assets) -> Result<(), Box<dyn Error>> {
    // Two operators look at the same asset.
    let seen = assets.get("gen-1").await?;
    let anns = Asset { capacity: 900, ..seen.value.clone() };
    let bobs = Asset { capacity: 1_000, ..seen.value };
    let current = assets.0.update_if("gen-1", seen.version, &anns).await?;
    let stale = assets.0.update_if("gen-1", seen.version, &bobs).await.expect_err("Ann was faster");
    println!("two operators: {stale}");
    assert_eq!(stale.kind(), RepositoryErrorKind::ConcurrentModification { current: Some(current) });
    // Bob looks again, and decides again.
    assets.0.modify("gen-1", |asset| asset.capacity = asset.capacity.max(1_000)).await?;
    assert_eq!(assets.get("gen-1").await?.value.capacity, 1_000);
    Ok(())
}

async fn all_at_once_lose_nothing(assets: &Assets) -> Result<(), Box<dyn Error>> {
    let before = assets.get("gen-1").await?;
    let writers = (0..20).map(|_| {
        let assets = assets.0.clone();
        tokio::spawn(async move { assets.modify("gen-1", |asset| asset.load += 1).await })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await??;
    }
    let after = assets.get("gen-1").await?;
    println!("twenty changes at once: load {} to {}", before.value.load, after.value.load);
    assert_eq!(after.value.load, before.value.load + 20);
    assert_eq!(after.version.get(), before.version.get() + 20, "each was written once");
    Ok(())
}

async fn the_same_upsert_twice_is_one(assets: &Assets) -> Result<(), Box<dyn Error>> {
    let battery = Asset {
        facility: "south".to_owned(),
        kind: Kind::Battery,
        capacity: 50,
        load: 0,
        state: State::Idle,
        changed: 0,
    };
    let first = assets.0.upsert("bat-1", &battery).await?;
    assert_eq!(assets.0.upsert("bat-1", &battery).await?, first);
    let larger = assets.0.upsert("bat-1", &Asset { capacity: 60, ..battery }).await?;
    assert!(larger > first);
    println!("a battery, put twice and then enlarged: version {larger}");
    Ok(())
}
