//! What both faces do with sockets, and how they say what went wrong with one.

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};

use crate::{Error, ErrorKind, Fate};

/// No delay for small writes, and a peer that vanished is noticed within half a minute.
pub(crate) fn prepare(socket: SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(15));
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    let keepalive = keepalive.with_interval(Duration::from_secs(5));
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    let keepalive = keepalive.with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(Duration::from_secs(30)))?;
    Ok(())
}

pub(crate) fn cannot_connect(to: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Connect, Fate::NotSent, format!("cannot connect to {to}"))
        .with_source(error)
}

pub(crate) fn no_address_answered(host: &str, port: u16, causes: &[String]) -> Error {
    let error =
        Error::new(ErrorKind::Connect, Fate::NotSent, format!("cannot connect to {host}:{port}"));
    if causes.is_empty() {
        error.with_source("the name has no address")
    } else {
        error.with_source(causes.join("; "))
    }
}

pub(crate) fn lost(error: io::Error) -> Error {
    Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "the connection was lost")
        .with_source(error)
}

/// The error of a connection that is not there.
#[cfg(feature = "blocking")]
pub(crate) fn closed() -> io::Error {
    io::ErrorKind::NotConnected.into()
}
