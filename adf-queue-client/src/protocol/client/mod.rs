//! The client's side of one server: who waits for what, what is sent, and when to connect.

mod ask;
mod batch;
mod connection;
pub(crate) mod course;
pub(crate) mod exchange;
#[cfg(test)]
mod exchange_tests;
mod link;
#[cfg(test)]
pub(crate) mod link_network_tests;
#[cfg(test)]
pub(crate) mod link_tests;
mod loss;
pub(crate) mod pool;
pub(crate) mod pulling;
mod pulls;
pub(crate) mod step;
mod task;
pub(crate) mod window;

pub(crate) use self::{
    ask::{Ask, AskAnswer},
    link::Link,
};
