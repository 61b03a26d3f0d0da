//! The blocking admin client: the text protocol on its own connection.

use queue_core::{blocking::Wire, now};

use crate::{
    ConnectOptions, Error, Result,
    protocol::{AdminCommand, AdminReply, admin::AdminSession, client::route::no_server},
};

/// An administration client for one Gearman server.
///
/// When the connection is lost, the call that notices fails and reports the fate of its command ([`Error::fate`]); the
/// next call reconnects.
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
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        let transport = queue_core::blocking::connect(&options, options.connecting_limit())?;
        let wire = Wire::to(&options).over(transport);
        Ok(Admin { role: AdminSession::new(options), wire })
    }

    /// Sends any command and waits for its reply.
    ///
    /// # Errors
    ///
    /// A refusal by the server, or any connection failure; see [`Error::fate`].
    pub fn call(&mut self, command: &AdminCommand) -> Result<AdminReply> {
        self.role.begin(command, now())?;
        let outcome = self.wire.call(&mut self.role, AdminSession::outcome);
        outcome.unwrap_or_else(|| Err(no_server()))
    }
}
