//! A worker's side of one server: pulls, handlers, and the settling of messages.

mod held;
mod lane;
#[cfg(test)]
mod lane_tests;
mod line;

pub(crate) use self::{
    held::HeldKey,
    lane::{HandlerMessage, Lane, LaneEvent, LaneSettings},
};
