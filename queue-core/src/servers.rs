//! One or more servers.

use std::{fmt, ops::Deref, str::FromStr};

use crate::{Error, ServerAddress, ServerOptions};

/// A client's own options of one server, of which [`Servers`] is a list. They are read from an address.
pub trait OneServer:
    Clone + FromStr<Err = Failure<Self>> + Deref<Target = ServerOptions<Self::Address>>
{
    /// Where it is.
    type Address: ServerAddress;
    /// How to choose among several.
    type Selection: Copy + Default + fmt::Debug;
}

type Failure<O> = <<O as OneServer>::Address as ServerAddress>::Error;

/// One or more servers, and how to choose among them.
///
/// Made of one server's options or address, of a list of them, or of text with commas between addresses.
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
    /// `InvalidInput` for a wrong address, and when there is none.
    pub fn new<I>(servers: I) -> Result<Self, Failure<O>>
    where
        I: IntoIterator,
        I::Item: TryInto<O>,
        Failure<O>: From<<I::Item as TryInto<O>>::Error>,
    {
        let list: Vec<O> = servers.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        if list.is_empty() {
            return Err(Error::invalid("no server is given: write at least one address").into());
        }
        Ok(Servers { list, selection: O::Selection::default() })
    }

    /// How to choose among them.
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
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = &O::Address> {
        self.list.iter().map(|server| &server.address)
    }

    /// The options of every server, in order.
    #[must_use]
    pub fn options(&self) -> &[O] {
        &self.list
    }

    /// Refuses what the options of one of them forbid.
    ///
    /// # Errors
    ///
    /// As [`ServerOptions::check`].
    pub fn check(&self) -> Result<(), Failure<O>> {
        self.list.iter().try_for_each(|server| server.check())
    }

    /// How the choice is made.
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
    type Err = Failure<O>;

    fn from_str(text: &str) -> Result<Self, Failure<O>> {
        let each: Result<Vec<O>, _> =
            text.split(',').map(|address| address.trim().parse()).collect();
        Servers::new(each?)
    }
}

impl<O: OneServer> TryFrom<&str> for Servers<O> {
    type Error = Failure<O>;

    fn try_from(text: &str) -> Result<Self, Failure<O>> {
        text.parse()
    }
}

impl<O: OneServer> TryFrom<String> for Servers<O> {
    type Error = Failure<O>;

    fn try_from(text: String) -> Result<Self, Failure<O>> {
        text.parse()
    }
}

impl<O: OneServer> TryFrom<&String> for Servers<O> {
    type Error = Failure<O>;

    fn try_from(text: &String) -> Result<Self, Failure<O>> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, Scheme, Selection, address::tests::SCHEME};

    #[derive(Clone, Debug)]
    struct Host(String, u16);

    impl fmt::Display for Host {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            SCHEME.write(self.endpoint(), f)
        }
    }

    impl ServerAddress for Host {
        type Error = Error;

        fn endpoint(&self) -> Endpoint<'_> {
            Endpoint::Tcp { host: &self.0, port: self.1 }
        }

        fn scheme(&self) -> Scheme {
            SCHEME
        }
    }

    #[derive(Clone, Debug)]
    struct Options(ServerOptions<Host>);

    impl Deref for Options {
        type Target = ServerOptions<Host>;

        fn deref(&self) -> &ServerOptions<Host> {
            &self.0
        }
    }

    impl FromStr for Options {
        type Err = Error;

        fn from_str(text: &str) -> Result<Self, Error> {
            match SCHEME.parse(text)? {
                Endpoint::Tcp { host, port } => {
                    Ok(Options(ServerOptions::new(Host(host.into(), port))))
                }
                _ => Err(Error::invalid("not TCP")),
            }
        }
    }

    impl OneServer for Options {
        type Address = Host;
        type Selection = Selection;
    }

    #[test]
    fn a_list_is_addresses_with_commas_between() {
        let servers: Servers<Options> = "a, b:1".try_into().unwrap();
        let shown: Vec<String> = servers.addresses().map(Host::to_string).collect();
        assert_eq!(shown, ["a:7", "b:1"]);
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
    fn the_options_of_each_are_changed() {
        let servers: Servers<Options> = "a,b".parse().unwrap();
        let servers = servers.each(|mut server| {
            server.0.dial.require_tls = true;
            server
        });
        assert!(servers.options().iter().all(|server| server.dial.require_tls));
    }
}
