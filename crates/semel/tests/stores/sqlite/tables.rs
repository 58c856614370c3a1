//! Making the tables, and several applications in one file.

use super::{file, key, store};
use semel::{Once, Store, store::sqlite::SqliteStore};
use sqlx::{AssertSqlSafe, SqlitePool, sqlite::SqliteConnectOptions};

#[tokio::test]
async fn what_a_person_runs_is_what_create_does() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(file(&directory)).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    let sql = SqliteStore::builder().table("orders").schema_sql().unwrap();
    for _ in 0..2 {
        sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&pool).await.unwrap();
    }
    let by_hand = SqliteStore::builder().table("orders").pool(pool.clone()).await.unwrap();
    Once::new(by_hand).call("test", 1).run(async |_| Ok(())).await.unwrap();
    SqliteStore::builder().table("orders2").create().pool(pool.clone()).await.unwrap();
    let mut seen = Vec::new();
    for table in ["orders", "orders2"] {
        let made = "SELECT replace(sql, 'orders2', 'orders') FROM sqlite_schema WHERE name = $1";
        let made: String = sqlx::query_scalar(made).bind(table).fetch_one(&pool).await.unwrap();
        seen.push(made);
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_create_the_tables_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let file = file(&directory);
            tokio::spawn(async move { SqliteStore::builder().create().connect(file).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn applications_in_one_file_do_not_see_each_other() {
    let (first, _directory) = store().await;
    let second = SqliteStore::builder().table("Select").create().pool(first.pool().clone()).await.unwrap();
    for (number, store) in [&first, &second].into_iter().enumerate() {
        let ran = Once::new(store.clone()).call("test", "shared").run(async |_| Ok(number)).await.unwrap();
        assert_eq!(ran, number, "the call ran in another application");
    }
    let far = first.clock().now() + std::time::Duration::from_hours(24 * 365);
    assert_eq!(first.purge(far, u32::MAX).await.unwrap(), 1);
    assert!(second.load(&key("shared")).await.unwrap().is_some());
}
