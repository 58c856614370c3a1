//! Many at the same time.

use crate::{
    bodies::whole,
    support::{Answer, World, json, order, post},
};
use http::Response;
use std::time::Duration;
use tokio::{sync::Barrier, task::JoinSet};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_duplicates_at_once_are_carried_out_once_and_all_get_the_response() {
    const CROWD: usize = 1_000;
    let world = World::new();
    let go = std::sync::Arc::new(tokio::sync::Notify::new());
    let app = {
        let go = go.clone();
        world.serving(&world.layer().wait(Duration::from_mins(1)), move |_, number| {
            let go = go.clone();
            Box::pin(async move {
                go.notified().await;
                Ok(Response::new(whole(format!("call {number}"))))
            })
        })
    };
    let gate = std::sync::Arc::new(Barrier::new(CROWD + 1));
    let mut crowd = JoinSet::new();
    for _ in 0..CROWD {
        let (app, gate) = (app.clone(), gate.clone());
        crowd.spawn(async move {
            gate.wait().await;
            app.send(order("k")).await
        });
    }
    gate.wait().await;
    go.notify_one();
    let mut fresh = 0;
    while let Some(answer) = crowd.join_next().await {
        let answer = answer.unwrap();
        assert_eq!((answer.status.as_u16(), answer.text()), (200, "call 1"));
        fresh += usize::from(!answer.is_replay());
    }
    assert_eq!((fresh, world.calls()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn different_keys_do_not_wait_for_each_other() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    let mut crowd = JoinSet::new();
    for n in 0..500 {
        let app = app.clone();
        crowd.spawn(async move { app.send(order(&format!("k{n}"))).await });
    }
    while let Some(answer) = crowd.join_next().await {
        assert_eq!(answer.unwrap().status, 200);
    }
    assert_eq!(world.calls(), 500);
}

/// Of a crowd with one key and two payloads, one payload wins, and the others are told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_payload_wins() {
    let world = World::new();
    let app = world.numbered(&world.layer().wait(Duration::from_mins(1)));
    let mut crowd = JoinSet::new();
    for n in 0..200 {
        let app = app.clone();
        crowd.spawn(async move { (n % 2, app.send(json(post("k"), &format!("[{}]", n % 2))).await) });
    }
    let mut told: Vec<(i32, Answer)> = Vec::new();
    while let Some(answer) = crowd.join_next().await {
        told.push(answer.unwrap());
    }
    let winner = told.iter().find(|(_, it)| it.status == 200).map(|(payload, _)| *payload).unwrap();
    for (payload, answer) in told {
        assert_eq!(answer.status, if payload == winner { 200 } else { 422 });
    }
    assert_eq!(world.calls(), 1);
}
