//! A worker's side of the connections to one server.

mod assignment;
mod budget;
mod confirm;
mod dialect;
mod intake;
pub(crate) mod lane;
#[cfg(test)]
mod lane_tests;
mod refusals;
mod session;
#[cfg(test)]
mod session_tests;
pub(crate) mod work;

pub(crate) use self::session::Letter;
pub use self::{
    assignment::{Assignment, Grab},
    session::WorkerSession,
    work::{JobEnd, Report, Settled},
};
