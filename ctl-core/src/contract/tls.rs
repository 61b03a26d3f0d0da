//! Flags of TLS, as far as no server is needed.

use super::Case;
use crate::tool::Tool;

/// A flag without a server that has TLS, a file that is not there, and one that is not what the flag says.
pub fn tls_flags_that_cannot_work_are_refused<T: Tool>(case: &Case<T>) {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.pem");
    std::fs::write(&text, "no certificate").unwrap();
    let text = text.to_str().unwrap();
    let said = |arguments: &[&str], code| {
        case.program.at("127.0.0.1:1", &[&["ping"], arguments].concat()).exits(code).err
    };
    let idle = said(&["--tls-ca", text], 2);
    let scheme = format!("{}://", T::PROGRAM.tls.scheme);
    assert!(idle.contains("no server address uses TLS") && idle.contains(&scheme), "{idle}");
    assert!(said(&["--tls", "--tls-ca", "/no/such/file"], 66).contains("/no/such/file"));
    assert!(said(&["--tls", "--tls-ca", text], 77).contains("no PEM certificate"));
    assert!(said(&["--tls", "--tls-crl", text], 77).contains("no PEM revocation list"));
    assert!(said(&["--tls", "--tls-cert", text], 2).contains("belong together"));
    // Nobody listens there, with TLS or without.
    said(&["--tls", "--tls-insecure"], 69);
}
