//! Every message that a person may read, in one place.

use crate::support::{DAY, Fault, World, crash, never};
use semel::{Begin, Error, HandlerError, OnBusy, OnLapse, Resolution};
use std::{error::Error as _, fmt::Write as _};

/// The message, and its causes.
fn told(error: &Error) -> String {
    let mut text = format!("{:<16} {error}", error.kind().as_str());
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(text, "\n{:<16}   because: {error}", "").unwrap();
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn messages_say_what_happened_and_what_to_do() {
    let mut told_all = Vec::new();
    let mut note = |error: Error| told_all.push(told(&error));
    let world = World::new();
    let once = &world.once;
    let plain = async |call: semel::Call| call.run(async |_| Ok(())).await.unwrap_err();

    note(plain(once.call("pay", None::<&str>)).await);
    note(plain(once.call("pay", "a\nb")).await);
    note(plain(once.call("pay", 1).payload_json(b"{\"a\":")).await);
    note(once.call("pay", 2).run(async |_| Ok("x".parse::<u32>()?)).await.unwrap_err());
    once.call("pay", 3).run(async |_| Err::<(), _>(HandlerError::fatal("card declined"))).await.unwrap_err();
    note(plain(once.call("pay", 3)).await);
    let Begin::Run(lease) = once.call("pay", 4).begin().await.unwrap() else { panic!("it is fresh") };
    note(plain(once.call("pay", 4).on_busy(OnBusy::Reject)).await);
    note(plain(once.call("pay", 4).payload(&1)).await);
    world.lapse();
    drop(once.call("pay", 4).begin().await.unwrap());
    note(lease.complete(&()).await.unwrap_err());
    crash(
        once.call("pay", 5)
            .on_lapse(OnLapse::Report)
            .run(async |_| never::<Result<(), HandlerError>>().await),
    );
    world.lapse();
    note(plain(once.call("pay", 5)).await);
    let Begin::Run(lease) = once.call("pay", 6).begin().await.unwrap() else { panic!("it is fresh") };
    world.clock.advance(DAY);
    note(lease.hold(async {}).await.unwrap_err());
    once.call("pay", 7).body_bytes_max(2).run(async |_| Ok("too large".to_owned())).await.unwrap();
    note(plain(once.call("pay", 7)).await);
    once.call("pay", 8).run(async |_| Ok("text".to_owned())).await.unwrap();
    note(plain(once.call("pay", 8)).await);
    world.clock.advance(DAY);
    note(plain(once.call("pay", 8)).await);
    let twice = once.call("pay", 9).run(async |lease| {
        lease.effect("email").at_least_once().run(async || Ok::<_, HandlerError>(())).await?;
        lease.effect("email").at_least_once().run(async || Ok::<_, HandlerError>(())).await?;
        Ok(())
    });
    note(twice.await.unwrap_err());
    let nameless = once.call("pay", 10).run(async |lease| {
        Ok(lease.effect("").at_least_once().run(async || Ok::<_, HandlerError>(())).await?)
    });
    note(nameless.await.unwrap_err());
    let key = semel::Key::new("pay", 8).unwrap();
    note(once.resolve(&key, Resolution::happened(), "ann", "why").await.unwrap_err());
    note(once.forget(&semel::Key::new("pay", 99).unwrap(), "ann", "why").await.unwrap_err());
    world.store.always(Fault::Before);
    note(plain(once.call("pay", 11)).await);
    world.store.always(Fault::None);
    let store = world.store.clone();
    let call = once.call("pay", 12).run(async |_| {
        store.always(Fault::Before);
        Ok(())
    });
    note(world.clock.drive(call).await.unwrap_err());
    insta::assert_snapshot!(told_all.join("\n"));
}
