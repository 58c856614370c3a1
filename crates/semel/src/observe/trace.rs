//! Events and spans, through the `tracing` facade; nothing without the feature.

use super::{Answer, End};
use crate::{lease::Lease, operator::Receipt, seal::Unopened};
use semel_core::{key::Key, store::StoreError};

#[cfg(feature = "tracing")]
mod to {
    use super::{Answer, End, Key, Lease, Receipt, StoreError, Unopened};
    use crate::{begin::How, error::Error};
    use tracing::{Span, debug, debug_span, error, info, span::Entered, warn};

    pub(in crate::observe) fn store_failed(operation: &'static str, cause: &StoreError) {
        warn!(target: "semel", operation, error = Error::chain(cause), "the store could not tell");
    }

    pub(in crate::observe) fn answered(key: &Key, answer: Answer, waited: bool) {
        let said = answer.as_str();
        match answer {
            Answer::Run(How::Fresh | How::Retried | How::Reentered | How::Replayed)
            | Answer::Replayed { .. }
            | Answer::FailedBefore
            | Answer::Rejected => debug!(target: "semel", %key, answer = said, waited, "call answered"),
            Answer::Run(How::TakenOver) => {
                info!(target: "semel", %key, answer = said, waited, "call taken over");
            }
            Answer::Run(How::Unprotected) => warn!(target: "semel", %key, "call runs unprotected"),
            Answer::Mismatch | Answer::Store | Answer::Contended => {
                warn!(target: "semel", %key, answer = said, "call refused");
            }
            Answer::Unknown => error!(target: "semel", %key, "outcome unknown: find out, then resolve it"),
        }
    }

    pub(in crate::observe) fn ended(key: &Key, end: End) {
        let said = end.as_str();
        match end {
            End::Completed | End::Released => debug!(target: "semel", %key, end = said, "attempt ended"),
            End::Failed => info!(target: "semel", %key, end = said, "attempt ended"),
            End::Superseded | End::Lapsed | End::Dropped => {
                warn!(target: "semel", %key, end = said, "attempt ended without an outcome");
            }
            End::Unknown | End::Unconfirmed => {
                error!(target: "semel", %key, end = said, "attempt ended in doubt");
            }
        }
    }

    pub(in crate::observe) fn unopened(key: &Key, why: &Unopened) {
        error!(target: "semel", %key, %why, "a result did not open");
    }

    #[cfg(feature = "lambda")]
    pub(in crate::observe) fn record_failed(id: &str, why: &lambda_runtime::Diagnostic) {
        let lambda_runtime::Diagnostic { error_type, error_message } = why;
        warn!(target: "semel", record = id, error_type, error_message, "a record is to be delivered again");
    }

    pub(in crate::observe) fn audited(receipt: &Receipt) {
        let Receipt { key, change, by, why, fence, .. } = receipt;
        info!(target: "semel::audit", %key, change, by, why, %fence, "an operator changed a record");
    }

    /// The span that a call's work is done in.
    pub(crate) struct CallSpan(Span);

    impl CallSpan {
        /// None at all.
        pub(crate) const fn none() -> Self {
            Self(Span::none())
        }

        /// That of this lease.
        pub(crate) fn of(lease: &Lease) -> Self {
            let (key, attempt) = (lease.key(), lease.attempt());
            Self(debug_span!(target: "semel", "semel.call", %key, attempt, fence = %lease.fence()))
        }

        /// In it until what is given is dropped.
        pub(crate) fn enter(&self) -> Entered<'_> {
            self.0.enter()
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod to {
    use super::{Answer, End, Key, Lease, Receipt, StoreError, Unopened};

    pub(in crate::observe) fn store_failed(_: &'static str, _: &StoreError) {}
    pub(in crate::observe) fn answered(_: &Key, _: Answer, _: bool) {}
    pub(in crate::observe) fn ended(_: &Key, _: End) {}
    pub(in crate::observe) fn unopened(_: &Key, _: &Unopened) {}
    #[cfg(feature = "lambda")]
    pub(in crate::observe) fn record_failed(_: &str, _: &lambda_runtime::Diagnostic) {}
    pub(in crate::observe) fn audited(_: &Receipt) {}

    /// Without the feature there is none.
    pub(crate) struct CallSpan;

    /// Nothing that one could leave.
    pub(crate) struct Entered;

    impl CallSpan {
        pub(crate) const fn none() -> Self {
            Self
        }

        pub(crate) fn of(_: &Lease) -> Self {
            Self
        }

        #[expect(clippy::unused_self, reason = "with the feature, there is something to be in")]
        pub(crate) fn enter(&self) -> Entered {
            Entered
        }
    }
}

pub(crate) use to::CallSpan;
#[cfg(feature = "lambda")]
pub(super) use to::record_failed;
pub(super) use to::{answered, audited, ended, store_failed, unopened};
