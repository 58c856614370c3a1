//! A short run of every fuzz entry over the kept corpus, with seeded mutations.

semel_testkit::fuzz_entries! { semel_runtime::fuzz::ALL => url allowed retry_later cursor answer proxies jobs paused }
