//! TLS over any stream.

use std::{
    io::{self, Read, Write},
    time::Duration,
};

use rustls::ClientConnection;

use super::{Duplex, duplex::is_timeout};
use crate::{
    Error, Limit,
    dial::tls::{NO_ANSWER, Prepared, handshake_failed},
    now,
};

/// A stream within TLS.
///
/// A write never reads, and a read never waits for a write. The stream of rustls does both: a stuck write goes on to
/// read, and waits there for an answer to bytes that it still holds.
pub(super) struct Tls<T> {
    connection: ClientConnection,
    stream: T,
}

/// Completes the handshake within a limit.
pub(super) fn handshake(
    (config, name): Prepared,
    stream: Box<dyn Duplex>,
    limit: Limit,
) -> Result<Tls<Box<dyn Duplex>>, Error> {
    let connection = ClientConnection::new(config, name)
        .map_err(|error| handshake_failed(io::Error::other(error)))?;
    let mut tls = Tls { connection, stream };
    while tls.connection.is_handshaking() || tls.connection.wants_write() {
        // Even if a little data keeps arriving.
        if limit.has_passed(now()) {
            return Err(limit.error_while(NO_ANSWER));
        }
        let left = limit.remaining(now()).map(|left| left.max(Duration::from_millis(1)));
        let step = tls
            .set_read_timeout(left)
            .and_then(|()| tls.set_write_timeout(left))
            .and_then(|()| tls.shake_hands());
        match step {
            Err(error) if is_timeout(&error) => return Err(limit.error_while(NO_ANSWER)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => outcome.map_err(handshake_failed)?,
        }
    }
    Ok(tls)
}

impl<T: Read + Write> Tls<T> {
    /// One step of the handshake: writes what is pending, and reads once.
    fn shake_hands(&mut self) -> io::Result<()> {
        self.push()?;
        if self.connection.is_handshaking() && self.receive()? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Writes all pending records.
    fn push(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut self.stream)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Reads once, and decodes the complete records; 0 at the end of the stream.
    fn receive(&mut self) -> io::Result<usize> {
        let n = self.connection.read_tls(&mut self.stream)?;
        match self.connection.process_new_packets() {
            Ok(_) => Ok(n),
            Err(error) => {
                // Sends the alert that gives the peer the reason.
                let _ = self.push();
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }
}

impl<T: Read + Write> Read for Tls<T> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(space) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            match self.push() {
                // The peer may continue to read only after this side has read.
                Err(error) if is_timeout(&error) => {}
                outcome => outcome?,
            }
            self.receive()?;
        }
    }
}

impl<T: Read + Write> Write for Tls<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push()?;
        let taken = self.connection.writer().write(bytes)?;
        // The bytes are accepted; if they cannot be sent, the next call reports it.
        let _ = self.push();
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()?;
        self.stream.flush()
    }
}

impl<T: Duplex> Duplex for Tls<T> {
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_write_timeout(timeout)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.connection.send_close_notify();
        self.flush()?;
        self.stream.shutdown_write()
    }

    /// Received bytes may be a session ticket, which means nothing. The closing alert, the end of the stream, and
    /// unexpected plain text do mean something.
    fn has_input(&mut self) -> Option<bool> {
        // More records than a server has tickets to send are no better than the end.
        for _ in 0..64 {
            // Buffered data may contain more than the current record.
            match self.connection.process_new_packets() {
                Ok(state) if state.peer_has_closed() || state.plaintext_bytes_to_read() > 0 => {
                    return Some(true);
                }
                Ok(_) => {}
                Err(_) => return Some(true),
            }
            if !self.stream.has_input()? {
                return Some(false);
            }
            // Data is available, so this does not block.
            if !matches!(self.connection.read_tls(&mut self.stream), Ok(1..)) {
                return Some(true);
            }
        }
        Some(true)
    }
}
