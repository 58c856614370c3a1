//! The admin API of `semel serve`.

mod document;
mod door;
mod flows;
mod full;
mod functions;
mod hostile;
mod postgres;
pub(crate) mod support;
