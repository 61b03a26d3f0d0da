//! beanstalkd for queue-core: how its addresses are written, and how its connections are traced.

use queue_core::Span;
use queue_core::{Scheme, System};

use crate::{Address, trace};
use crate::{Error, address::Beanstalkd};

impl System for Beanstalkd {
    const SCHEME: Scheme = Scheme {
        server: "beanstalkd",
        plain: "beanstalk",
        tls: "beanstalks",
        port: 11300,
        tls_port: 11400,
        also: Some("beanstalkd"),
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
