//! TLS to the server: the tool's own certificate, and lists of those that are revoked.

use std::path::Path;

use ctl_contract::tls::{files, private};
use fixtures::{
    gearmand::Server,
    tls::{Authority, Certificate},
};

use crate::harness::*;

#[test]
fn sends_a_client_certificate() {
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
    let ping =
        |keys: &str| bare(&["ping", "-s", &address, &format!("--tls=ca={}{keys}", text(&ca))]);
    let shown = format!(",cert={},key={}", text(&pem), text(&key));
    let ran = ping(&shown).exits(0);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    assert!(!matches!(ping("").code, Some(0)));
    ping(&format!(",cert={}", text(&pem))).exits(2);
    ping(&format!(",cert={},key={}", text(&pem), text(&other_key))).exits(77);
    if cfg!(unix) {
        private(&key, 0o644);
        let ran = ping(&shown).exits(0);
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
    let flag = |keys: &str| format!("--tls=ca={ca}{keys}");
    let with = |keys: &str| bare(&["ping", "-s", &address, &flag(keys), "-o", "json"]);
    let list = |name: &str, pem: String| {
        std::fs::write(in_directory(name), pem).unwrap();
        in_directory(name).to_str().unwrap().to_owned()
    };
    let revoked = list("revoked.pem", known.revoking(&[6, 7]));
    let others = list("others.pem", known.revoking(&[6, 8]));
    let foreign = list("foreign.pem", Authority::new().revoking(&[]));

    with("").exits(0);
    with(&format!(",crl={others}")).exits(0);
    let error = with(&format!(",crl={revoked}")).exits(77).error_alone();
    assert_eq!(error["code"], "TLS");
    assert!(error["message"].as_str().unwrap().contains("Revoked"), "{error}");
    // Nothing is known about a certificate without a list for it.
    with(&format!(",crl={foreign}")).exits(77);
    let mut by_environment = command(&["ping", "-s", &address, &flag("")]);
    ended(by_environment.env("GEARCTL_TLS_CRL", &revoked).spawn().unwrap()).exits(77);
    // The flag takes precedence, and where nothing is checked, a list would be useless.
    let mut by_both = command(&["ping", "-s", &address, &flag(&format!(",crl={others}"))]);
    ended(by_both.env("GEARCTL_TLS_CRL", &revoked).spawn().unwrap()).exits(0);
    with(&format!(",crl={revoked},insecure")).exits(2);
}

#[test]
fn names_a_file_that_is_not_a_revocation_list() {
    let directory = tempfile::tempdir().unwrap();
    let known = Authority::new();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, known.pem()).unwrap();
    let ca = ca.to_str().unwrap();
    let broken = directory.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN X509 CRL-----\n?\n-----END X509 CRL-----\n").unwrap();
    // The server gets no request.
    let message = |code: i32, keys: &str| {
        let flag = format!("--tls={keys}");
        let ran = bare(&["ping", "-s", "127.0.0.1:1", &flag, "-o", "json"]);
        let error = ran.exits(code).error_alone();
        error["message"].as_str().unwrap().to_owned()
    };
    let said = message(77, &format!("crl={ca}"));
    assert!(said.contains("no PEM revocation list") && said.contains(ca), "{said}");
    let said = message(77, &format!("ca={ca},crl={}", broken.display()));
    assert!(said.contains("the revocation lists"), "{said}");
    let said = message(77, &format!("ca={}", broken.display()));
    assert!(said.contains("no PEM certificate") && said.contains("broken.pem"), "{said}");
    assert!(message(66, "crl=/no/such/list").contains("/no/such/list"));
}
