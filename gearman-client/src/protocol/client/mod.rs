//! A client's side of one server: who waits for what, when it is written, and when there is to be a connection.

mod hold;
mod inbox;
mod link;
#[cfg(test)]
mod link_tests;
mod ring;
pub(crate) mod route;
mod slots;
mod window;

#[cfg(feature = "tokio")]
pub(crate) use self::inbox::Letters;
pub(crate) use self::{
    inbox::Mail,
    link::{Link, answer},
    window::{Batch, Running, WINDOW},
};
