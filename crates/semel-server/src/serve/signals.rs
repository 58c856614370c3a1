//! Signals: stop, stop at once, read the file again.

use crate::{exit::Failure, listen::Stopper, log};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::JoinHandle,
};
use tracing::info;

/// What a second signal ends the process with: as if it had not been caught.
const INTERRUPTED: i32 = 130;

/// Catches signals from now on. What is given hears of every SIGHUP.
pub(super) fn catch(stopper: Stopper) -> Result<(JoinHandle<()>, mpsc::Receiver<()>), Failure> {
    let caught = |kind| -> Result<Signal, Failure> {
        signal(kind).map_err(|error| Failure::unavailable("signals cannot be caught").because(&error))
    };
    let (mut terminate, mut interrupt) = (caught(SignalKind::terminate())?, caught(SignalKind::interrupt())?);
    let mut hangup = caught(SignalKind::hangup())?;
    let (reload, reloads) = mpsc::channel(1);
    let catching = async move {
        let mut is_stopping = false;
        loop {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
                _ = hangup.recv() => {
                    // One that waits already is enough.
                    let _ = reload.try_send(());
                    continue;
                }
            };
            if is_stopping {
                log::say("stopped by a second signal");
                std::process::exit(INTERRUPTED);
            }
            is_stopping = true;
            stopper.stop();
            info!(signal = name, "stopping: finishing what is under way");
        }
    };
    Ok((tokio::spawn(catching), reloads))
}
