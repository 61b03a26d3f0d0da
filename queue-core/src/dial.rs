//! How connections are made.

#[cfg(feature = "__rustls")]
mod certificate;
#[cfg(feature = "tokio")]
pub(crate) mod net;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod socket;
#[cfg(feature = "__rustls")]
pub(crate) mod tls;

use std::time::Duration;

use crate::{Address, Endpoint, Error, System};

/// How connections are made: restrictions, detection of a vanished peer, TLS, and a custom connector.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dial {
    /// Rejects plain text to another machine.
    pub require_tls: bool,
    /// How long the operating system waits for a sign of life before it closes a TCP connection: from 3 seconds to 9
    /// hours; 30 seconds unless set.
    pub dead_peer_after: Duration,
    /// Acknowledges received TCP data as soon as the client waits for more, instead of up to 40 ms later: for servers
    /// without `TCP_NODELAY`, which hold back a small answer until the previous one is acknowledged. Linux and Android
    /// only.
    pub acknowledges_at_once: bool,
    /// Certificates and names for TLS.
    #[cfg(feature = "__rustls")]
    pub tls: crate::TlsOptions,
    /// Makes the streams of the async face.
    #[cfg(feature = "tokio")]
    pub connector: Option<crate::Connector>,
    /// Makes the streams of the blocking face.
    #[cfg(feature = "blocking")]
    pub blocking_connector: Option<crate::blocking::Connector>,
    /// Ends calls of the blocking face.
    #[cfg(feature = "blocking")]
    pub canceller: Option<crate::blocking::Canceller>,
}

impl Default for Dial {
    fn default() -> Self {
        Dial {
            require_tls: false,
            dead_peer_after: Duration::from_secs(30),
            acknowledges_at_once: false,
            #[cfg(feature = "__rustls")]
            tls: crate::TlsOptions::default(),
            #[cfg(feature = "tokio")]
            connector: None,
            #[cfg(feature = "blocking")]
            blocking_connector: None,
            #[cfg(feature = "blocking")]
            canceller: None,
        }
    }
}

impl Dial {
    /// Rejects forbidden addresses, and prepares TLS, so that this does not use up an attempt's time.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for plain text to another machine when TLS is required, and for Unix sockets on other systems.
    pub(crate) fn check<S: System>(&self, address: &Address<S>) -> Result<(), Error> {
        match address.endpoint() {
            endpoint @ Endpoint::Tcp { host, .. } if self.require_tls && endpoint.is_exposed() => {
                let tls = address.scheme().tls;
                Err(Error::invalid(format!(
                    "refusing a plain-text connection to {host} because require_tls is set (write {tls}://{host})"
                )))
            }
            Endpoint::Unix(_) if !cfg!(unix) => {
                Err(Error::invalid("unix sockets exist on Unix only: write host:port"))
            }
            #[cfg(feature = "__rustls")]
            Endpoint::Tls { host, .. } => {
                // The attempt to connect reports unusable options, since its errors are counted and traced.
                let _ = self.tls.prepare(host);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::tests::Queued;

    #[test]
    fn require_tls_allows_plain_text_to_this_machine_only() {
        let address = |text: &str| text.parse::<Address<Queued>>().unwrap();
        Dial::default().check(&address("10.0.0.5")).unwrap();
        let dial = Dial { require_tls: true, ..Dial::default() };
        dial.check(&address("localhost")).unwrap();
        for (text, tls) in [("10.0.0.5", "queues"), ("http://10.0.0.5", "https")] {
            assert_eq!(
                dial.check(&address(text)).unwrap_err().to_string(),
                format!(
                    "refusing a plain-text connection to 10.0.0.5 because require_tls is set (write {tls}://10.0.0.5)"
                )
            );
        }
    }
}
