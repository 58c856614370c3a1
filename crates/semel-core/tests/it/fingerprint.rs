//! Fingerprints: equal payloads share one, and nothing else does.
