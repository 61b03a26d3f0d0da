//! Raw packets over a connection, for tools that inspect servers.

use std::{future::poll_fn, time::Duration};

use queue_core::{Wire, now};

use crate::{
    ConnectOptions, Error, Result,
    protocol::{Packet, packets::PacketSession},
};

/// A connection for sending and receiving raw packets.
///
/// Nothing happens automatically: no option is set, no answer is matched to a request, and a lost connection stays
/// lost. It is for inspecting servers; for jobs, use [`Client`](crate::Client) and [`Worker`](crate::Worker).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fixtures::gearmand::Server::start()?;
/// # let address = server.address();
/// use std::time::Duration;
/// use gearman_client::{Packets, protocol::{Magic, Packet, PacketType}};
///
/// let mut packets = Packets::connect(address).await?;
/// packets.send(&Packet::new(Magic::Request, PacketType::EchoReq, &["hi"])?).await?;
/// let answer = packets.next(Duration::from_secs(5)).await?.expect("a server answers");
/// assert_eq!((answer.packet_type, &answer.body[..]), (PacketType::EchoRes, &b"hi"[..]));
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Every call may be dropped at any await point. The next call finishes a half-written packet, and received bytes are
/// kept.
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
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the half-made connection.
    pub async fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let mut packets = Self::new(options)?;
        packets.open().await?;
        Ok(packets)
    }

    /// Writes a packet.
    ///
    /// # Errors
    ///
    /// `ConnectionLost`, or `Timeout(Write)` when the server reads nothing. The connection is unusable then, and
    /// [`next`](Self::next) returns what arrived before its end. The errors of [`connect`](Self::connect), if there was
    /// no connection yet.
    ///
    /// # Cancel safety
    ///
    /// The packet is written as a whole, or not at all.
    pub async fn send(&mut self, packet: &Packet) -> Result<()> {
        self.role.send(packet, now());
        self.outcome().await.map(drop)
    }

    /// The server's next packet; `None` when none arrived within `timeout`, which does not include connecting.
    ///
    /// # Errors
    ///
    /// `ConnectionLost` if the server has closed the connection; `Protocol` for bytes that are not a packet;
    /// `PacketTooLarge`. The errors of [`connect`](Self::connect), if there was no connection yet.
    ///
    /// # Cancel safety
    ///
    /// No packet is lost: the next call returns it.
    pub async fn next(&mut self, timeout: Duration) -> Result<Option<Packet>> {
        self.role.next(timeout, now());
        self.outcome().await
    }

    async fn open(&mut self) -> Result<()> {
        self.role.open(now());
        self.outcome().await.map(drop)
    }

    async fn outcome(&mut self) -> Result<Option<Packet>> {
        let Packets { role, wire } = self;
        let outcome = poll_fn(|cx| wire.poll(cx, role, PacketSession::outcome)).await;
        outcome.unwrap_or_else(|| Err(PacketSession::over()))
    }
}
