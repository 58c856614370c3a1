//! Making the tables, and several applications in one database.

use super::{key, run, store};
use semel::{Once, Store, store::postgres::PostgresStore};
use semel_testkit::servers;
use sqlx::AssertSqlSafe;

#[tokio::test]
async fn what_a_dba_runs_is_what_create_does() {
    let database = servers::postgres().await;
    let sql = PostgresStore::builder().table("orders").schema_sql().unwrap();
    let pool = sqlx::PgPool::connect(&database.url).await.unwrap();
    for _ in 0..2 {
        sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&pool).await.unwrap();
    }
    let by_hand = PostgresStore::builder().table("orders").pool(pool.clone()).await.unwrap();
    Once::new(by_hand).call("test", 1).run(async |_| Ok(())).await.unwrap();
    PostgresStore::builder().table("orders2").create().pool(pool.clone()).await.unwrap();
    let columns = "SELECT string_agg(column_name || ' ' || data_type, ', ' ORDER BY ordinal_position) \
                   FROM information_schema.columns WHERE table_name = $1";
    let mut seen = Vec::new();
    for table in ["orders", "orders2"] {
        let columns: String = sqlx::query_scalar(columns).bind(table).fetch_one(&pool).await.unwrap();
        seen.push(columns);
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_create_the_tables_at_once() {
    let database = servers::postgres().await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let url = database.url.clone();
            tokio::spawn(async move { PostgresStore::builder().create().connect(&url).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn applications_in_one_database_do_not_see_each_other() {
    let (first, _database) = store().await;
    run(&first, "CREATE SCHEMA billing").await;
    let pool = first.pool().clone();
    let second = PostgresStore::builder().table("Select").create().pool(pool.clone()).await.unwrap();
    let third = PostgresStore::builder().schema("billing").create().pool(pool).await.unwrap();
    for (number, store) in [&first, &second, &third].into_iter().enumerate() {
        let ran = Once::new(store.clone()).call("test", "shared").run(async |_| Ok(number)).await.unwrap();
        assert_eq!(ran, number, "the call ran in another application");
    }
    let far = first.clock().now() + std::time::Duration::from_hours(24 * 365);
    assert_eq!(first.purge(far, u32::MAX).await.unwrap(), 1);
    assert!(second.load(&key("shared")).await.unwrap().is_some());
    assert!(third.load(&key("shared")).await.unwrap().is_some());
}
