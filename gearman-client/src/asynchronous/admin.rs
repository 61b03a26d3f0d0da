//! The async admin client: the text protocol on its own connection.

use std::future::poll_fn;

use queue_core::{Wire, now};

use crate::{
    ConnectOptions, Error, Result,
    protocol::{AdminCommand, AdminReply, admin::AdminSession, client::route::no_server},
};

/// An administration client for one Gearman server.
///
/// When the connection is lost, the call that notices fails and reports the fate of its command ([`Error::fate`]); the
/// next call reconnects.
///
/// # Cancel safety
///
/// Every call may be dropped at any await point. A call that was never polled has sent nothing. Otherwise the command
/// may or may not be carried out, and the next call reconnects.
pub struct Admin {
    pub(crate) role: AdminSession,
    pub(crate) wire: Wire<Error>,
}

impl Admin {
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
        let options = options.try_into()?;
        let stream = queue_core::connect(&options, options.connecting_limit()).await?;
        let wire = Wire::to(&options).over(stream);
        Ok(Admin { role: AdminSession::new(options), wire })
    }

    /// Sends any command and waits for its reply.
    ///
    /// # Errors
    ///
    /// A refusal by the server, or any connection failure; see [`Error::fate`].
    ///
    /// # Cancel safety
    ///
    /// As for the [admin client](Self#cancel-safety).
    pub async fn call(&mut self, command: &AdminCommand) -> Result<AdminReply> {
        self.role.begin(command, now())?;
        let Admin { role, wire } = self;
        let outcome = poll_fn(|cx| wire.poll(cx, role, AdminSession::outcome)).await;
        outcome.unwrap_or_else(|| Err(no_server()))
    }
}
