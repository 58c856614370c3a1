//! The files of the stores: a text in a result is found there if it is plain, and not if it is sealed.

use super::{CANARY, contains, keyring};
use semel::{HandlerError, Once, OnceBuilder};
use std::{fs, path::Path};

/// Leaves the canary in every place where a user's text can be.
async fn fill(once: &Once) {
    let ok = once.call("ok", 1).run(async |lease| {
        let charge = lease.effect("charge").at_most_once();
        Ok(charge.run(async || Ok::<_, HandlerError>(CANARY.to_owned())).await?)
    });
    ok.await.unwrap();
    for error in [HandlerError::fatal(CANARY), HandlerError::retryable(CANARY), HandlerError::unknown(CANARY)]
    {
        let mut error = Some(error);
        let failing = once.call("failing", format!("{error:?}").len());
        failing.run(async |_| Err::<(), _>(error.take().unwrap())).await.unwrap_err();
    }
}

/// Whether some file in the directory has the canary in it.
fn is_found(directory: &Path) -> bool {
    let mut files = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path());
    files.any(|file| contains(&fs::read(file).unwrap(), CANARY))
}

#[cfg(feature = "embedded")]
#[tokio::test]
async fn what_is_sealed_is_not_found_in_the_files_of_the_embedded_store() {
    let leaves = async |builder: OnceBuilder| {
        let directory = tempfile::tempdir().unwrap();
        fill(&builder.open(directory.path()).await.unwrap()).await;
        is_found(directory.path())
    };
    assert!(!leaves(Once::builder().sealed_with(keyring("k1", 1))).await);
    assert!(leaves(Once::builder()).await, "else this test would show nothing");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn what_is_sealed_is_not_found_in_the_file_of_the_sqlite_store() {
    use semel::store::sqlite::SqliteStore;
    let leaves = async |builder: OnceBuilder| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let store = SqliteStore::builder().create().connect(&path).await.unwrap();
        let once = builder.store(store.clone());
        fill(&once).await;
        in_transactions(&once, &store).await;
        store.pool().close().await;
        is_found(directory.path())
    };
    assert!(!leaves(Once::builder().sealed_with(keyring("k1", 1))).await);
    assert!(leaves(Once::builder()).await, "else this test would show nothing");
}

/// Leaves the canary in the results that commit with users' rows, and reads them back.
#[cfg(feature = "sqlite")]
async fn in_transactions(once: &Once, store: &semel::store::sqlite::SqliteStore) {
    for _delivery in 0..2 {
        let mut tx = store.begin().await.unwrap();
        let whole = once.call("whole", 1).run_in(&mut tx, async |_| Ok(CANARY.to_owned())).await;
        assert_eq!(whole.unwrap(), CANARY);
        tx.commit().await.unwrap();
    }
    let semel::Begin::Run(lease) = once.call("outcome", 1).begin().await.unwrap() else {
        panic!("it is fresh")
    };
    let mut tx = store.begin().await.unwrap();
    lease.complete_in(&mut tx, CANARY).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(once.call("outcome", 1).run(async |_| Ok(String::new())).await.unwrap(), CANARY);
    for _attempt in 0..2 {
        let call = once.call("effect", 1).run(async |lease| {
            let mut tx = store.begin().await?;
            let row = lease.effect("row").transactional(&mut tx);
            assert_eq!(row.run(async |_| Ok::<_, HandlerError>(CANARY.to_owned())).await?, CANARY);
            tx.commit().await?;
            Err::<(), _>(HandlerError::from("again"))
        });
        call.await.unwrap_err();
    }
}
