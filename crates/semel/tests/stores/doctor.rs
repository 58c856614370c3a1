//! What doctors say, for the stores that need no server. The others' doctors are tested with their stores.

use semel::{
    MemoryStore, StoreErrorKind,
    doctor::{Finding, Report, Severity, Tier},
};

#[tokio::test]
async fn a_store_in_memory_promises_best_effort_and_says_so() {
    let report = MemoryStore::new().doctor().await.unwrap();
    assert_eq!((report.tier, report.is_refused()), (Tier::C, false));
    assert_eq!(report.findings[0].severity, Severity::Warning);
}

#[test]
fn the_weaker_tier_wins() {
    let report = |tier| Report::new("any", tier);
    for (one, other, weaker) in [
        (Tier::A, Tier::A, Tier::A),
        (Tier::A, Tier::B, Tier::B),
        (Tier::B, Tier::C, Tier::C),
        (Tier::C, Tier::A, Tier::C),
    ] {
        assert_eq!(report(one).at_most(other).tier, weaker, "{one} and {other}");
        assert_eq!(report(other).at_most(one).tier, weaker, "{other} and {one}");
    }
}

#[test]
fn what_cannot_be_right_becomes_one_error_that_says_everything() {
    let fine = Report::new("redis", Tier::C).with(Finding::fine("appendonly", "yes"));
    assert!(fine.clone().accepted().is_ok());
    let refused = fine
        .with(Finding::refused("maxmemory-policy").found("allkeys-lru").wanted("noeviction").remedy("set it"))
        .with(Finding::warning("save").found("off"))
        .with(Finding::refused("role").found("replica").wanted("master").remedy("name the master"));
    let error = refused.accepted().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert_eq!(
        error.to_string(),
        "redis store: maxmemory-policy is allkeys-lru, wanted noeviction: set it; \
         role is replica, wanted master: name the master"
    );
}

#[cfg(feature = "embedded")]
mod embedded {
    use semel::{
        Once,
        doctor::{self, Severity},
    };

    #[tokio::test]
    async fn a_directory_can_be_looked_at_before_it_is_there_and_while_it_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/semel-data");
        let before = doctor::embedded(&path).unwrap();
        assert!(!before.is_refused(), "{before}");
        assert!(!path.exists(), "looking makes nothing");
        let once = Once::open(&path).await.unwrap();
        let report = doctor::embedded(&path).unwrap();
        assert_eq!(report.tier, before.tier);
        once.call("greet", 1).run(async |_| Ok(())).await.unwrap();
        drop(once);
        Once::open(&path).await.unwrap();
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let report = doctor::embedded(file.path()).unwrap();
        assert!(report.is_refused(), "{report}");
        assert_eq!(report.findings[0].severity, Severity::Refused);
    }
}
