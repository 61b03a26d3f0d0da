//! One or more servers, and how a client chooses among them.

use std::str::FromStr;

use crate::{Address, ConnectOptions, Error};

/// The servers of a client or a worker.
///
/// Made from one [`ConnectOptions`], an [`Address`], a list of them, or text with commas between addresses, as
/// `GEARMAN_SERVERS` has it:
///
/// ```
/// use std::time::Duration;
/// use gearman_client::{Selection, Servers};
///
/// let servers: Servers = "one:4730,two:4730".parse()?;
/// let servers = servers.selection(Selection::ByUnique).each(|server| server.reply_timeout(Duration::from_secs(2)));
/// # Ok::<(), gearman_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Servers {
    pub(crate) list: Vec<ConnectOptions>,
    pub(crate) selection: Selection,
}

/// How a client chooses the server of a submission. A server that could not be reached is passed over for a while,
/// whatever the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Selection {
    /// The first that can be reached, in the order of the list.
    #[default]
    InOrder,
    /// One after the other.
    RoundRobin,
    /// The same one for the same unique id, so that submissions with one id become one job. It is chosen by
    /// rendezvous hashing over the addresses: when a server is away, only its own ids go elsewhere. Submissions
    /// without an id go round.
    ByUnique,
    /// The same by the ring of libgearman from version 2.2 on, known as ketama: clients of other languages that have the
    /// same servers, written the same way, send equal ids to equal servers. Where no other clients submit,
    /// [`ByUnique`](Self::ByUnique) shares the ids out more evenly.
    ByUniqueOnRing,
}

impl Servers {
    /// These servers, in this order.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when there is none.
    pub fn new<O: Into<ConnectOptions>>(
        servers: impl IntoIterator<Item = O>,
    ) -> Result<Self, Error> {
        let list: Vec<ConnectOptions> = servers.into_iter().map(Into::into).collect();
        if list.is_empty() {
            return Err(Error::invalid("no server is given: write at least one address"));
        }
        Ok(Servers { list, selection: Selection::default() })
    }

    /// How a client chooses among them.
    #[must_use]
    pub fn selection(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Changes the options of every server.
    #[must_use]
    pub fn each(mut self, change: impl FnMut(ConnectOptions) -> ConnectOptions) -> Self {
        self.list = self.list.into_iter().map(change).collect();
        self
    }

    /// The servers' addresses, in order.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = &Address> {
        self.list.iter().map(ConnectOptions::address)
    }

    /// Refuses what the options of one server forbid.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.list.iter().try_for_each(|server| server.check())
    }
}

impl From<ConnectOptions> for Servers {
    fn from(options: ConnectOptions) -> Self {
        Servers { list: vec![options], selection: Selection::default() }
    }
}

impl From<&ConnectOptions> for Servers {
    fn from(options: &ConnectOptions) -> Self {
        options.clone().into()
    }
}

impl From<Address> for Servers {
    fn from(address: Address) -> Self {
        ConnectOptions::new(address).into()
    }
}

impl From<&Servers> for Servers {
    fn from(servers: &Servers) -> Self {
        servers.clone()
    }
}

impl FromStr for Servers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let addresses: Result<Vec<Address>, Error> =
            text.split(',').map(|address| address.trim().parse()).collect();
        Servers::new(addresses?)
    }
}

queue_core::try_from_text!(Servers, Error);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_is_an_error() {
        assert!("".parse::<Servers>().is_err() && "a,,b".parse::<Servers>().is_err());
        assert!(Servers::new(Vec::<ConnectOptions>::new()).is_err());
        assert_eq!("a, b:1".parse::<Servers>().unwrap().addresses().len(), 2);
    }
}
