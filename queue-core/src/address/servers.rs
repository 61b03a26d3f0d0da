//! One or more servers.

use std::{fmt, ops::Deref, str::FromStr};

use crate::{Address, Error, ServerOptions, System};

/// A client's options for one server, of which [`Servers`] is a list. They can be created from an address.
pub trait OneServer:
    Clone + From<Address<Self::System>> + Deref<Target = ServerOptions<Self::System>>
{
    /// The kind of server.
    type System: System;
    /// How to select among several.
    type Selection: Copy + Default + fmt::Debug;
}

/// The client's error type.
pub type ClientError<O> = <<O as OneServer>::System as System>::Error;

/// One or more servers, and how to select among them.
///
/// Created from one server's options or address, a list of them, or comma-separated addresses.
#[derive(Clone, Debug)]
pub struct Servers<O: OneServer> {
    list: Vec<O>,
    selection: O::Selection,
}

impl<O: OneServer> Servers<O> {
    /// These servers, in this order.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address, or for an empty list.
    pub fn new<I>(servers: I) -> Result<Self, ClientError<O>>
    where
        I: IntoIterator,
        I::Item: TryInto<O>,
        ClientError<O>: From<<I::Item as TryInto<O>>::Error>,
    {
        let list: Vec<O> = servers.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Servers::of(list)
    }

    pub(crate) fn of(list: Vec<O>) -> Result<Self, ClientError<O>> {
        if list.is_empty() {
            return Err(Error::invalid("no server is given: write at least one address").into());
        }
        Ok(Servers { list, selection: O::Selection::default() })
    }

    /// Sets how to select among them.
    #[must_use]
    pub fn selection(mut self, selection: O::Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Changes the options of every server.
    #[must_use]
    pub fn each(mut self, change: impl FnMut(O) -> O) -> Self {
        self.list = self.list.into_iter().map(change).collect();
        self
    }

    /// The servers' addresses, in order.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = &Address<O::System>> {
        self.list.iter().map(|server| &server.address)
    }

    /// The options of every server, in order.
    #[must_use]
    pub fn options(&self) -> &[O] {
        &self.list
    }

    /// Rejects options that are invalid for any of the servers.
    ///
    /// # Errors
    ///
    /// As [`ServerOptions::check`].
    pub fn check(&self) -> Result<(), ClientError<O>> {
        self.list.iter().try_for_each(|server| server.check())
    }

    /// How to select among them.
    #[must_use]
    pub fn selected(&self) -> O::Selection {
        self.selection
    }

    /// The options of every server, in order.
    #[must_use]
    pub fn into_options(self) -> Vec<O> {
        self.list
    }
}

impl<O: OneServer> From<O> for Servers<O> {
    fn from(options: O) -> Self {
        Servers { list: vec![options], selection: O::Selection::default() }
    }
}

impl<O: OneServer> From<Address<O::System>> for Servers<O> {
    fn from(address: Address<O::System>) -> Self {
        O::from(address).into()
    }
}

impl<O: OneServer> From<&O> for Servers<O> {
    fn from(options: &O) -> Self {
        options.clone().into()
    }
}

impl<O: OneServer> From<&Servers<O>> for Servers<O> {
    fn from(servers: &Servers<O>) -> Self {
        servers.clone()
    }
}

impl<O: OneServer> FromStr for Servers<O> {
    type Err = ClientError<O>;

    fn from_str(text: &str) -> Result<Self, ClientError<O>> {
        let addresses: Result<Vec<Address<O::System>>, _> =
            text.split(',').map(|address| address.trim().parse()).collect();
        Servers::new(addresses?)
    }
}

impl<O: OneServer> fmt::Display for Servers<O> {
    /// Formats as comma-separated addresses, which parse back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, address) in self.addresses().enumerate() {
            write!(f, "{}{address}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

crate::try_from_text!(Servers<O>, ClientError<O>; O: OneServer);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Selection, address::tests::Queued};

    #[derive(Clone, Debug)]
    struct Options(ServerOptions<Queued>);

    impl Deref for Options {
        type Target = ServerOptions<Queued>;

        fn deref(&self) -> &ServerOptions<Queued> {
            &self.0
        }
    }

    impl From<Address<Queued>> for Options {
        fn from(address: Address<Queued>) -> Self {
            Options(ServerOptions::new(address))
        }
    }

    impl OneServer for Options {
        type System = Queued;
        type Selection = Selection;
    }

    #[test]
    fn parses_a_comma_separated_list() {
        let servers: Servers<Options> = "a, b:1".try_into().unwrap();
        let shown: Vec<String> = servers.addresses().map(Address::to_string).collect();
        assert_eq!(shown, ["a:7", "b:1"]);
        assert_eq!(servers.to_string(), "a:7,b:1");
        assert_eq!(servers.selection(Selection::ByKey).selected(), Selection::ByKey);
    }

    #[test]
    fn an_empty_list_or_place_is_an_error() {
        for bad in ["", "a,,b", "a,"] {
            assert!(bad.parse::<Servers<Options>>().is_err(), "{bad:?}");
        }
        let error = Servers::<Options>::new(Vec::<Options>::new()).unwrap_err();
        assert_eq!(error.to_string(), "no server is given: write at least one address");
    }

    #[test]
    fn sets_the_options_of_each_server() {
        let servers: Servers<Options> = "a,b".parse().unwrap();
        let servers = servers.each(|mut server| {
            server.0.dial.require_tls = true;
            server
        });
        assert!(servers.options().iter().all(|server| server.dial.require_tls));
    }
}
