//! The whole promise, on the real program: it is killed under load, and somebody outside keeps the books.
//!
//! 1. The function is a server in this process: it notes every call with its key, attempt and fence. Senders note every
//!    acknowledgement. Both survive every kill: see [`oracle`].
//! 2. What was acknowledged is never new again. What was said to be completed is never called again. Fences and attempts
//!    of one key only grow. What breaks a rule is noted when it happens.
//! 3. When the kills are over everything drains, and the program's own counts agree with the books to the last event.
//!
//! 4. Each test says how many ends it made, and demands that there was load: deliveries that came again, and calls that were cut
//!    short. On each queue there are more than two hundred kills.
//!
//! `SEMEL_SEED` runs one again; `SEMEL_KILLS` says how many kills.

mod crowd;
mod kill;
mod nodes;
mod oracle;
mod poison;
#[cfg(feature = "postgres")]
mod postgres;
mod senders;

/// What is chosen by chance is chosen by this, and it is told.
fn seed() -> u64 {
    let seed = std::env::var("SEMEL_SEED").map_or_else(|_| fastrand::u64(..), |it| it.parse().unwrap());
    println!("SEMEL_SEED={seed}");
    seed
}

/// How many kills there are, unless somebody says so.
fn kills(usual: usize) -> usize {
    let kills = std::env::var("SEMEL_KILLS").map_or(usual, |it| it.parse().unwrap());
    println!("{kills} ends, where {usual} are usual");
    kills
}
