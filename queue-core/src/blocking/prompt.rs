//! Sockets of the blocking face that acknowledge at once.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
};

use crate::dial::socket::Acks;

/// A socket that acknowledges received data before it waits for more.
pub(super) struct PromptAcks {
    pub(super) socket: TcpStream,
    acks: Acks,
}

impl PromptAcks {
    pub(super) fn new(socket: TcpStream) -> Self {
        PromptAcks { socket, acks: Acks::new(true) }
    }
}

impl Read for PromptAcks {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.acks.waits(&self.socket);
        let outcome = self.socket.read(space);
        if outcome.is_ok() {
            self.acks.has_read();
        }
        outcome
    }
}

impl Write for PromptAcks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.socket.write(bytes);
        if outcome.is_ok() {
            self.acks.has_written();
        }
        outcome
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{
        net::SocketAddr,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::{blocking::Duplex, dial::socket::tests::in_two_parts};

    /// The times of round trips.
    fn times(address: SocketAddr, wrap: impl Fn(TcpStream) -> Box<dyn Duplex>) -> Vec<Duration> {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut stream = wrap(socket);
        let mut ask = || {
            let start = Instant::now();
            stream.write_all(b"?").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream.read_exact(&mut [0]).unwrap();
            start.elapsed()
        };
        // At first, and after a pause, the operating system acknowledges up to 16 segments at once.
        (0..64).map(|_| ask()).skip(32).collect()
    }

    #[test]
    fn the_second_part_of_an_answer_does_not_wait_for_the_first_to_be_acknowledged() {
        let held = times(in_two_parts(), |socket| Box::new(socket));
        let prompt = times(in_two_parts(), |socket| Box::new(PromptAcks::new(socket)));
        let (held, prompt) = (*held.iter().max().unwrap(), *prompt.iter().min().unwrap());
        assert!(2 * prompt < held, "{prompt:?} against {held:?}");
    }
}
