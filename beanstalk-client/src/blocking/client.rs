//! The blocking client: one connection, one caller, no thread.

use queue_core::blocking::{TimedStream, Wire};

use super::Duplex;
use crate::{ConnectOptions, Error, Result, protocol::ClientSession};

/// A connection to a beanstalkd server.
///
/// Calls take `&mut self`: a waiting reserve occupies the whole connection, so a service that puts while it waits uses
/// two clients. When the connection is lost, the call that notices fails and reports the fate of its command
/// ([`Error::fate`]); the next call reconnects and restores the used tube and the watch list. Jobs that the lost
/// connection held are ready again for other clients, and acting on them fails with
/// [`JobLost`](crate::ErrorKind::JobLost).
pub struct Client {
    pub(crate) role: ClientSession,
    pub(crate) wire: Wire<Error>,
}

impl Client {
    /// Uses a connected stream in blocking mode. Such a client cannot reconnect; the address in `options` is only
    /// displayed. Set `TCP_NODELAY` on a TCP stream.
    ///
    /// # Errors
    ///
    /// `Connect` when the stream does not support timeouts.
    pub fn from_stream(stream: impl Duplex + 'static, options: ConnectOptions) -> Result<Self> {
        let transport = TimedStream::new(Box::new(stream))
            .map_err(|error| queue_core::Error::cannot_connect(&options.address, error))?;
        let wire = Wire::to(&options).over(transport);
        Ok(Client { role: ClientSession::new(options, false), wire })
    }

    pub(crate) fn outcome<T>(
        &mut self,
        of: impl Fn(&mut ClientSession) -> Option<Result<T>>,
    ) -> Result<T> {
        let Client { role, wire } = self;
        wire.call(role, of).unwrap_or_else(|| Err(ClientSession::over()))
    }
}
