//! Connections are used again, and nothing is sent twice.

use super::{
    proxied,
    target::{Connection, GOOD, Target, check_next, client, client_with, delivery, status},
};
use bytes::Bytes;
use semel_runtime::deliver::{Answer, Deliver as _, Limits, Trouble};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc, oneshot},
};

#[tokio::test]
async fn one_connection_serves_many_deliveries() {
    let (client, target) = (client(), Target::good().await);
    for _ in 0..100 {
        check_next(&client, &target).await;
    }
    assert_eq!((target.seen.connections(), target.seen.requests()), (1, 100));
}

#[tokio::test]
async fn many_at_once_have_a_connection_each_and_use_them_again() {
    let (client, target) = (client(), Target::good().await);
    for _ in 0..10 {
        let under_way: Vec<_> = (0..8)
            .map(|_| {
                let (client, delivery) = (client.clone(), target.delivery());
                tokio::spawn(async move { client.deliver(delivery).await })
            })
            .collect();
        for delivered in under_way {
            assert_eq!(status(delivered.await.unwrap()).body, "good");
        }
    }
    assert_eq!(target.seen.requests(), 80);
    assert!(target.seen.connections() <= 16, "{} connections", target.seen.connections());
}

#[tokio::test]
async fn an_unused_connection_is_given_up_before_servers_close_it() {
    let idle = Limits::default().idle;
    assert!(idle < Duration::from_secs(5), "Node's servers close after five");
    let (client, target) = (client(), Target::good().await);
    check_next(&client, &target).await;
    tokio::time::pause();
    tokio::time::advance(idle + Duration::from_millis(1)).await;
    tokio::time::resume();
    check_next(&client, &target).await;
    assert_eq!(target.seen.connections(), 2);
}

#[tokio::test]
async fn an_unused_connection_is_closed_also_if_nobody_asks_for_another() {
    let (told, mut closed) = mpsc::channel(1);
    let target = Target::start(move |mut connection| {
        let told = told.clone();
        async move {
            while connection.request().await.is_some() {
                connection.send(GOOD).await;
            }
            told.send(()).await.unwrap();
        }
    })
    .await;
    let client = client();
    check_next(&client, &target).await;
    tokio::time::pause();
    tokio::time::advance(Limits::default().idle + Duration::from_millis(1)).await;
    tokio::time::resume();
    closed.recv().await.expect("it is closed while the client lives");
    drop(client);
}

#[tokio::test]
async fn a_connection_that_the_target_closes_after_each_answer_does_no_harm() {
    let target = Target::start(|mut connection| async move {
        connection.request().await;
        connection.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngood").await;
    })
    .await;
    let client = client();
    for _ in 0..20 {
        check_next(&client, &target).await;
    }
    assert_eq!((target.seen.connections(), target.seen.requests()), (20, 20));
}

#[tokio::test]
async fn invariant_18_a_request_that_a_used_connection_swallows_is_not_sent_again() {
    let target = Target::start(|mut connection: Connection| async move {
        connection.request().await;
        connection.send(GOOD).await;
        connection.request().await;
    })
    .await;
    let client = client();
    for attempts in (1..=20).step_by(2) {
        check_next(&client, &target).await;
        let answer = client.deliver(target.delivery()).await;
        let Answer::Broken(cause) = answer else { panic!("{answer:?}") };
        assert_eq!(cause.trouble, Trouble::Closed);
        assert_eq!(target.seen.requests(), attempts + 1, "one request for each delivery");
    }
}

/// Closes its newest connection when told, and says that it has.
async fn closes_on_demand() -> (Target, impl AsyncFn()) {
    type Demand = oneshot::Sender<()>;
    let newest: Arc<Mutex<Option<mpsc::Sender<Demand>>>> = Arc::default();
    let shared = Arc::clone(&newest);
    let target = Target::start(move |mut connection| {
        let (sender, mut demands) = mpsc::channel::<Demand>(1);
        *shared.lock().unwrap() = Some(sender);
        async move {
            loop {
                tokio::select! {
                    request = connection.request() => if request.is_none() || !connection.send(GOOD).await { return },
                    Some(told) = demands.recv() => {
                        drop(connection);
                        let _ = told.send(());
                        return;
                    }
                }
            }
        }
    })
    .await;
    let close = async move || {
        let (told, closed) = oneshot::channel();
        let sender = newest.lock().unwrap().clone().unwrap();
        sender.send(told).await.unwrap();
        closed.await.unwrap();
    };
    (target, close)
}

/// What the system knows of all connections by now is known here, too: something that came later is.
async fn all_is_known() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connecting = TcpStream::connect(listener.local_addr().unwrap());
    let (accepted, connected) = tokio::join!(listener.accept(), connecting);
    let ((mut accepted, _), mut connected) = (accepted.unwrap(), connected.unwrap());
    accepted.write_u8(1).await.unwrap();
    connected.read_u8().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_its_target_has_closed_is_not_used_again() {
    let (target, close) = closes_on_demand().await;
    let client = client();
    for closed in 1..=20 {
        check_next(&client, &target).await;
        close().await;
        all_is_known().await;
        check_next(&client, &target).await;
        assert_eq!((target.seen.connections(), target.seen.requests()), (closed + 1, 2 * closed));
    }
}

#[tokio::test]
async fn invariant_18_a_dead_connection_of_the_librarys_pool_is_told_as_not_sent_and_no_other_is_tried() {
    let (proxy, close) = closes_on_demand().await;
    let client = proxied::client(&proxy, "");
    let deliver = async || client.deliver(delivery("http://orders.example.com/")).await;
    let (mut stale, mut answered) = (0, 0);
    for _ in 0..50 {
        status(deliver().await);
        answered += 1;
        close().await;
        match deliver().await {
            Answer::Status(_) => answered += 1,
            Answer::NotSent(cause) => {
                assert_eq!(cause.trouble, Trouble::Stale, "{cause}");
                stale += 1;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(
            proxy.seen.requests(),
            answered,
            "what was not sent did not arrive, and the rest did, once"
        );
    }
    assert!(stale > 0, "the client has met a dead connection at least once");
}

/// A target that reads nothing of the body, answers, and keeps its connection: nobody would ever hear of it again.
#[tokio::test]
async fn invariant_22_a_connection_whose_request_is_not_read_to_its_end_is_given_up() {
    const BODY_BYTES: usize = 64 << 20;
    let (told, mut read) = mpsc::channel(1);
    let may_read = Arc::new(Notify::new());
    let reads = Arc::clone(&may_read);
    let target = Target::start(move |mut connection: Connection| {
        let (told, reads) = (told.clone(), Arc::clone(&reads));
        async move {
            connection.stream.readable().await.unwrap();
            connection.send(GOOD).await;
            reads.notified().await;
            let (mut count, mut buffer) = (0, vec![0; 1 << 16]);
            while let Ok(some @ 1..) = connection.stream.read(&mut buffer).await {
                count += some;
            }
            told.send(count).await.unwrap();
        }
    })
    .await;
    let client = client();
    let mut delivery = target.delivery();
    delivery.body = vec![b'a'; BODY_BYTES].into();
    assert_eq!(status(client.deliver(delivery).await).body, "good");
    tokio::time::pause();
    tokio::time::sleep(Limits::default().idle + Duration::from_millis(1)).await;
    tokio::time::resume();
    may_read.notify_one();
    let count = read.recv().await.unwrap();
    assert!(count < BODY_BYTES, "somebody still sends");
}

#[tokio::test]
async fn a_body_that_is_not_read_to_its_end_costs_its_connection() {
    let target = Target::start(|mut connection| async move {
        while connection.request().await.is_some() {
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n").await;
            connection.send(&vec![b'x'; 10 << 20]).await;
        }
    })
    .await;
    let client = client_with(Limits { response_bytes_max: 10, ..Limits::default() });
    for deliveries in 1..=5 {
        let answer = status(client.deliver(target.delivery()).await);
        assert_eq!((answer.body, answer.is_truncated), (Bytes::from_static(&[b'x'; 10]), true));
        assert_eq!(target.seen.connections(), deliveries);
    }
}

#[tokio::test]
async fn a_hanging_target_does_not_slow_another() {
    let (client, good) = (client(), Target::good().await);
    let hanging = Target::start(Connection::hold).await;
    let held: Vec<_> = (0..200)
        .map(|_| {
            let (client, delivery) = (client.clone(), hanging.delivery());
            tokio::spawn(async move { client.deliver(delivery).await })
        })
        .collect();
    for _ in 0..50 {
        check_next(&client, &good).await;
    }
    assert_eq!(good.seen.connections(), 1);
    held.iter().for_each(tokio::task::JoinHandle::abort);
}
