//! The two faces of a client behind one trait, and the servers that scenarios run against.
//!
//! A scenario is one function over a [`Face`] and an [`Environment`]; [`scenarios!`] makes four tests of it.

pub(crate) mod catalogue;
pub(crate) mod connectors;
pub(crate) mod damaged;
pub(crate) mod face;
pub(crate) mod place;
pub(crate) mod producing;

pub(crate) use self::{
    face::{Async, Blocking, Face},
    place::{Environment, Place},
};

/// Makes four tests of each scenario: {async, blocking} x {in-memory, real beanstalkd}.
///
/// If the real server is not installed, its tests skip the scenario; with `CI=true`, they fail.
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use crate::support::{Async, Blocking, Environment};

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
macro_rules! both_faces {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn async_face() {
                super::$name::<crate::support::Async>();
            }

            #[test]
            fn blocking_face() {
                super::$name::<crate::support::Blocking>();
            }
        }
    )+};
}

/// Makes four tests of each scenario over a [`Producing`](producing::Producing) face: {async, blocking} x {in-memory,
/// real beanstalkd}.
macro_rules! producer_scenarios {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use crate::support::{
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
macro_rules! both_producers {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn async_face() {
                super::$name::<crate::support::producing::AsyncProducer>();
            }

            #[test]
            fn blocking_face() {
                super::$name::<crate::support::producing::BlockingProducer>();
            }
        }
    )+};
}

pub(crate) use {both_faces, both_producers, producer_scenarios, scenarios};
