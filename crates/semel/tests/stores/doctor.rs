//! What stores say about their own durability.
