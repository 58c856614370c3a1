//! A short run of every fuzz entry over the kept corpus, with seeded mutations.

use fastrand::Rng;
use semel_events::fuzz::{ALL, Entry};
use std::{fs, path::Path};

/// Mutations of each entry in one run.
const ROUNDS: usize = 3_000;
/// Most memory that a run may ever have used, in KiB: the largest body decoded, many times over.
const MEMORY_KIB_MAX: u64 = 200 * 1024;

/// Pieces that parsers are sensitive to.
const TOKENS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"null",
    b"1e400",
    b"\\ud800",
    b"\\u0000",
    b"\xff",
    b"\xef\xbb\xbf",
    b"%00",
    b"%C0%AF",
    b"\"id\":1,",
    b"\"specversion\":\"1.0\",",
    b"\n\n",
    b"ce-id: x\n",
    b"\"data_base64\":\"AA==\",",
    b"\xff\xff\xff\xff\x0f",
    b"..",
    b"-",
    b"0",
];

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    files.iter().map(|it| fs::read(it).unwrap()).collect()
}

fn mutated(random: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus[random.usize(..corpus.len())].clone();
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..=bytes.len());
        match random.u8(..6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            1 if at < bytes.len() => bytes[at] = random.u8(..),
            2 => bytes.truncate(at),
            3 => {
                let token = TOKENS[random.usize(..TOKENS.len())];
                bytes.splice(at..at, token.iter().copied());
            }
            4 => {
                let end = (at + random.usize(..20)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let other = &corpus[random.usize(..corpus.len())];
                let from = random.usize(..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes
}

fn run(name: &str) {
    let seed = std::env::var("SEMEL_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(0x5e_3e1);
    let (_, entry): (&str, Entry) = *ALL.iter().find(|(it, _)| *it == name).unwrap();
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "the corpus of `{name}` is empty");
    let mut random = Rng::with_seed(seed);
    for bytes in &corpus {
        entry(bytes);
    }
    for round in 0..ROUNDS {
        let bytes = mutated(&mut random, &corpus);
        println!("seed {seed}, round {round}: {}", bytes.escape_ascii());
        entry(&bytes);
    }
    assert!(peak_kib() < MEMORY_KIB_MAX, "{} KiB were used", peak_kib());
}

fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    line.and_then(|it| it.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

macro_rules! entries {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn every_entry_is_run() {
            let run = [$(stringify!($name)),*];
            let all: Vec<&str> = ALL.iter().map(|(it, _)| *it).collect();
            assert_eq!(run[..], all[..]);
        }
    };
}

entries! { stored structured batch auto request sns any gzip zstd auth expression keys }
