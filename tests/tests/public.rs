//! The public items of the client crates, read from their sources, so that a list in a test or a document cannot become
//! outdated.

#[path = "public/closed.rs"]
mod closed;
#[path = "public/faces.rs"]
mod faces;
#[path = "public/shared.rs"]
mod shared;
#[path = "public/source.rs"]
mod source;
