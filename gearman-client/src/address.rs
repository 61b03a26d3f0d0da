//! Server addresses.

/// The address of a server.
///
/// | text | meaning |
/// |---|---|
/// | `host`, `host:port`, `:port`, `[::1]:port` | TCP; the port is 4730 and the host 127.0.0.1 unless given |
/// | `gearman://host:port`, `tcp://host:port` | the same |
/// | `gearmans://host:port`, `tls://host:port` | TLS; the port is 4730 unless given |
/// | `unix:/path`, `unix:///path` | a unix socket |
///
/// An IPv6 address may have a zone, such as `[fe80::1%eth0]:4730`, or `[fe80::1%25eth0]` as in URLs.
///
/// Its methods: [`tcp`](queue_core::Address::tcp), [`tls`](queue_core::Address::tls),
/// [`unix`](queue_core::Address::unix), [`over_tls`](queue_core::Address::over_tls),
/// [`is_tls`](queue_core::Address::is_tls) and [`endpoint`](queue_core::Address::endpoint).
pub type Address = queue_core::Address<Gearmand>;

/// gearmand as the server kind of an [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gearmand;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_ports_and_schemes_of_gearmand() {
        for (text, shown) in [
            ("example", "example:4730"),
            (":9", "127.0.0.1:9"),
            ("tcp://h", "h:4730"),
            ("gearman://h/", "h:4730"),
            ("gearmans://h", "gearmans://h:4730"),
            ("tls://[::1]:9", "gearmans://[::1]:9"),
            ("unix:///run/q.sock", "unix:/run/q.sock"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown, "{text}");
            assert_eq!(shown.parse::<Address>().unwrap(), address, "{text}");
        }
        assert_eq!(Address::default(), ":4730".parse().unwrap());
    }
}
