//! Adf.QueueServer for queue-core: how its addresses are written, and how its connections are traced.

use queue_core::{Scheme, Span, System};

use crate::{
    Address, Error,
    address::{AdfQueue, host},
    trace,
};

impl System for AdfQueue {
    /// In the order of [`Transport::ALL`](crate::Transport::ALL).
    const SCHEME: Scheme = Scheme {
        server: "Adf.QueueServer",
        plain: "adf",
        tls: "adfs",
        port: 6230,
        tls_port: 6230,
        also: None,
        others: &[("adf+json", "adfs+json"), ("http", "https"), ("http+json", "https+json")],
    };
    type Error = Error;

    fn check(address: &Address) -> Result<(), Error> {
        crate::protocol::check_host(&host(address))
    }

    fn connecting(address: &Address) -> Span {
        trace::connecting(address)
    }

    fn connected(address: &Address, span: &Span, outcome: Result<(), &Error>) {
        trace::connected(address, span, outcome);
    }
}
