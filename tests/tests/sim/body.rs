//! Bodies and workloads: the job's key and some filling.

use fixtures::history::Key;

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
