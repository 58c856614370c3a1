//! The admin API of `semel serve`.

mod document;
mod door;
mod flows;
mod functions;
mod hostile;
pub(crate) mod support;
