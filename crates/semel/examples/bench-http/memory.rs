//! A thousand uploads at once, and the memory that they take.

use crate::{
    Bench, Trouble,
    app::{Kind, serve_uploads},
    load::Line,
};
use std::process::Command;
use tokio::task::JoinSet;

const UPLOADS: usize = 1_000;
const UPLOAD_BYTES: usize = 1_000_000;
/// How much more memory a process with the layer may take than one without.
const RATIO_MAX: f64 = 1.25;

/// The peak of a process with the layer, beside that of one without.
pub(crate) fn compare() -> Result<bool, Trouble> {
    let (with, without) = (peak_of("layered")?, peak_of("plain")?);
    let ratio = with / without;
    let verdict = if ratio <= RATIO_MAX { "" } else { ": NOT MET" };
    println!(
        "{:<32} {ratio:.3} of the route without it ({with:.0} of {without:.0} MB at the peak)  wanted {RATIO_MAX:.2} at most{verdict}",
        "1,000 uploads of 1 MB at once"
    );
    Ok(ratio <= RATIO_MAX)
}

/// In megabytes.
fn peak_of(kind: &str) -> Result<f64, Trouble> {
    let output = Command::new(std::env::current_exe()?).args(["memory-of", kind]).output()?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(
            format!("the measured process failed: {}", String::from_utf8_lossy(&output.stderr)).into()
        );
    }
    Ok(text.trim().parse()?)
}

/// Prints the peak of this process, in megabytes, after all uploads were held at once.
pub(crate) fn measure(kind: &str) -> Result<(), Trouble> {
    let kind = if kind == "layered" { Kind::Memory } else { Kind::Plain };
    let bench = Bench::new(UPLOADS)?;
    let served = bench.serving.block_on(serve_uploads(kind, UPLOADS))?;
    let body = bytes::Bytes::from(vec![b'x'; UPLOAD_BYTES]);
    let address = served.address;
    bench.asking.block_on(async {
        let mut uploads = JoinSet::new();
        for key in 0..UPLOADS as u64 {
            // One after the other: a system takes only so many that come at the same time.
            let mut line = Line::connect(address).await?;
            let body = body.clone();
            uploads.spawn(async move { line.ask("/uploads", "ann", key, &body).await });
        }
        while let Some(status) = uploads.join_next().await {
            assert_eq!(status??, 200, "every upload is answered");
        }
        Ok::<_, Trouble>(())
    })?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).ok_or("there is no `VmHWM`")?;
    let kilobytes: f64 = peak.trim().trim_end_matches(" kB").parse()?;
    println!("{}", kilobytes / 1024.0);
    Ok(())
}
