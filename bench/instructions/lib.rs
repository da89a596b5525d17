//! A place for `benches/instructions.rs`, which needs a library beside it; see tools/instructions.py.
