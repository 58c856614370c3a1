//! A short run of every fuzz entry over the kept corpus, with seeded mutations.

semel_testkit::fuzz_entries! { semel_server::fuzz::ALL => http1 config function query cursor path store forwarded functions crashes }
