//! Server addresses.

/// The address of a server.
///
/// | text | meaning |
/// |---|---|
/// | `host`, `host:port`, `:port`, `[::1]:port` | TCP; the port is 11300 and the host 127.0.0.1 unless given |
/// | `beanstalk://host:port`, `beanstalkd://host:port`, `tcp://host:port` | the same |
/// | `beanstalks://host:port`, `tls://host:port` | TLS; the port is 11400 unless given |
/// | `unix:/path`, `unix:///path` | a unix socket |
///
/// An IPv6 address may have a zone, such as `[fe80::1%eth0]:11300`, or `[fe80::1%25eth0]` as in URLs.
///
/// Its methods: [`tcp`](queue_core::Address::tcp), [`tls`](queue_core::Address::tls),
/// [`unix`](queue_core::Address::unix), [`over_tls`](queue_core::Address::over_tls),
/// [`is_tls`](queue_core::Address::is_tls) and [`endpoint`](queue_core::Address::endpoint).
pub type Address = queue_core::Address<Beanstalkd>;

/// beanstalkd as the server kind of an [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Beanstalkd;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_ports_and_schemes_of_beanstalkd() {
        for (text, shown) in [
            ("example", "example:11300"),
            (":9", "127.0.0.1:9"),
            ("tcp://h", "h:11300"),
            ("beanstalk://h/", "h:11300"),
            ("beanstalkd://h", "h:11300"),
            ("beanstalks://h", "beanstalks://h:11400"),
            ("tls://[::1]:9", "beanstalks://[::1]:9"),
            ("unix:///run/q.sock", "unix:/run/q.sock"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown, "{text}");
            assert_eq!(shown.parse::<Address>().unwrap(), address, "{text}");
        }
        assert_eq!(Address::default(), ":11300".parse().unwrap());
    }

    #[test]
    fn a_wrong_address_is_invalid_input_and_never_shows_a_password() {
        let error = "h:x".parse::<Address>().unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
        assert_eq!(
            error.to_string(),
            "server address \"h:x\" is not valid: the port is not a number from 1 to 65535 (write host, host:port, \
             [::1]:11300, beanstalk://host:port, beanstalks://host:port or unix:/path)"
        );
        let error = "beanstalk://user:sentinel@host:x".parse::<Address>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sentinel"), "{error}");
    }
}
