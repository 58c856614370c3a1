//! Taking events in over HTTP: `POST /events` and `POST /sources/NAME`.
//!
//! 1. Who sends is known before anything else is looked at: by the headers before the body is read, by the raw body before
//!    it is decompressed or parsed. Whatever is wrong with it, the answer is the same 401.
//! 2. A body has a largest size, compressed or not, must come at a certain rate, and shares its memory with all others: what it
//!    may become before it is there, and what it is until it is answered.
//! 3. 2xx means durable, also for a duplicate. `202` if any function has the event now that did not have it before, `200`
//!    if not. Every refusal is a problem document, and names nothing of what was sent.
//! 4. A batch is answered item by item. If one item was refused, the answer is a problem: whoever sends the batch again
//!    sends duplicates, which harm nobody.
//! 5. Where there is no room or no store, the answer is `503` with `Retry-After`, and nothing is kept.
//! 6. What a function would take that is not here is refused for now, and nothing is kept.
//! 7. A source in mode `sync` is answered with what the function said.
//!
//! It does not deliver anything, and knows no format by itself: see `semel_events`.

mod absent;
mod auth;
mod body;
mod certificates;
mod count;
mod plain;
pub mod problems;
mod receipt;
mod receive;
mod source;
mod subscription;
mod sync;

pub(crate) use body::{BodyLimits, read_body};
pub(crate) use receive::{Ingest, Noted};
pub(crate) use {
    absent::{Absent, Absentees},
    auth::Fetch,
    source::{NoSource, Sources},
};
