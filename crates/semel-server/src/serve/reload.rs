//! Reading the file again.
//!
//! 1. The new file is read, checked as a whole, and its secrets looked up, before anything changes.
//! 2. What cannot change while the server runs (addresses, the store, limits) stays as it is, and the log says so.
//! 3. Whatever is wrong, the old functions and sources stay.

use super::{
    fetch::Outgoing,
    functions::functions,
    site::Inside,
    start::{check_admin, no_token},
};
use crate::{
    config::ServerSettings,
    exit::Failure,
    ingest::{Fetch, NoSource, Sources},
};
use semel_core::sabotage::is_on;
use std::sync::Arc;
use tracing::{info, warn};

/// Gives the settings as they are now: the file, and what was typed.
pub type Reread = Box<dyn Fn() -> Result<ServerSettings, Failure> + Send + Sync>;

/// The sources of a file, ready to receive from.
pub(super) fn sources(settings: &ServerSettings, outgoing: &Arc<Outgoing>) -> Result<Sources, Failure> {
    let fetch: Arc<dyn Fetch> = Arc::<Outgoing>::clone(outgoing);
    Sources::new(&settings.events, &settings.sources, &fetch).map_err(|(path, error): (String, NoSource)| {
        Failure::usage(format!("`{path}` cannot be received from"))
            .because(&error)
            .hint("mend its secret; the file itself is right")
    })
}

/// Takes what is in the file now, or leaves everything as it is.
pub(super) fn reload(reread: &Reread, running: &ServerSettings, inside: &Inside, outgoing: &Arc<Outgoing>) {
    match reread().and_then(|settings| replace(running, &settings, inside, outgoing).map(|()| settings)) {
        Ok(settings) => {
            for what in fixed(running, &settings) {
                warn!(what, "changed in the file, and needs a restart");
            }
            let (functions, sources) = (settings.functions.len(), settings.sources.len());
            info!(functions, sources, "the file was read again");
        }
        Err(failure) => {
            let text = failure.to_string();
            let text: Vec<_> = text.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
            warn!(error = text.join("; "), "the file was read again, and nothing changed");
        }
    }
}

fn replace(
    running: &ServerSettings,
    settings: &ServerSettings,
    inside: &Inside,
    outgoing: &Arc<Outgoing>,
) -> Result<(), Failure> {
    check_admin(running, settings)?;
    if is_on("serve_reloads_in_part") {
        // Whatever comes of it.
        let _ = inside.ingest.runtime.replace(functions(&settings.functions)?);
    }
    let sources = sources(settings, outgoing)?;
    inside.api.replace(settings, |error| no_token(&error))?;
    inside.ingest.replace(sources);
    outgoing.replace(settings.guard.clone());
    Ok(())
}

/// What was changed, and cannot be while the server runs.
fn fixed(running: &ServerSettings, new: &ServerSettings) -> Vec<&'static str> {
    [
        ("listen", running.listen != new.listen),
        ("admin_listen", running.admin_listen != new.admin_listen),
        ("store", running.store != new.store),
        ("trusted_proxies", running.trusted_proxies != new.trusted_proxies),
        ("proxy", running.proxied != new.proxied),
        ("problem_base", running.problem_base != new.problem_base),
        ("log", running.log != new.log),
        ("limits", running.limits != new.limits),
        ("timeouts", running.shutdown != new.shutdown || running.body_grace != new.body_grace),
    ]
    .into_iter()
    .filter_map(|(what, is_changed)| is_changed.then_some(what))
    .collect()
}
