//! Whether the time of an answer tells that a key is somebody else's.

use crate::{
    Bench, Trouble,
    app::{Kind, serve},
    load::Line,
    median,
};
use std::time::Instant;

const SAMPLES: u64 = 10_000;

/// Prints the times of another caller's keys beside those of new ones, taken in turn on one connection.
pub(crate) fn compare(bench: &Bench) -> Result<(), Trouble> {
    let served = bench.serving.block_on(serve(Kind::Memory))?;
    let (mut known, mut new) = bench.asking.block_on(async {
        let mut line = Line::connect(served.address).await?;
        let body = br#"{"item":"book","cents":1}"#;
        for key in 0..SAMPLES {
            line.ask("/orders", "ann", key, body).await?;
        }
        let (mut known, mut new) = (Vec::new(), Vec::new());
        for key in 0..SAMPLES {
            for (times, key) in [(&mut known, key), (&mut new, key + SAMPLES)] {
                let begun = Instant::now();
                line.ask("/orders", "bob", key, body).await?;
                times.push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
        Ok::<_, Trouble>((known, new))
    })?;
    let (of_known, of_new) = (median(&mut known), median(&mut new));
    println!(
        "{:<32} {:.3} of the time of a new key ({of_known:.1} of {of_new:.1} µs)",
        "another caller's key",
        of_known / of_new
    );
    bench.serving.block_on(served.stop());
    Ok(())
}
