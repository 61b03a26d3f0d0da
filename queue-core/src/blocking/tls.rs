//! TLS over any stream.

use std::{
    io::{self, Write},
    time::Duration,
};

use rustls::{ClientConnection, StreamOwned};

use super::Stream;
use crate::{
    Error, Limit, Sdk,
    tls::{NO_ANSWER, Prepared, handshake_failed},
};

/// The handshake, within a limit.
pub(super) fn handshake<S: Sdk>(
    (config, name): Prepared,
    mut stream: Box<dyn Stream>,
    limit: Limit<S>,
) -> Result<StreamOwned<ClientConnection, Box<dyn Stream>>, S::Error> {
    let failed = |error: io::Error| -> Error { handshake_failed(error) };
    let mut connection = ClientConnection::new(config, name)
        .map_err(|error| S::failed(failed(io::Error::other(error))))?;
    while connection.is_handshaking() {
        if limit.has_passed() {
            return Err(limit.error_while(NO_ANSWER));
        }
        let left = limit.remaining().map(|left| left.max(Duration::from_millis(1)));
        let step = stream
            .set_read_timeout(left)
            .and_then(|()| stream.set_write_timeout(left))
            .and_then(|()| connection.complete_io(&mut stream));
        match step {
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                return Err(limit.error_while(NO_ANSWER));
            }
            Err(error) => return Err(S::failed(failed(error))),
        }
    }
    Ok(StreamOwned::new(connection, stream))
}

impl<T: Stream> Stream for StreamOwned<ClientConnection, T> {
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.sock.set_read_timeout(timeout)
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.sock.set_write_timeout(timeout)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.shutdown_write()
    }

    /// Bytes may be a session ticket, which says nothing; the closing alert, the end of the stream, and plain text that
    /// nobody asked for do.
    fn is_stale(&mut self) -> bool {
        // More records than a server has tickets to send are no better than the end.
        for _ in 0..64 {
            if !self.sock.is_stale() {
                return false;
            }
            // Something is there, so that this does not wait.
            match self.conn.read_tls(&mut self.sock) {
                Ok(1..) => match self.conn.process_new_packets() {
                    Ok(state) if state.peer_has_closed() || state.plaintext_bytes_to_read() > 0 => {
                        return true;
                    }
                    Ok(_) => {}
                    Err(_) => return true,
                },
                Ok(0) | Err(_) => return true,
            }
        }
        true
    }
}
