//! What the tests of the engine share.

pub(crate) mod clock;
pub(crate) mod queue;
pub(crate) mod targets;
