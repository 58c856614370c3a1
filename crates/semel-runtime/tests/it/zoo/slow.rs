//! Targets that take their time. Once only clocks can go on, time stands still and jumps.

use super::{
    proxied,
    target::{Animal, Connection, GOOD, Target, check_next, client, delivery, settings, status},
};
use semel_core::{BoxFuture, retry::TIMEOUT_MAX};
use semel_runtime::deliver::{
    Answer, Client, Deliver as _, Delivery, FIRST_BYTE, Resolve, Settings, Stage, Trouble,
};
use std::{io, net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

/// Delivers to an animal; from when it has the request on, time is not waited for. What came, and when.
async fn meet(animal: Animal, timeout: Duration, first_byte: Option<Duration>) -> (Answer, Duration) {
    let (client, target) = (client(), Target::first(animal).await);
    let mut delivery = target.delivery();
    (delivery.timeout, delivery.first_byte) = (timeout, first_byte);
    let begun = Instant::now();
    let (answer, ()) = tokio::join!(client.deliver(delivery), async {
        target.seen.request.notified().await;
        tokio::time::pause();
    });
    let took = begun.elapsed();
    tokio::time::resume();
    check_next(&client, &target).await;
    (answer, took)
}

fn check_took(took: Duration, expected: Duration) {
    let late = took.checked_sub(expected);
    assert!(late.is_some_and(|late| late < Duration::from_secs(1)), "{took:?} instead of {expected:?}");
}

fn hangs(mut connection: Connection) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        connection.request().await;
        connection.hold().await;
    })
}

fn stalls(mut connection: Connection) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        connection.request().await;
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun, and then").await;
        connection.hold().await;
    })
}

#[tokio::test]
async fn f15_a_hanging_target_is_given_up_after_the_first_byte_is_due() {
    let (answer, took) = meet(hangs, Duration::from_mins(1), None).await;
    assert_eq!(answer, Answer::TimedOut(Stage::Head));
    check_took(took, FIRST_BYTE);
}

#[tokio::test]
async fn f15_a_function_may_have_a_first_byte_of_its_own() {
    let (answer, took) = meet(hangs, Duration::from_mins(10), Some(Duration::from_mins(9))).await;
    assert_eq!(answer, Answer::TimedOut(Stage::Head));
    check_took(took, Duration::from_mins(9));
}

#[tokio::test]
async fn f15_the_time_for_all_of_it_ends_the_wait_for_the_first_byte_too() {
    let (answer, took) = meet(hangs, Duration::from_secs(3), None).await;
    assert_eq!(answer, Answer::TimedOut(Stage::Head));
    check_took(took, Duration::from_secs(3));
}

#[tokio::test]
async fn f15_no_delivery_takes_longer_than_the_longest() {
    let (answer, took) = meet(hangs, Duration::MAX, Some(Duration::MAX)).await;
    assert_eq!(answer, Answer::TimedOut(Stage::Head));
    check_took(took, TIMEOUT_MAX);
}

#[tokio::test]
async fn f16_an_answer_that_stalls_is_given_up_when_all_of_it_is_due() {
    let (answer, took) = meet(stalls, Duration::from_mins(1), None).await;
    assert_eq!(answer, Answer::TimedOut(Stage::Body));
    check_took(took, Duration::from_mins(1));
}

#[tokio::test]
async fn a_slow_answer_within_its_time_is_an_answer() {
    let animal: Animal = |mut connection| {
        Box::pin(async move {
            connection.request().await;
            for byte in GOOD {
                sleep(Duration::from_millis(100)).await;
                connection.send(&[*byte]).await;
            }
        })
    };
    let (answer, _) = meet(animal, Duration::from_mins(1), None).await;
    assert_eq!(status(answer).body, "good");
}

#[tokio::test]
async fn a_head_that_drips_is_given_up_when_it_is_due() {
    let animal: Animal = |mut connection| {
        Box::pin(async move {
            connection.request().await;
            connection.send(b"HTTP/1.1 200 OK\r\nX: ").await;
            while connection.send(b"x").await {
                sleep(Duration::from_secs(1)).await;
            }
        })
    };
    let (answer, took) = meet(animal, Duration::from_mins(1), None).await;
    assert_eq!(answer, Answer::TimedOut(Stage::Head));
    check_took(took, FIRST_BYTE);
}

#[tokio::test]
async fn a_body_that_drips_is_given_up_when_all_of_it_is_due() {
    let animal: Animal = |mut connection| {
        Box::pin(async move {
            connection.request().await;
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await;
            while connection.send(b"x").await {
                sleep(Duration::from_secs(1)).await;
            }
        })
    };
    let (answer, took) = meet(animal, Duration::from_mins(1), None).await;
    assert_eq!(answer, Answer::TimedOut(Stage::Body));
    check_took(took, Duration::from_mins(1));
}

/// Never answers, and says so.
struct Hangs(Arc<Notify>);

impl Resolve for Hangs {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn f15_no_connection_in_five_seconds_is_certainly_not_sent() {
    let asked = Arc::new(Notify::new());
    let client = Client::new(Settings { resolver: Arc::new(Hangs(Arc::clone(&asked))), ..settings() });
    let begun = Instant::now();
    let (answer, ()) = tokio::join!(client.deliver(delivery("http://orders.example.com/")), async {
        asked.notified().await;
        tokio::time::pause();
    });
    let Answer::NotSent(cause) = answer else { panic!("{answer:?}") };
    assert_eq!(cause.trouble, Trouble::ConnectTooLate);
    check_took(begun.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn a_target_that_does_not_read_is_given_up_when_the_first_byte_is_due() {
    let accepted = Arc::new(Notify::new());
    let told = Arc::clone(&accepted);
    let target = Target::start(move |connection| {
        let told = Arc::clone(&told);
        async move {
            told.notify_one();
            std::future::pending::<()>().await;
            drop(connection);
        }
    })
    .await;
    let mut delivery = target.delivery();
    delivery.body = vec![b'a'; 64 << 20].into();
    let client = client();
    let begun = Instant::now();
    let (answer, ()) = tokio::join!(client.deliver(delivery), async {
        accepted.notified().await;
        tokio::time::pause();
    });
    assert_eq!(answer, Answer::TimedOut(Stage::Head));
    check_took(begun.elapsed(), FIRST_BYTE);
}

#[tokio::test]
async fn a_delivery_that_is_given_up_frees_its_connection() {
    let target = Target::start(hangs).await;
    let client = client();
    tokio::select! {
        answer = client.deliver(target.delivery()) => panic!("{answer:?}"),
        () = target.seen.request.notified() => {}
    }
    // The next one waits for nobody.
    tokio::select! {
        answer = client.deliver(target.delivery()) => panic!("{answer:?}"),
        () = target.seen.request.notified() => {}
    }
    assert_eq!(target.seen.connections(), 2);
}

#[tokio::test]
async fn what_has_no_connection_yet_can_be_called_off_and_what_has_left_cannot() {
    let asked = Arc::new(Notify::new());
    let client = Client::new(Settings { resolver: Arc::new(Hangs(Arc::clone(&asked))), ..settings() });
    let unsent = delivery("http://orders.example.com/");
    let departure = unsent.departure.clone();
    assert!(!departure.call_off(), "nobody has said anything yet");
    tokio::select! {
        answer = client.deliver(unsent) => panic!("there is nobody to answer: {answer:?}"),
        () = asked.notified() => assert!(departure.call_off()),
    }
    for body in ["{}", ""] {
        let target = Target::first(hangs).await;
        let sent = Delivery { body: body.into(), ..target.delivery() };
        let departure = sent.departure.clone();
        tokio::select! {
            answer = client.deliver(sent) => panic!("it hangs: {answer:?}"),
            () = target.seen.request.notified() => assert!(!departure.call_off(), "it was seen: {body:?}"),
        }
    }
}

/// Knows where a name is when it is told to.
struct Waits {
    asked: Arc<Notify>,
    may_tell: Arc<Notify>,
}

impl Resolve for Waits {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async {
            self.asked.notify_one();
            self.may_tell.notified().await;
            Ok(vec![IpAddr::from([127, 0, 0, 1])])
        })
    }
}

#[tokio::test]
async fn what_was_called_off_is_not_sent_over_the_connection_that_it_gets() {
    let (asked, may_tell) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let resolver = Arc::new(Waits { asked: Arc::clone(&asked), may_tell: Arc::clone(&may_tell) });
    let client = Client::new(Settings { resolver, ..settings() });
    for (body, can_be) in [("{}", true), ("", false)] {
        let target = Target::good().await;
        let url = format!("http://orders.example.com:{}/", target.address.port());
        let delivery = Delivery { body: body.into(), ..delivery(&url) };
        let departure = delivery.departure.clone();
        let (answer, ()) = tokio::join!(client.deliver(delivery), async {
            asked.notified().await;
            assert_eq!(departure.call_off(), can_be, "{body:?}");
            may_tell.notify_one();
        });
        assert_eq!(matches!(answer, Answer::Status(_)), !can_be, "{body:?}: {answer:?}");
        assert_eq!(target.seen.requests() == 0, can_be, "{body:?}");
    }
}

#[tokio::test]
async fn what_has_a_connection_leaves_at_once() {
    let (client, target) = (client(), Target::good().await);
    check_next(&client, &target).await;
    let delivery = target.delivery();
    let departure = delivery.departure.clone();
    let mut delivering = client.deliver(delivery);
    assert!(poll_once(&mut delivering).await.is_pending());
    assert!(!departure.call_off());
    assert_eq!(status(delivering.await).body, "good");
}

/// The library's pool has a connection, and the request that was called off is found out before it is sent.
#[tokio::test]
async fn what_was_called_off_does_not_leave_and_without_a_body_nothing_can_be() {
    let proxy = Target::good().await;
    let client = proxied::client(&proxy, "");
    for (body, can_be) in [("{}", true), ("", false)] {
        let one = || delivery("http://orders.example.com/");
        status(client.deliver(one()).await);
        let delivery = Delivery { body: body.into(), ..one() };
        let (departure, before) = (delivery.departure.clone(), proxy.seen.requests());
        let mut delivering = client.deliver(delivery);
        // Polled once, it is on its way to its connection, and not in it.
        assert!(poll_once(&mut delivering).await.is_pending());
        assert_eq!(departure.call_off(), can_be, "{body:?}");
        let answer = delivering.await;
        assert_eq!(matches!(answer, Answer::Status(_)), !can_be, "{body:?}: {answer:?}");
        assert_eq!(proxy.seen.requests() == before, can_be, "{body:?}");
    }
}

async fn poll_once<T>(future: &mut BoxFuture<'_, T>) -> std::task::Poll<T> {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context))).await
}
