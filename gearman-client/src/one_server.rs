//! What both faces of the clients of one server share: administration, and raw packets.

use crate::{
    Address, ConnectOptions, Error, Result,
    protocol::{admin::AdminSession, packets::PacketSession},
};

/// The constructor of a client that connects at its first call, its address, and its `Debug`.
macro_rules! one_server {
    ($client:ident: $role:ty, $new:literal) => {
        #[cfg(feature = "tokio")]
        one_server!(@ $client, crate::$client, $role, queue_core::Wire<Error>, $new);
        #[cfg(feature = "blocking")]
        one_server!(@ $client, crate::blocking::$client, $role, queue_core::blocking::Wire<Error>, $new);
    };
    (@ $name:ident, $client:ty, $role:ty, $wire:ty, $new:literal) => {
        impl $client {
            #[doc = $new]
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
                let wire = <$wire>::to(&options);
                Ok(Self { role: <$role>::new(options), wire })
            }

            /// The server's address.
            #[must_use]
            pub fn address(&self) -> &Address {
                self.role.options.address()
            }
        }

        impl std::fmt::Debug for $client {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("address", self.address())
                    .field("connected", &self.wire.io().is_open())
                    .finish_non_exhaustive()
            }
        }
    };
}

one_server!(
    Admin: AdminSession,
    "Creates a client that connects at its first call, with all attempts of the [retry policy](crate::RetryPolicy): for \
     a service that may start before its server."
);
one_server!(
    Packets: PacketSession,
    "Creates a connection that is made by the first call, in one attempt. If that fails, the next call tries again."
);
