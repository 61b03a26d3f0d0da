//! Bodies and workloads: the job's key and some filling. And what the history calls the fates of calls.

use fixtures::history::{Fate, Key};

use crate::rng::Rng;

pub fn body_of(key: Key, rng: &mut Rng) -> Vec<u8> {
    let mut body = format!("{key} ").into_bytes();
    let filling = if rng.one_in(50) { 20_000 } else { 200 };
    body.resize(body.len() + rng.below(filling) as usize, b'x');
    body
}

/// `None` for a body that no producer here has made.
pub fn key_of(body: &[u8]) -> Option<Key> {
    let text = body.split(|byte| *byte == b' ').next()?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// An error of any client.
pub trait Fated {
    fn fate(&self) -> queue_core::Fate;
}

macro_rules! fated {
    ($($client:ident),+) => {$(
        impl Fated for $client::Error {
            fn fate(&self) -> queue_core::Fate {
                $client::Error::fate(self)
            }
        }
    )+};
}

fated!(adf_queue_client, beanstalk_client, gearman_client);

/// What became of a call.
pub fn fate_of<T>(outcome: &Result<T, impl Fated>) -> Fate {
    match outcome.as_ref().map_err(Fated::fate) {
        Ok(_) => Fate::Acknowledged,
        Err(queue_core::Fate::NotSent) => Fate::NotSent,
        Err(queue_core::Fate::Refused) => Fate::Refused,
        Err(queue_core::Fate::Unknown) => Fate::Unknown,
    }
}
