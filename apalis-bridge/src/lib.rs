//! The common part of this project's [apalis](https://docs.rs/apalis) backends. Use one of them instead:
//! `queue-toolkit-apalis-beanstalk` or `queue-toolkit-apalis-gearman`, which re-export what their users need.
//!
//! * [`TaskSender`] is where the worker of a queue client offers jobs as tasks, and [`Bridge`] where an apalis worker takes
//!   them;
//! * [`SettleLayer`] ends each job by the outcome of its task, panics included;
//! * [`Pushes`] keeps the puts of a sink in flight;
//! * `Json` and [`Raw`] are codecs for the bodies of jobs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]

mod bridge;
mod codec;

mod error;
mod pushes;
mod settle;
mod task_channel;

#[cfg(feature = "json")]
pub use self::codec::Json;
pub use self::{
    bridge::Bridge,
    codec::{BodyCodec, Raw, RawError},
    error::Error,
    pushes::Pushes,
    settle::{Leave, Once, Panicked, Settle, SettleLayer, SettleService},
    task_channel::{NotTaken, TaskSender},
};
