//! One or more servers.

use std::str::FromStr;

use crate::{Address, ConnectOptions, Error, Selection};

/// The servers of a producer or a worker.
///
/// The server has no clustering: each one is a queue server of its own, and clients choose. A producer puts each message on
/// one of them; a worker serves all. Made from one [`ConnectOptions`], an [`Address`], a list of them, or text with commas
/// between addresses:
///
/// ```
/// use std::time::Duration;
/// use adf_queue_client::{Selection, Servers};
///
/// let servers: Servers = "one:6230,two:6230".parse()?;
/// let servers = servers.selection(Selection::ByKey).each(|server| server.reply_timeout(Duration::from_secs(2)));
/// # Ok::<(), adf_queue_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Servers {
    pub(crate) list: Vec<ConnectOptions>,
    pub(crate) selection: Selection,
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

    /// How a producer chooses among them.
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
