//! The demo as it is typed, with everything that it has by itself.

use crate::support::semel;

#[test]
fn the_demo_keeps_its_promise_as_it_is_typed() {
    let directory = tempfile::tempdir().unwrap();
    let ended = semel(directory.path(), &["demo"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    let first = ended.stdout.lines().next().unwrap();
    assert!(first.starts_with("deliveries ") && first.ends_with(" 10,000"), "{first}");
    assert!(ended.stdout.ends_with("\nEvery event took effect once.\n"), "{}", ended.stdout);
}
