//! What the client crates show: read from their sources, so that a list of it in a test or a document cannot fall
//! behind.

#[path = "public/closed.rs"]
mod closed;
#[path = "public/faces.rs"]
mod faces;
#[path = "public/source.rs"]
mod source;
