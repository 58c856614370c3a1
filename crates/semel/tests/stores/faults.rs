//! Every store, with trouble on the line.
