//! TLS to servers: flags, trust, and the files that these tests need.

use std::path::{Path, PathBuf};

use ctl_core::context::Tool;
use fixtures::tls::{Authority, Identity};

use crate::Case;
use crate::program::{ended, late};

/// Writes a certificate and its key to files.
#[must_use]
pub fn files(identity: &Identity, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let (pem, key) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
    std::fs::write(&pem, &identity.pem).unwrap();
    std::fs::write(&key, &identity.key_pem).unwrap();
    private(&key, 0o600);
    (pem, key)
}

/// Sets the mode of a file, where modes exist.
pub fn private(file: &Path, mode: u32) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let _ = (file, mode);
}

/// A flag without a TLS server, a missing file, and a file of the wrong kind.
pub fn rejects_contradictory_tls_flags<T: Tool>(case: &Case<T>) {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.pem");
    std::fs::write(&text, "no certificate").unwrap();
    let text = text.to_str().unwrap();
    let said = |flag: &str, code| case.program.at("127.0.0.1:1", &["ping", flag]).exits(code).err;
    let idle = case.program.at("unix:/none", &["ping", "--tls"]).exits(2).err;
    assert!(idle.contains("a Unix socket has no TLS"), "{idle}");
    assert!(said("--tls=ca=/no/such/file", 66).contains("/no/such/file"));
    assert!(said(&format!("--tls=ca={text}"), 77).contains("no PEM certificate"));
    assert!(said(&format!("--tls=crl={text}"), 77).contains("no PEM revocation list"));
    let authority = folder.path().join("ca.pem");
    std::fs::write(&authority, Authority::new().pem()).unwrap();
    let no_key = said(&format!("--tls=cert={},key={text}", authority.display()), 77);
    assert!(no_key.contains(&format!("no PEM private key in {text}")), "{no_key}");
    assert!(said(&format!("--tls=cert={text}"), 2).contains("needs its key"));
    assert!(said("--tls=pem=x", 2).contains("`pem=x` is not one of ca=FILE"));
    // Nothing listens there, with TLS or without.
    said("--tls=insecure", 69);
}

/// Only with a certificate signed by a trusted CA, however that is named; never in plain text when TLS was requested.
pub fn trusts_only_the_given_certificate<T: Tool>(case: &Case<T>) {
    let directory = tempfile::tempdir().unwrap();
    let (_server, plain) = Case::<T>::server();
    let (known, stranger) = (Authority::new(), Authority::new());
    let file = |name: &str, authority: &Authority| {
        let path = directory.path().join(name);
        std::fs::write(&path, authority.pem()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (ca, other) = (file("ca.pem", &known), file("other.pem", &stranger));
    let server = known.identity("127.0.0.1").server(None);
    let address = server.proxy(plain.parse().unwrap()).to_string();
    let program = &case.program;
    let bench = |at: &str, flags: &[&str]| {
        program.at(at, &[&["bench", "--count", "3", "-q"], flags].concat())
    };
    // For every connection that the tool opens.
    let trusting = format!("--tls=ca={ca}");
    bench(&address, &[&trusting]).exits(0);
    bench(&format!("{}://{address}", T::PROGRAM.tls.scheme), &[&trusting]).exits(0);
    let mut command = program.command(&["bench", "--count", "3", "--tls", program.flag, &address]);
    ended(command.env(T::PROGRAM.tls.authorities, &ca).spawn().unwrap()).exits(0);
    // The system does not trust the CA, and another CA has not signed it.
    for flag in ["--tls", &format!("--tls=ca={other}")] {
        let ran = bench(&address, &[flag, "-o", "json"]).exits(77);
        assert_eq!(ran.error_alone()["code"], "TLS", "{flag}");
    }
    let ran = program.at(&address, &["ping", "--tls=insecure"]).exits(0);
    assert!(ran.err.contains("not verified"), "{}", ran.err);
    // --tls never falls back to plain text: a server that replies in plain text breaks TLS, and others wait for a line
    // of their own protocol.
    let ran = late("plain text", |limit| bench(&plain, &[&trusting, "--timeout", limit]));
    assert!(matches!(ran.code, Some(69 | 77 | 124)), "{ran:?}");
    program.bare(&["bench", "-q", "--embedded", "--tls"]).exits(2);
    bench(&address, &["--tls=ca=/no/such/file"]).exits(66);
}
