//! A short run of every fuzz entry over the kept corpus, with seeded mutations.

semel_testkit::fuzz_entries! { semel_embedded::fuzz::ALL => frame segment card execution own place record }
