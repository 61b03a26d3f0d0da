//! What the fuzz targets run: one function for each, which takes any bytes and panics when a promise does not hold.
//!
//! The same functions run over the committed seeds in the workspace's tests.

pub mod targets;
