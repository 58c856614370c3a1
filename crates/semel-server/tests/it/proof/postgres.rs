//! Nodes on PostgreSQL: a real server, that is not killed.

mod frozen;
mod outage;

use super::{
    kills,
    nodes::{Plan, World},
    seed,
};
use semel_testkit::servers;

#[tokio::test(flavor = "multi_thread")]
async fn killed_under_load_a_node_on_postgresql_loses_nothing_and_does_nothing_again() {
    let database = servers::postgres().await;
    let mut world = World::start(Plan { seed: seed(), store: &database.url, nodes: 1, senders: 8 }).await;
    for _ in 0..kills(160) {
        let acknowledgements = world.random.usize(1..60);
        world.kill_after(acknowledgements).await;
    }
    world.settles().await;
    world.was_under_load();
}

/// Three nodes share everything; one of them, at random, is killed or stopped throughout.
#[tokio::test(flavor = "multi_thread")]
async fn of_three_nodes_one_is_killed_throughout_and_nothing_is_lost_or_done_again() {
    let database = servers::postgres().await;
    let mut world = World::start(Plan { seed: seed(), store: &database.url, nodes: 3, senders: 9 }).await;
    for number in 0..kills(60) {
        let acknowledgements = world.random.usize(20..150);
        if number % 5 == 4 {
            world.stop_after(acknowledgements).await;
        } else {
            world.kill_after(acknowledgements).await;
        }
    }
    world.settles().await;
    world.was_under_load();
}
