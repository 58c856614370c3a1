//! Outcomes committed with the user's own rows.
