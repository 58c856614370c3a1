//! How long the disk by itself takes, beside what is measured on it.
//!
//! A file is overwritten that is full of zeros, as the journal does: to grow one takes longer.

use crate::Result;
use semel_server::bench::percentile::percentile;
use std::{
    fs::File,
    io::{Seek as _, SeekFrom, Write as _},
    path::Path,
    time::{Duration, Instant},
};

/// How much is written before each sync, and where it begins again.
const PIECE: usize = 4 << 10;
const FILE: usize = 16 << 20;

/// How long it takes to write a little and sync it, in microseconds: the one in the middle, and the slowest in a hundred.
pub(crate) fn syncs(directory: &Path, time: Duration) -> Result<(u64, u64)> {
    let path = directory.join("disk");
    let mut file = File::create(&path)?;
    file.write_all(&vec![0; FILE])?;
    file.sync_all()?;
    let (piece, began, mut micros) = ([7; PIECE], Instant::now(), Vec::new());
    while began.elapsed() < time {
        file.seek(SeekFrom::Start((micros.len() * PIECE % FILE) as u64))?;
        let since = Instant::now();
        file.write_all(&piece)?;
        file.sync_data()?;
        micros.push(since.elapsed().as_micros() as u64);
    }
    std::fs::remove_file(&path)?;
    micros.sort_unstable();
    Ok((percentile(&micros, 0.5), percentile(&micros, 0.99)))
}
