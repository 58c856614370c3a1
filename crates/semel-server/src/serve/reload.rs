//! Reading the file again.
//!
//! 1. The new file is read, checked as a whole, and its secrets looked up, before anything changes.
//! 2. What cannot change while the server runs (addresses, the store, limits) stays as it is, and the log says so.
//! 3. Whatever is wrong, the old functions and sources stay. So they do if the network could do with the new ones what it
//!    may not.
//! 4. While functions are replaced, the guard lets through what the old file or the new one allows: a call that is held back
//!    would be a dead letter.
//! 5. What was changed is in the audit log, by name: see [`super::changed`]. Who sent the signal cannot be told, so it is
//!    [`SIGNAL`] who did it. If it cannot be written there, it is in the program's own log.

use super::{
    changed::{Change, Picture},
    fetch::Outgoing,
    functions::functions,
    site::Inside,
    start::{check_admin, check_open, no_token, warn_of},
};
use crate::{
    config::ServerSettings,
    exit::Failure,
    ingest::{Fetch, NoSource, Sources},
};
use semel_core::sabotage::is_on;
use semel_runtime::{Runtime, deliver::guard::Policy};
use std::sync::Arc;
use tracing::{info, warn};

/// Who reads the file again, as the audit log has it. No token is called so.
pub(super) const SIGNAL: &str = "$signal";

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

/// Takes what is in the file now, or leaves everything as it is. Says what changed.
pub(super) fn reload(
    reread: &Reread,
    running: &ServerSettings,
    inside: &Inside,
    outgoing: &Arc<Outgoing>,
    picture: &mut Picture,
) -> Vec<Change> {
    match reread().and_then(|settings| replace(running, &settings, inside, outgoing).map(|()| settings)) {
        Ok(settings) => {
            for what in fixed(running, &settings) {
                warn!(what, "changed in the file, and needs a restart");
            }
            warn_of(&settings);
            let (functions, sources) = (settings.functions.len(), settings.sources.len());
            info!(functions, sources, "the file was read again");
            let new = Picture::of(&settings);
            let changes = picture.changes_to(&new);
            *picture = new;
            changes
        }
        Err(failure) => {
            let text = failure.to_string();
            let text: Vec<_> = text.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
            warn!(error = text.join("; "), "the file was read again, and nothing changed");
            Vec::new()
        }
    }
}

/// Writes what changed into the audit log.
pub(super) async fn note(runtime: &Runtime, changes: &[Change]) {
    for Change { subject, detail } in changes {
        if let Err(error) = runtime.note_change(SIGNAL, "reload", subject, detail).await {
            warn!(%error, subject, detail, "what the file changed could not be written into the audit log");
        }
    }
}

fn replace(
    running: &ServerSettings,
    settings: &ServerSettings,
    inside: &Inside,
    outgoing: &Arc<Outgoing>,
) -> Result<(), Failure> {
    check_open(running, settings)?;
    check_admin(running, settings)?;
    if is_on("serve_reloads_in_part") {
        // Whatever comes of it.
        let _ = inside.ingest.runtime.replace(functions(&settings.functions)?);
    }
    let sources = sources(settings, outgoing)?;
    let before = outgoing.policy();
    outgoing.replace(either(&before, &settings.guard));
    if let Err(failure) = inside.api.replace(settings, |error| no_token(&error)) {
        outgoing.replace(before);
        return Err(failure);
    }
    inside.ingest.replace(sources);
    outgoing.replace(settings.guard.clone());
    Ok(())
}

/// What one of these allows, or the other. If it is what one of them allows, it is that one: connections are kept.
fn either(old: &Policy, new: &Policy) -> Policy {
    let is_within = |one: &Policy, other: &Policy| {
        one.allow.iter().all(|it| other.allow.contains(it)) && one.loopback <= other.loopback
    };
    if is_within(old, new) {
        return new.clone();
    }
    let added = new.allow.iter().filter(|it| !old.allow.contains(it));
    // What is new goes first: only so many count.
    Policy { allow: added.chain(&old.allow).cloned().collect(), loopback: old.loopback || new.loopback }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str], loopback: bool) -> Policy {
        Policy { allow: allow.iter().map(|it| it.parse().unwrap()).collect(), loopback }
    }

    #[test]
    fn between_two_files_what_either_allows_is_allowed() {
        let (near, far) = (policy(&["10.0.0.0/8"], true), policy(&["192.168.0.0/16"], false));
        assert_eq!(either(&near, &far), policy(&["192.168.0.0/16", "10.0.0.0/8"], true));
        let wider = policy(&["192.168.0.0/16", "10.0.0.0/8"], true);
        for old in [&near, &far, &wider] {
            assert_eq!(either(old, &wider), wider);
        }
        let nothing = policy(&[], false);
        assert_eq!(either(&nothing, &near), near);
        assert_eq!(either(&near, &nothing), near);
    }
}
