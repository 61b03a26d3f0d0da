//! The client's side of one server: who waits for what, when requests are written, and when to connect.

pub(crate) mod creation;
mod hold;
mod inbox;
pub(crate) mod inquiry;
mod link;
#[cfg(test)]
mod link_tests;
mod recent;
mod ring;
pub(crate) mod route;
mod slots;
mod window;

pub(crate) use self::inbox::UnreadItems;
pub(crate) use self::{
    inbox::InboxItem,
    link::{Link, answer},
    window::{BatchJob, JobBatch, WINDOW},
};
