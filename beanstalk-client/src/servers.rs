//! One or more servers.

use std::str::FromStr;

use crate::{Address, ConnectOptions, Error, Selection};

/// The servers of a producer or a worker.
///
/// beanstalkd has no clustering: each server is a queue of its own, and clients choose. A producer puts each job on one
/// of them; a worker serves all. Made from one [`ConnectOptions`], an [`Address`], a list of them, or text with commas
/// between addresses:
///
/// ```
/// use std::time::Duration;
/// use beanstalk_client::{Selection, Servers};
///
/// let servers: Servers = "one:11300,two:11300".parse()?;
/// let servers = servers.selection(Selection::RoundRobin).each(|server| server.reply_timeout(Duration::from_secs(2)));
/// # Ok::<(), beanstalk_client::Error>(())
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
    /// `InvalidInput` for a wrong address, and when there is none.
    pub fn new<I>(servers: I) -> Result<Self, Error>
    where
        I: IntoIterator,
        I::Item: TryInto<ConnectOptions>,
        Error: From<<I::Item as TryInto<ConnectOptions>>::Error>,
    {
        let list: Vec<ConnectOptions> =
            servers.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
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

    /// The options of every server, in order.
    #[must_use]
    pub fn options(&self) -> &[ConnectOptions] {
        &self.list
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
        Servers::new(text.split(',').map(str::trim))
    }
}

queue_core::try_from_text!(Servers, Error);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_addresses_with_commas_between() {
        let servers: Servers = "a, b:1,unix:/s".parse().unwrap();
        let shown: Vec<String> = servers.addresses().map(Address::to_string).collect();
        assert_eq!(shown, ["a:11300", "b:1", "unix:/s"]);
    }

    #[test]
    fn an_empty_list_or_place_is_an_error() {
        assert!("".parse::<Servers>().is_err() && "a,,b".parse::<Servers>().is_err());
        assert!(Servers::new(Vec::<ConnectOptions>::new()).is_err());
    }
}
