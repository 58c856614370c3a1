//! `semel serve`, and what goes with it.

mod address;
#[cfg(target_os = "linux")]
mod broken;
mod config;
mod events;
mod hostile;
mod logs;
mod reload;
mod sns;
mod sources;
mod stop;
mod support;
mod sync;
mod wanted;
