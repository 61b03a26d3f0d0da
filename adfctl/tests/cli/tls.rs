//! TLS to the server.

use ctl_contract::bad_servers::hesitant;
use fixtures::{adf_queue::Server, tls::Authority};

use crate::harness::*;

#[test]
fn tls_works_over_each_transport() {
    let directory = tempfile::tempdir().unwrap();
    let (server, known) = (Server::builder().queue("/q").start().unwrap(), Authority::new());
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, known.pem()).unwrap();
    let flag = format!("--tls=ca={}", ca.display());
    let tls = known.identity("127.0.0.1").server(None);
    let address = tls.proxy(server.socket_addr().unwrap());
    for scheme in ["adfs", "adfs+json", "https", "https+json"] {
        let address = format!("{scheme}://{address}");
        adfctl(&address, &[&flag, "push", "/q", scheme]).exits(0);
        let ran = adfctl(&address, &[&flag, "pop", "/q", "-o", "raw"]).exits(0);
        assert_eq!(ran.out(), scheme);
        adfctl(&address, &["push", "/q", "untrusted"]).exits(77);
    }
    assert_eq!((server.view().ready, server.view().pulled), (0, 0));
    // Its refusal of a request without TLS says nothing about it, whatever its address is called.
    let slow = format!("https://{}", hesitant(&address.to_string()));
    PROGRAM.unconfigured().at(&slow, &[&flag, "ping", "-c", "1"]).exits(0);
}
