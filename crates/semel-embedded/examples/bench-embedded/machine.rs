//! What the operating system says of this process.

use std::{fs, path::Path};

/// Memory that is not backed by files.
pub(crate) fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"));
    line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Processor time used so far by all threads, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|it| it.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

/// The space that files with this ending take.
pub(crate) fn bytes_of_files(directory: &Path, ending: &str) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = files.filter(|it| it.file_name().to_string_lossy().ends_with(ending));
    sizes.filter_map(|it| it.metadata().ok()).map(|it| it.len()).sum()
}
