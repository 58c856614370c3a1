//! The Redis store, on Redis and Valkey.
