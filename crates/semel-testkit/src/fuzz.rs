//! A short run of fuzz entries: the kept corpus, and mutations of it by seed.
//!
//! 1. An entry takes any bytes, and panics if anything is wrong. What it calls must give up in bounded time and memory.
//! 2. The corpus of an entry is kept in `tests/corpus` of its crate, in a directory of the entry's name. What was found
//!    once goes there.
//! 3. The same seed makes the same run: `SEMEL_SEED` says which, `SEMEL_ROUNDS` how long it is.
//!
//! It does not learn which mutation reaches new code: for that, give the entries to a fuzzer.

use fastrand::Rng;
use std::{env, fs, path::Path};

/// What a fuzzer calls.
pub type Entry = fn(&[u8]);

/// Mutations of each entry in one run.
const ROUNDS: usize = 3_000;
/// Most memory that a run may take, in KiB.
const MEMORY_KIB_MAX: u64 = 200 * 1024;
const SEED: u64 = 0x5e_3e1;

/// Pieces that parsers are sensitive to.
const TOKENS: [&[u8]; 40] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"=",
    b"&",
    b"@",
    b"/",
    b"null",
    b"1e400",
    b"\\ud800",
    b"\\u0000",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"%00",
    b"%C0%AF",
    b"\"id\":1,",
    b"\"specversion\":\"1.0\",",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\r\n\r\n",
    b"ce-id: x\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"\"data_base64\":\"AA==\",",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"[[function]]\n",
    b"127.0.0.1",
    b"::ffff:",
    b"0x7f",
    b"..",
    b"-",
    b"0",
    b"9",
];

/// Runs the entry of this name over its corpus in this crate, and over mutations of that.
///
/// # Panics
///
/// If the entry does, if there is no such entry or nothing in its corpus, or if it took too much memory.
pub fn run(krate: &str, entries: &[(&str, Entry)], name: &str) {
    let number = |name: &str| env::var(name).ok().and_then(|it| it.parse().ok());
    let seed: u64 = number("SEMEL_SEED").unwrap_or(SEED);
    let rounds = number("SEMEL_ROUNDS").map_or(ROUNDS, |it| it as usize);
    let (_, entry) = entries.iter().find(|(it, _)| *it == name).expect("every entry has its name");
    let corpus = corpus(&Path::new(krate).join("tests/corpus").join(name));
    assert!(!corpus.is_empty(), "the corpus of `{name}` is empty");
    let before = peak_kib();
    for bytes in &corpus {
        println!("kept: {}", bytes.escape_ascii());
        entry(bytes);
    }
    let mut random = Rng::with_seed(seed);
    for round in 0..rounds {
        let bytes = mutated(&mut random, &corpus);
        println!("seed {seed}, round {round}: {}", bytes.escape_ascii());
        entry(&bytes);
    }
    let used = peak_kib() - before;
    assert!(used < MEMORY_KIB_MAX, "{used} KiB were used");
}

fn corpus(directory: &Path) -> Vec<Vec<u8>> {
    let listed = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<_> = listed.map(|it| it.expect("a directory can be listed").path()).collect();
    files.sort();
    files.iter().map(|it| fs::read(it).expect("what is kept can be read")).collect()
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

fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    line.and_then(|it| it.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// A test for each entry of a list, named like it, and one that none was forgotten.
///
/// ```ignore
/// semel_testkit::fuzz_entries! { my_parsers::fuzz::ALL => stored request }
/// ```
#[macro_export]
macro_rules! fuzz_entries {
    ($all:path => $($name:ident)*) => {
        $(#[test]
        fn $name() {
            $crate::fuzz::run(env!("CARGO_MANIFEST_DIR"), &$all, stringify!($name));
        })*

        #[test]
        fn every_entry_is_run() {
            let run = [$(stringify!($name)),*];
            let all: Vec<&str> = $all.iter().map(|(it, _)| *it).collect();
            assert_eq!(run[..], all[..]);
        }
    };
}
