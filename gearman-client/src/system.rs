//! gearmand for queue-core: how its addresses are written, and how its connections are traced.

use queue_core::Span;
use queue_core::{Scheme, System};

use crate::{Address, trace};
use crate::{Error, address::Gearmand};

impl System for Gearmand {
    const SCHEME: Scheme = Scheme {
        server: "gearmand",
        plain: "gearman",
        tls: "gearmans",
        port: 4730,
        tls_port: 4730,
        also: None,
        others: &[],
    };
    type Error = Error;

    fn connecting(address: &Address) -> Span {
        trace::connecting(address)
    }

    fn connected(address: &Address, span: &Span, outcome: Result<(), &Error>) {
        trace::connected(address, span, outcome);
    }
}
