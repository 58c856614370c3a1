//! A short run of every fuzz entry over the kept corpus, with seeded mutations.

semel_testkit::fuzz_entries! {
    semel_events::fuzz::ALL =>
    stored structured batch auto request sns any gzip zstd auth expression keys certificate
}
