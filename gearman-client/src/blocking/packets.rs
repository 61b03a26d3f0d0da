//! Single packets over a connection, for tools that show what a server does.

use std::{io, time::Duration};

use bytes::BytesMut;
use queue_core::{Limit, WRITE_STEP, blocking::Transport};

use crate::{
    Address, ConnectOptions, Deadline, Error, Result,
    error::lost,
    protocol::{Decoder, Magic, Packet},
};

/// A connection on which packets are sent and received as they are.
///
/// Nothing happens by itself: no option is set, no answer is matched to a question, and a lost connection stays lost.
/// This is for looking at servers; jobs are for [`Client`](super::Client) and [`Worker`](super::Worker).
///
/// ```
/// # let server = fixtures::gearmand::Server::start()?;
/// # let address = server.address();
/// use std::time::Duration;
/// use gearman_client::{blocking::Packets, protocol::{Magic, Packet, PacketType}};
///
/// let mut packets = Packets::connect(address)?;
/// packets.send(&Packet::new(Magic::Request, PacketType::EchoReq, &["hi"])?)?;
/// let answer = packets.next(Duration::from_secs(5))?.expect("a server answers");
/// assert_eq!((answer.packet_type, &answer.body[..]), (PacketType::EchoRes, &b"hi"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Packets {
    options: ConnectOptions,
    transport: Transport,
    decoder: Decoder,
}

impl Packets {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `InvalidInput` for a wrong address.
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        let transport = queue_core::blocking::connect(&options, options.connecting_limit())?;
        let decoder = Decoder::new(Magic::Response, options.max_packet_size);
        Ok(Packets { options, transport, decoder })
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.options.address()
    }

    /// Writes a packet.
    ///
    /// # Errors
    ///
    /// `ConnectionLost`, or `Timeout(Write)` when the server reads nothing. The connection cannot be used any further.
    pub fn send(&mut self, packet: &Packet) -> Result<()> {
        let mut buffer = BytesMut::new();
        packet.encode(&mut buffer);
        buffer.chunks(WRITE_STEP).try_for_each(|step| self.write(step))
    }

    /// Writes and flushes, within one write deadline.
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let limit = Limit::of(Deadline::Write, Some(self.options.write_timeout));
        while !bytes.is_empty() {
            if limit.has_passed() {
                return Err(limit.error().into());
            }
            match self.transport.write(bytes, limit).map_err(lost)? {
                Some(n) => bytes = bytes.get(n..).unwrap_or_default(),
                None => return Err(limit.error().into()),
            }
        }
        if self.transport.flush(limit).map_err(lost)? { Ok(()) } else { Err(limit.error().into()) }
    }

    /// The next packet of the server; `None` when none came within `timeout`.
    ///
    /// # Errors
    ///
    /// `ConnectionLost` when the server has closed the connection; `Protocol` for what is no packet, `PacketTooLarge`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Packet>> {
        let limit = Limit::of(Deadline::Reply, Some(timeout));
        loop {
            if let Some(packet) = self.decoder.next()? {
                return Ok(Some(packet));
            }
            match self.transport.read(self.decoder.space(), limit).map_err(lost)? {
                Some(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                Some(n) => self.decoder.received(n),
                None => return Ok(None),
            }
            // Also when a little comes all the time.
            if limit.has_passed() && !self.decoder.is_at_boundary() {
                return Ok(None);
            }
        }
    }
}
