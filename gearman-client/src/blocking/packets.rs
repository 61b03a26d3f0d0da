//! Raw packets over a connection, for tools that inspect servers.

use std::time::Duration;

use queue_core::{blocking::Wire, now};

use crate::{
    ConnectOptions, Error, Result,
    protocol::{Packet, packets::PacketSession},
};

/// A connection for sending and receiving raw packets.
///
/// Nothing happens automatically: no option is set, no answer is matched to a request, and a lost connection stays
/// lost. It is for inspecting servers; for jobs, use [`Client`](super::Client) and [`Worker`](super::Worker).
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
    pub(crate) role: PacketSession,
    pub(crate) wire: Wire<Error>,
}

impl Packets {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `InvalidInput` for an invalid address.
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let mut packets = Self::new(options)?;
        packets.open()?;
        Ok(packets)
    }

    /// Writes a packet.
    ///
    /// # Errors
    ///
    /// `ConnectionLost`, or `Timeout(Write)` when the server reads nothing. The connection is unusable then, and
    /// [`next`](Self::next) returns what arrived before its end. The errors of [`connect`](Self::connect), if there was
    /// no connection yet.
    pub fn send(&mut self, packet: &Packet) -> Result<()> {
        self.open()?;
        self.role.send(packet, now());
        // No caller waits for an answer.
        self.wire.push(&mut self.role);
        self.role.outcome().unwrap_or_else(|| Err(PacketSession::over())).map(drop)
    }

    /// The server's next packet; `None` when none arrived within `timeout`, which does not include connecting.
    ///
    /// # Errors
    ///
    /// `ConnectionLost` if the server has closed the connection; `Protocol` for bytes that are not a packet;
    /// `PacketTooLarge`. The errors of [`connect`](Self::connect), if there was no connection yet.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Packet>> {
        self.role.next(timeout, now());
        self.outcome()
    }

    fn open(&mut self) -> Result<()> {
        self.role.open(now());
        self.outcome().map(drop)
    }

    fn outcome(&mut self) -> Result<Option<Packet>> {
        let Packets { role, wire } = self;
        let outcome = wire.call(role, PacketSession::outcome);
        outcome.unwrap_or_else(|| Err(PacketSession::over()))
    }
}
