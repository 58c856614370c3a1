//! The zoo: targets that do what targets should not, on real connections.
//!
//! 1. Each animal is met by a real client. What is checked: the answer, how long it took, how much was read, how many
//!    requests were sent, and that the next delivery works.
//! 2. Time is real until only clocks can go on, and stands still from then on, so that waiting costs nothing.
//! 3. Targets live on loopback, on a port of their own, and end with their test.

mod answers;
mod encrypted;
mod guard;
mod headers;
mod http2;
mod large;
mod pool;
mod proxied;
mod slow;
mod target;
