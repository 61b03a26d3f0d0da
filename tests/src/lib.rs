//! Shared by the integration tests: the two faces of a client behind one trait, the servers they run against, streams
//! and listeners that misbehave by script.
//!
//! A scenario is one function over a [`Face`] and an [`Environment`]; [`scenarios!`] makes four tests of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
// The programs below give no warning when they are copied.
#![doc(test(attr(deny(warnings))))]

pub mod catalogue;
pub mod connectors;
pub mod damaged;
pub mod face;
pub mod listener;
pub mod place;
pub mod producing;
pub mod streams;

pub use self::{
    face::{Async, Blocking, Face},
    place::{Environment, Place},
};

/// Makes four tests of each scenario: {async, blocking} x {in-memory, real beanstalkd}.
///
/// If the real server is not installed, its tests skip the scenario; with `CI=true`, they fail.
#[macro_export]
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use $crate::{Async, Blocking, Environment};

            #[test]
            fn async_in_memory() {
                super::$name::<Async>(Environment::InMemory);
            }

            #[test]
            fn blocking_in_memory() {
                super::$name::<Blocking>(Environment::InMemory);
            }

            #[test]
            fn async_real() {
                if Environment::Real.is_available() {
                    super::$name::<Async>(Environment::Real);
                }
            }

            #[test]
            fn blocking_real() {
                if Environment::Real.is_available() {
                    super::$name::<Blocking>(Environment::Real);
                }
            }
        }
    )+};
}

/// Makes two tests of each function over a [`Face`]: async and blocking.
#[macro_export]
macro_rules! both_faces {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn async_face() {
                super::$name::<$crate::Async>();
            }

            #[test]
            fn blocking_face() {
                super::$name::<$crate::Blocking>();
            }
        }
    )+};
}

/// Makes four tests of each scenario over a [`Producing`](producing::Producing) face: {async, blocking} x {in-memory,
/// real beanstalkd}.
#[macro_export]
macro_rules! producer_scenarios {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use $crate::{
                Environment,
                producing::{AsyncProducer, BlockingProducer},
            };

            #[test]
            fn async_in_memory() {
                super::$name::<AsyncProducer>(Environment::InMemory);
            }

            #[test]
            fn blocking_in_memory() {
                super::$name::<BlockingProducer>(Environment::InMemory);
            }

            #[test]
            fn async_real() {
                if Environment::Real.is_available() {
                    super::$name::<AsyncProducer>(Environment::Real);
                }
            }

            #[test]
            fn blocking_real() {
                if Environment::Real.is_available() {
                    super::$name::<BlockingProducer>(Environment::Real);
                }
            }
        }
    )+};
}

/// Makes two tests of each function over a [`Producing`](producing::Producing) face: async and blocking.
#[macro_export]
macro_rules! both_producers {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn async_face() {
                super::$name::<$crate::producing::AsyncProducer>();
            }

            #[test]
            fn blocking_face() {
                super::$name::<$crate::producing::BlockingProducer>();
            }
        }
    )+};
}

/// The programs of the README: those that need no server are run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The programs of the guide: those that need no external server are run.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../docs/guide/src/ten-minutes.md")]
    struct TenMinutes;
    #[doc = include_str!("../../docs/guide/src/faces.md")]
    struct Faces;
    #[doc = include_str!("../../docs/guide/src/fates.md")]
    struct Fates;
    #[doc = include_str!("../../docs/guide/src/never-losing-a-job.md")]
    struct NeverLosingAJob;
    #[doc = include_str!("../../docs/guide/src/many-servers.md")]
    struct ManyServers;
    #[doc = include_str!("../../docs/guide/src/tls.md")]
    struct Tls;
    #[doc = include_str!("../../docs/guide/src/testing.md")]
    struct Testing;
    #[doc = include_str!("../../docs/guide/src/integrations.md")]
    struct Integrations;
    #[doc = include_str!("../../docs/guide/src/operating.md")]
    struct Operating;
    #[doc = include_str!("../../docs/guide/src/tracing.md")]
    struct Tracing;
    #[doc = include_str!("../../docs/guide/src/cookbook.md")]
    struct Cookbook;
    #[doc = include_str!("../../docs/guide/src/migrating.md")]
    struct Migrating;
}
