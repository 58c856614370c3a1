//! Whether the time of an answer tells that a key is somebody else's.
//!
//! One caller's keys are asked for by another, each beside a key that nobody has used, in changing order, on one connection. If
//! time told them apart, the one would be slower than the other in more than half of the pairs: a sign test says whether it is.

use crate::{
    Bench, Trouble,
    app::{Kind, serve},
    load::Line,
    median,
};
use std::time::Instant;

const PAIRS: u64 = 10_000;
/// How far from a half the part of pairs may be in which the known key was slower: four standard deviations of a fair coin.
const APART_MAX: f64 = 0.02;
const BODY: &[u8] = br#"{"item":"book","cents":1}"#;

/// Prints how the times of another caller's keys compare with those of new ones; whether nobody can tell.
pub(crate) fn compare(bench: &Bench, kind: Kind) -> Result<bool, Trouble> {
    let served = bench.serving.block_on(serve(kind))?;
    let (mut known, mut new) = bench.asking.block_on(pairs(served.address))?;
    let slower = known.iter().zip(&new).filter(|(known, new)| known > new).count() as f64 / PAIRS as f64;
    let (of_known, of_new) = (median(&mut known), median(&mut new));
    let is_met = (slower - 0.5).abs() <= APART_MAX;
    println!(
        "{:<32} slower than a new key in {slower:.3} of all pairs ({of_known:.1} and {of_new:.1} µs)  wanted 0.50 ± {APART_MAX}{}",
        format!("another's key, {}", kind.name()),
        if is_met { "" } else { ": NOT MET" }
    );
    bench.serving.block_on(served.stop());
    Ok(is_met)
}

/// The times of keys that another has used, and of new ones, in microseconds.
async fn pairs(address: std::net::SocketAddr) -> Result<(Vec<f64>, Vec<f64>), Trouble> {
    let mut line = Line::connect(address).await?;
    for key in 0..PAIRS {
        line.ask("/orders", "ann", key, BODY).await?;
    }
    let (mut known, mut new) = (Vec::new(), Vec::new());
    for key in 0..PAIRS {
        let mut pair = [(&mut known, key), (&mut new, key + PAIRS)];
        // Whoever is second finds everything warm.
        if key % 2 == 1 {
            pair.reverse();
        }
        for (times, key) in pair {
            let begun = Instant::now();
            line.ask("/orders", "bob", key, BODY).await?;
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok((known, new))
}
