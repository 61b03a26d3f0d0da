#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]

mod backend;
mod settle;
mod sink;

#[cfg(feature = "json")]
pub use apalis_bridge::Json;
pub use apalis_bridge::{BodyCodec, Panicked, Raw, RawError, SettleLayer, SettleService};
pub use beanstalk_client;

pub use self::{backend::BeanstalkBackend, settle::Reservation};

/// An error of this backend.
pub type Error = apalis_bridge::Error<beanstalk_client::Error>;
