//! Other people's clients and workers.

mod gearman;
mod libgearman;
mod rustygear;

use std::net::SocketAddr;

use anyhow::anyhow;

use super::scenario::{Contender, Kind};

/// Every peer that can be run here; a message on stderr for each one that cannot.
pub fn all(address: SocketAddr) -> Vec<Box<dyn Contender>> {
    let mut peers: Vec<Box<dyn Contender>> = vec![
        Box::new(gearman::Gearman::new(address, Kind::Async)),
        Box::new(gearman::Gearman::new(address, Kind::Multi)),
        Box::new(rustygear::Rustygear::new(address)),
    ];
    match libgearman::Libgearman::connect(address) {
        Ok(peer) => peers.push(Box::new(peer)),
        Err(error) => eprintln!("bench: without the peer libgearman: {error:#}"),
    }
    peers
}

/// An error of a peer, which may not be one that the standard library knows.
fn said(error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow!("{error:?}")
}
