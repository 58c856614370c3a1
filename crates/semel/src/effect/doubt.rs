//! How a call's record says which effect is in doubt: written and read back in one place.

use semel_core::{
    key::Key,
    record::{Reason, Record, State},
};

/// The error of a call that failed because nobody knows whether this effect happened.
pub(crate) fn blame(effect: &Key, detail: &str) -> String {
    format!("{}{detail}", prefix(effect))
}

/// Whether the call waits for nothing but this effect to be resolved.
pub(crate) fn is_about(call: &Record, effect: &Key) -> bool {
    match &call.state {
        State::Failed { reason: Reason::OutcomeUnknown, error } => error.starts_with(&prefix(effect)),
        State::Failed { .. } | State::Pending { .. } | State::InProgress { .. } | State::Completed(_) => {
            false
        }
    }
}

fn prefix(effect: &Key) -> String {
    format!("effect `{}`: ", effect.effect_path().unwrap_or_default())
}
