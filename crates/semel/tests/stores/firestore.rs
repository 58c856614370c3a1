//! The Firestore store.
