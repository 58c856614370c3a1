//! What everything that keeps documents must do.

use semel::{
    Key,
    repository::{Document, Documents, Put, Version},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Runs every rule. Keys are fresh, so whatever is there already does not matter.
pub(crate) async fn all(documents: &dyn Documents) {
    what_is_not_there_loads_as_none(documents).await;
    what_was_created_loads_back_as_written(documents).await;
    what_is_there_is_not_created_again_and_is_shown(documents).await;
    the_current_version_is_written_and_no_other(documents).await;
    a_version_of_what_is_not_there_is_lost_and_leaves_no_trace(documents).await;
    look_alikes_are_apart(documents).await;
    every_text_loads_back_as_written(documents).await;
    a_dropped_write_happened_or_did_not(documents).await;
}

/// A key that nobody else has.
fn fresh(id: &str) -> Key {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let run = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    Key::new("rules", (run, id)).unwrap()
}

fn document(version: u64, json: &str) -> Document {
    let version = Version::new(version).unwrap();
    Document { version, writer: u128::MAX - u128::from(version.get()), json: json.to_owned() }
}

async fn put(documents: &dyn Documents, key: &Key, expected: Option<u64>, document: &Document) -> Put {
    documents.put(key, expected.map(|it| Version::new(it).unwrap()), document).await.unwrap()
}

async fn what_is_not_there_loads_as_none(documents: &dyn Documents) {
    assert_eq!(documents.load(&fresh("absent")).await.unwrap(), None);
}

async fn what_was_created_loads_back_as_written(documents: &dyn Documents) {
    let (key, first) = (fresh("created"), document(1, "{\"load\":5}"));
    assert_eq!(put(documents, &key, None, &first).await, Put::Written);
    assert_eq!(documents.load(&key).await.unwrap(), Some(first));
}

async fn what_is_there_is_not_created_again_and_is_shown(documents: &dyn Documents) {
    let (key, first) = (fresh("twice"), document(1, "1"));
    assert_eq!(put(documents, &key, None, &first).await, Put::Written);
    assert_eq!(put(documents, &key, None, &document(1, "2")).await, Put::Lost(Some(first.clone())));
    assert_eq!(documents.load(&key).await.unwrap(), Some(first));
}

async fn the_current_version_is_written_and_no_other(documents: &dyn Documents) {
    let (key, second) = (fresh("versions"), document(2, "\"second\""));
    assert_eq!(put(documents, &key, None, &document(1, "\"first\"")).await, Put::Written);
    assert_eq!(put(documents, &key, Some(1), &second).await, Put::Written);
    for stale in [1, 3, i64::MAX as u64] {
        let lost = put(documents, &key, Some(stale), &document(9, "\"late\"")).await;
        assert_eq!(lost, Put::Lost(Some(second.clone())), "version {stale}");
    }
    assert_eq!(documents.load(&key).await.unwrap(), Some(second));
}

async fn a_version_of_what_is_not_there_is_lost_and_leaves_no_trace(documents: &dyn Documents) {
    let key = fresh("never");
    assert_eq!(put(documents, &key, Some(1), &document(2, "2")).await, Put::Lost(None));
    assert_eq!(documents.load(&key).await.unwrap(), None);
}

async fn look_alikes_are_apart(documents: &dyn Documents) {
    let run = format!("alike-{}-{}", std::process::id(), fastrand::u64(..));
    let keys = [
        Key::new("alike", (run.as_str(), "1")).unwrap(),
        Key::new("alike", (run.as_str(), 1)).unwrap(),
        Key::new("alike", format!("{run}:1")).unwrap(),
        Key::new(("alike", run.as_str()), "1").unwrap(),
        Key::new("alike", (run.as_str(), "'; DROP TABLE documents; --")).unwrap(),
        Key::new("alike", (run.as_str(), "{}*>\"ü𝄞")).unwrap(),
    ];
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(put(documents, key, None, &document(1, &number.to_string())).await, Put::Written);
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(documents.load(key).await.unwrap().unwrap().json, number.to_string());
    }
}

async fn every_text_loads_back_as_written(documents: &dyn Documents) {
    let long = format!("\"{}\"", "x".repeat(200_000));
    let texts =
        ["null", "{ \"b\": 1,\n \"a\" : 2, \"b\": 3 }", "\"\\u0000 ü 𝄞 ' \\\" \\\\\"", "[]", "1e400", &long];
    for text in texts {
        let (key, written) = (fresh("text"), document(i64::MAX as u64, text));
        assert_eq!(put(documents, &key, None, &written).await, Put::Written);
        assert_eq!(documents.load(&key).await.unwrap(), Some(written), "{text:.40}");
    }
}

async fn a_dropped_write_happened_or_did_not(documents: &dyn Documents) {
    let (key, first) = (fresh("dropped"), document(1, "1"));
    let none = std::time::Duration::ZERO;
    drop(tokio::time::timeout(none, documents.put(&key, None, &first)).await);
    match put(documents, &key, None, &document(1, "2")).await {
        Put::Written => {}
        Put::Lost(found) => assert_eq!(found, Some(first)),
    }
}

/// Under real parallelism, each version has one winner.
pub(crate) async fn contended(documents: &Arc<dyn Documents>) {
    const WRITERS: u64 = 16;
    let key = fresh("contended");
    for version in 1..=4 {
        let expected = Version::new(version - 1);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (documents, key) = (Arc::clone(documents), key.clone());
                tokio::spawn(async move {
                    let mine = Document { writer: writer.into(), ..document(version, &writer.to_string()) };
                    documents.put(&key, expected, &mine).await.unwrap()
                })
            })
            .collect();
        let mut winners = Vec::new();
        for (writer, put) in writers.into_iter().enumerate() {
            match put.await.unwrap() {
                Put::Written => winners.push(writer),
                Put::Lost(found) => assert_eq!(found.unwrap().version, Version::new(version).unwrap()),
            }
        }
        let [winner] = winners[..] else { panic!("{winners:?} all wrote version {version}") };
        let found = documents.load(&key).await.unwrap().unwrap();
        assert_eq!((found.writer, found.json), (winner as u128, winner.to_string()));
    }
}
