//! TLS to the server: the tool's own certificate, and lists of those that are revoked.

use std::path::Path;

use ctl_contract::tls::{files, private};
use fixtures::{
    gearmand::Server,
    tls::{Authority, Certificate},
};

use crate::harness::*;

#[test]
fn the_tool_shows_its_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let (server, known) = (Server::start().unwrap(), Authority::new());
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, known.pem()).unwrap();
    let tls = known.identity("127.0.0.1").server(Some(&known));
    let address = tls.proxy(server.socket_addr().unwrap()).to_string();
    let client = |name: &str| files(&known.identity("client"), directory.path(), name);
    let (pem, key) = client("client");
    let (_, other_key) = client("other");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let ping = |flags: &[&str]| {
        bare(&[&["ping", "-s", &address, "--tls", "--tls-ca", &text(&ca)], flags].concat())
    };
    let ran = ping(&["--tls-cert", &text(&pem), "--tls-key", &text(&key)]).exits(0);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    assert!(!matches!(ping(&[]).code, Some(0)));
    ping(&["--tls-cert", &text(&pem)]).exits(2);
    ping(&["--tls-cert", &text(&pem), "--tls-key", &text(&other_key)]).exits(77);
    if cfg!(unix) {
        private(&key, 0o644);
        let ran = ping(&["--tls-cert", &text(&pem), "--tls-key", &text(&key)]).exits(0);
        assert!(ran.err.contains("other users can read the key"), "{}", ran.err);
    }
}

#[test]
fn a_revoked_certificate_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let in_directory = |name: &str| directory.path().join(name);
    let (server, known) = (Server::start().unwrap(), Authority::new());
    std::fs::write(in_directory("ca.pem"), known.pem()).unwrap();
    let ca = in_directory("ca.pem").to_str().unwrap().to_owned();
    let tls = known.sign(Certificate::of("127.0.0.1").serial(7)).server(None);
    let address = tls.proxy(server.socket_addr().unwrap()).to_string();
    let ping = ["ping", "-s", &address, "--tls", "--tls-ca", &ca, "-o", "json"];
    let with = |flags: &[&str]| bare(&[&ping, flags].concat());
    let list = |name: &str, pem: String| {
        std::fs::write(in_directory(name), pem).unwrap();
        in_directory(name).to_str().unwrap().to_owned()
    };
    let revoked = list("revoked.pem", known.revoking(&[6, 7]));
    let others = list("others.pem", known.revoking(&[6, 8]));
    let foreign = list("foreign.pem", Authority::new().revoking(&[]));

    with(&[]).exits(0);
    with(&["--tls-crl", &others]).exits(0);
    let error = with(&["--tls-crl", &revoked]).exits(77).error_alone();
    assert_eq!(error["code"], "TLS");
    assert!(error["message"].as_str().unwrap().contains("Revoked"), "{error}");
    // Nothing is known about a certificate without a list for it.
    with(&["--tls-crl", &foreign]).exits(77);
    let mut by_environment = command(&ping);
    ended(by_environment.env("GEARCTL_TLS_CRL", &revoked).spawn().unwrap()).exits(77);
    // The flag takes precedence, and where nothing is checked, a list would be useless.
    let mut by_both = command(&[&ping[..], &["--tls-crl", &others]].concat());
    ended(by_both.env("GEARCTL_TLS_CRL", &revoked).spawn().unwrap()).exits(0);
    with(&["--tls-crl", &revoked, "--tls-insecure"]).exits(2);
}

#[test]
fn a_file_that_is_no_revocation_list_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let known = Authority::new();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, known.pem()).unwrap();
    let ca = ca.to_str().unwrap();
    let broken = directory.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN X509 CRL-----\n?\n-----END X509 CRL-----\n").unwrap();
    // The server gets no request.
    let ping = ["ping", "-s", "127.0.0.1:1", "--tls", "-o", "json"];
    let message = |code: i32, flags: &[&str]| {
        let error = bare(&[&ping, flags].concat()).exits(code).error_alone();
        error["message"].as_str().unwrap().to_owned()
    };
    let said = message(77, &["--tls-crl", ca]);
    assert!(said.contains("no PEM revocation list") && said.contains(ca), "{said}");
    let said = message(77, &["--tls-ca", ca, "--tls-crl", broken.to_str().unwrap()]);
    assert!(said.contains("the revocation lists"), "{said}");
    let said = message(77, &["--tls-ca", broken.to_str().unwrap()]);
    assert!(said.contains("no PEM certificate") && said.contains("broken.pem"), "{said}");
    assert!(message(66, &["--tls-crl", "/no/such/list"]).contains("/no/such/list"));
    let said = bare(&["ping", "-s", "127.0.0.1:1", "--tls-crl", ca]).exits(2);
    assert!(said.err.contains("no server address uses TLS"), "{}", said.err);
}
