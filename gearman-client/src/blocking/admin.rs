//! The blocking admin client: the text protocol on its own connection.

use std::time::Duration;

use queue_core::{blocking::Wire, now};

use crate::{
    Address, ConnectOptions, Error, Result,
    protocol::{AdminCommand, AdminReply, admin::AdminSession, client::route::no_server},
};

/// An administration client for one Gearman server.
///
/// When the connection is lost, the call that notices fails and reports the fate of its command ([`Error::fate`]); the
/// next call reconnects.
pub struct Admin {
    role: AdminSession,
    wire: Wire<Error>,
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

    /// Creates a client that connects at its first call, with all attempts of the [retry policy](crate::RetryPolicy):
    /// for a service that may start before its server.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address, `Tls` for unusable TLS options.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options: ConnectOptions = options.try_into()?;
        options.check()?;
        let wire = Wire::to(&options);
        Ok(Admin { role: AdminSession::new(options), wire })
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.role.options().address()
    }

    /// Sets the total timeout of all later calls; see [`ConnectOptions::total_timeout`].
    pub fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.role.set_total_timeout(timeout);
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

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin")
            .field("address", self.address())
            .field("connected", &self.wire.io().is_open())
            .finish_non_exhaustive()
    }
}
