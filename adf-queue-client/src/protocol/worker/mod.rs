//! A worker's side of one server: what is pulled, who handles it, and what becomes of it.

mod held;
mod lane;
#[cfg(test)]
mod lane_tests;
mod line;

pub(crate) use self::{
    held::Key,
    lane::{Job, Lane, News, Terms},
};
