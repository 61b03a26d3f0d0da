//! The async client: one connection, one caller, no spawned task.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use queue_core::{Duplex, Wire};

#[cfg(feature = "stream")]
use crate::protocol::Response;
use crate::{ConnectOptions, Error, Result, protocol::ClientSession};

/// A connection to a beanstalkd server.
///
/// Calls take `&mut self`: a waiting reserve occupies the whole connection, so a service that puts while it waits uses
/// two clients. When the connection is lost, the call that notices fails and reports the fate of its command
/// ([`Error::fate`]); the next call reconnects and restores the used tube and the watch list. Jobs that the lost
/// connection held are ready again for other clients, and acting on them fails with
/// [`JobLost`](crate::ErrorKind::JobLost).
///
/// # Cancel safety
///
/// Every call may be dropped at any await point, by `select!` or a timeout. A call that was never polled has sent
/// nothing. Otherwise the command may or may not be executed, and the connection stays in step: the next call finishes
/// a half-written command and skips the abandoned reply. A dropped reserve loses no job; see
/// [`reserve`](Self::reserve).
pub struct Client {
    pub(crate) role: ClientSession,
    pub(crate) wire: Wire<Error>,
}

impl Client {
    /// Uses a connected stream. Such a client cannot reconnect; the address in `options` is only displayed. Set
    /// `TCP_NODELAY` on a TCP stream.
    pub fn from_stream(stream: impl Duplex + 'static, options: ConnectOptions) -> Self {
        let wire = Wire::to(&options).over(Box::new(stream));
        Client { role: ClientSession::new(options, false), wire }
    }

    /// Moves bytes until the role has an outcome. All pending work stays in the client when the future is dropped.
    pub(crate) async fn outcome<T>(
        &mut self,
        of: impl Fn(&mut ClientSession) -> Option<Result<T>>,
    ) -> Result<T> {
        poll_fn(|cx| self.poll_outcome(cx, &of)).await
    }

    /// Takes the reply to what was begun, once it is there.
    #[cfg(feature = "stream")]
    pub(crate) fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response>> {
        self.poll_outcome(cx, &ClientSession::reply)
    }

    fn poll_outcome<T>(
        &mut self,
        cx: &mut Context<'_>,
        of: &impl Fn(&mut ClientSession) -> Option<Result<T>>,
    ) -> Poll<Result<T>> {
        let Client { role, wire } = self;
        wire.poll(cx, role, of).map(|known| known.unwrap_or_else(|| Err(ClientSession::over())))
    }
}
