//! What can be seen of a bucket's promises.
//!
//! 1. Three replicas or more, on disks that are synced before a write is acknowledged, are tier B; everything else is C.
//! 2. How often servers sync their disks cannot be seen by clients, not even in what JetStream tells of itself. It is not
//!    guessed: unless somebody vouches for it, it is taken for what it is by default, and the tier is C.

use super::{NatsStore, error::asking};
use crate::doctor::{Finding, Report, Tier};
use async_nats::jetstream::stream::{ClusterInfo, Config, StorageType};
use semel_core::store::StoreError;

/// From this many on, one may be lost.
const REPLICAS_MIN: usize = 3;

impl NatsStore {
    /// What this bucket promises as it is set up.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        let info = self.stream.get_info().await.map_err(|it| asking("the bucket's configuration", it))?;
        let findings = [replicas(&info.config), storage(&info.config), syncing(self.syncs_always)];
        let tier = tier(&info.config, self.syncs_always);
        let report = findings.into_iter().fold(Report::new("nats", tier), Report::with);
        Ok(info.cluster.iter().filter_map(peers).fold(report, Report::with))
    }
}

fn tier(config: &Config, syncs_always: bool) -> Tier {
    let is_on_disks = config.num_replicas >= REPLICAS_MIN && config.storage == StorageType::File;
    if is_on_disks && syncs_always { Tier::B } else { Tier::C }
}

fn replicas(config: &Config) -> Finding {
    let replicas = config.num_replicas;
    if replicas >= REPLICAS_MIN {
        return Finding::fine("replicas", replicas.to_string());
    }
    Finding::warning("replicas")
        .found(replicas.to_string())
        .wanted("3 or more")
        .remedy("make the bucket with `Bucket::replicas(3)`: what the one server loses is lost")
}

fn storage(config: &Config) -> Finding {
    match config.storage {
        StorageType::File => Finding::fine("storage", "file"),
        StorageType::Memory => Finding::warning("storage")
            .found("memory")
            .wanted("file")
            .remedy("make the bucket with `Storage::File`: a restart of the servers forgets every record"),
    }
}

fn syncing(syncs_always: bool) -> Finding {
    if syncs_always {
        return Finding::fine("sync_interval", "always, as `NatsStore::syncs_always` says");
    }
    Finding::warning("sync_interval")
        .found("not shown to clients, two minutes unless set")
        .wanted("always")
        .remedy(
            "set `jetstream { sync_interval: always }` on every server, and say so with `NatsStore::syncs_always`: \
             a power cut forgets what was acknowledged since the last sync",
        )
}

/// Replicas that are not there, or behind.
fn peers(cluster: &ClusterInfo) -> Option<Finding> {
    let away = cluster.replicas.iter().filter(|it| it.offline || !it.current);
    let away: Vec<&str> = away.map(|it| it.name.as_str()).collect();
    (!away.is_empty()).then(|| {
        Finding::warning("replicas in step")
            .found(format!("not {}", away.join(", ")))
            .wanted("all")
            .remedy("look at these servers: one more that fails stops the bucket")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    fn config(num_replicas: usize, storage: StorageType) -> Config {
        Config { num_replicas, storage, ..Config::default() }
    }

    #[test]
    fn only_three_replicas_on_disks_that_somebody_vouches_for_are_tier_b() {
        assert_eq!(tier(&config(3, StorageType::File), true), Tier::B);
        assert_eq!(tier(&config(5, StorageType::File), true), Tier::B);
        assert_eq!(tier(&config(3, StorageType::File), false), Tier::C);
        assert_eq!(tier(&config(1, StorageType::File), true), Tier::C);
        assert_eq!(tier(&config(3, StorageType::Memory), true), Tier::C);
    }

    #[test]
    fn what_is_less_than_it_could_be_is_a_warning() {
        assert_eq!(replicas(&config(1, StorageType::File)).severity, Severity::Warning);
        assert_eq!(replicas(&config(3, StorageType::File)).severity, Severity::Fine);
        assert_eq!(storage(&config(1, StorageType::Memory)).severity, Severity::Warning);
        assert_eq!(
            syncing(false).severity,
            Severity::Warning,
            "what cannot be seen is not believed to be right"
        );
        assert_eq!(syncing(true).severity, Severity::Fine);
    }
}
