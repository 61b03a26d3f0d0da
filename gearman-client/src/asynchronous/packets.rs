//! Single packets over a connection, for tools that show what a server does.

use std::{future::poll_fn, time::Duration};

use queue_core::{Wire, now};

use crate::{
    Address, ConnectOptions, Error, Result,
    protocol::{Packet, packets::PacketSession},
};

/// A connection for sending and receiving raw packets.
///
/// Nothing happens by itself: no option is set, no answer is matched to a question, and a lost connection stays lost.
/// This is for looking at servers; jobs are for [`Client`](crate::Client) and [`Worker`](crate::Worker).
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
/// Every call may be dropped at any await point. A packet that was half written is written whole by the next call, and what
/// came is kept.
pub struct Packets {
    role: PacketSession,
    wire: Wire<Error>,
}

impl Packets {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls`; `InvalidInput` for a wrong address.
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

    /// Packets of a connection that is made by the first call, in one attempt. If that fails, the next call makes another.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a wrong address, `Tls` for options that cannot be used.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options: ConnectOptions = options.try_into()?;
        options.check()?;
        let wire = Wire::to(&options);
        Ok(Packets { role: PacketSession::new(options), wire })
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.role.options().address()
    }

    /// Writes a packet.
    ///
    /// # Errors
    ///
    /// `ConnectionLost`, or `Timeout(Write)` when the server reads nothing: the connection cannot be used any further, and
    /// [`next`](Self::next) gives what came before its end. What [`connect`](Self::connect) fails with, if there was no
    /// connection yet.
    ///
    /// # Cancel safety
    ///
    /// The packet may be written or not, as a whole.
    pub async fn send(&mut self, packet: &Packet) -> Result<()> {
        self.role.send(packet, now());
        self.outcome().await.map(drop)
    }

    /// The next packet of the server; `None` when none came within `timeout`, which does not include connecting.
    ///
    /// # Errors
    ///
    /// `ConnectionLost` if the server has closed the connection; `Protocol` for bytes that are not a packet,
    /// `PacketTooLarge`. What [`connect`](Self::connect) fails with, if there was no connection yet.
    ///
    /// # Cancel safety
    ///
    /// No packet is lost: the next call gives it.
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

impl std::fmt::Debug for Packets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packets")
            .field("address", self.address())
            .field("connected", &self.wire.io().is_open())
            .finish_non_exhaustive()
    }
}
