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

/// Makes two tests of each function: over the one face and over the other.
macro_rules! in_faces {
    ($async:ty, $blocking:ty, $($name:ident)+) => {$(
        mod $name {
            #[test]
            fn async_face() {
                super::$name::<$async>();
            }

            #[test]
            fn blocking_face() {
                super::$name::<$blocking>();
            }
        }
    )+};
}

/// Makes four tests of each scenario: {the one face, the other} x {in-memory, real beanstalkd}.
///
/// If the real server is not installed, its tests skip the scenario; with `CI=true`, they fail.
macro_rules! in_places {
    ($async:ty, $blocking:ty, $($name:ident)+) => {$(
        mod $name {
            use crate::support::Environment;

            #[test]
            fn async_in_memory() {
                super::$name::<$async>(Environment::InMemory);
            }

            #[test]
            fn blocking_in_memory() {
                super::$name::<$blocking>(Environment::InMemory);
            }

            #[test]
            fn async_real() {
                if Environment::Real.is_available() {
                    super::$name::<$async>(Environment::Real);
                }
            }

            #[test]
            fn blocking_real() {
                if Environment::Real.is_available() {
                    super::$name::<$blocking>(Environment::Real);
                }
            }
        }
    )+};
}

/// Four tests of each scenario over a [`Face`].
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        $crate::support::in_places!($crate::support::Async, $crate::support::Blocking, $($name)+);
    };
}

/// Two tests of each function over a [`Face`].
macro_rules! both_faces {
    ($($name:ident),+ $(,)?) => {
        $crate::support::in_faces!($crate::support::Async, $crate::support::Blocking, $($name)+);
    };
}

/// Four tests of each scenario over a [`Producing`](producing::Producing) face.
macro_rules! producer_scenarios {
    ($($name:ident),+ $(,)?) => {
        $crate::support::in_places!(
            $crate::support::producing::AsyncProducer,
            $crate::support::producing::BlockingProducer,
            $($name)+
        );
    };
}

/// Two tests of each function over a [`Producing`](producing::Producing) face.
macro_rules! both_producers {
    ($($name:ident),+ $(,)?) => {
        $crate::support::in_faces!(
            $crate::support::producing::AsyncProducer,
            $crate::support::producing::BlockingProducer,
            $($name)+
        );
    };
}

/// Two tests of each scenario over an [`Environment`] alone.
macro_rules! each_server {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use crate::support::Environment;

            #[test]
            fn in_memory() {
                super::$name(Environment::InMemory);
            }

            #[test]
            fn real() {
                if Environment::Real.is_available() {
                    super::$name(Environment::Real);
                }
            }
        }
    )+};
}

/// Runs a test again, alone in a process with these variables.
#[cfg(target_os = "linux")]
pub(crate) fn run_alone(name: &str, variables: &[(&str, &str)]) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let [text, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let is_good = output.status.success() && text.contains("1 passed");
    assert!(is_good, "{variables:?}: {text}{errors}");
}

pub(crate) use {
    both_faces, both_producers, each_server, in_faces, in_places, producer_scenarios, scenarios,
};
