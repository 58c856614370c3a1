//! One node on the embedded queue.

use super::{
    kills,
    nodes::{Plan, World},
    seed,
};

/// F1, invariants 1 to 7: two hundred kills, and nothing is lost or done again.
#[tokio::test(flavor = "multi_thread")]
async fn killed_again_and_again_under_load_it_loses_nothing_and_does_nothing_again() {
    let mut world = World::start(Plan { seed: seed(), store: "./semel-data", nodes: 1, senders: 8 }).await;
    for _ in 0..kills(200) {
        let acknowledgements = world.random.usize(1..60);
        world.kill_after(acknowledgements).await;
    }
    world.settles().await;
    world.was_under_load();
}

/// F1 and invariant 26: half of the ends are orderly. What ran to its end before one of those is not run again.
#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_between_kills_it_ends_in_time_and_what_it_finished_stays_finished() {
    let mut world = World::start(Plan { seed: seed(), store: "./semel-data", nodes: 1, senders: 8 }).await;
    for number in 0..kills(20) {
        let acknowledgements = world.random.usize(1..60);
        if number % 2 == 0 {
            world.stop_after(acknowledgements).await;
        } else {
            world.kill_after(acknowledgements).await;
        }
    }
    world.settles().await;
    world.was_under_load();
    assert!(world.stops() > 0, "some of the stops were clean");
}
