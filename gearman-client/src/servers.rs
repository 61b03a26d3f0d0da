//! One or more servers, and how a client chooses among them.

use std::{str::FromStr, sync::Arc};

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
        self.list.iter().try_for_each(ConnectOptions::check)
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

impl TryFrom<&str> for Servers {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<String> for Servers {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<&String> for Servers {
    type Error = Error;

    fn try_from(text: &String) -> Result<Self, Error> {
        text.parse()
    }
}

/// The order in which servers are tried for one request.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    selection: Selection,
    /// What each server is hashed with.
    names: Arc<[String]>,
}

impl Router {
    pub(crate) fn new(servers: &Servers) -> Self {
        let names = servers.addresses().map(ToString::to_string).collect();
        Router { selection: servers.selection, names }
    }

    /// The indexes of all servers, the preferred one first. `turn` counts the requests.
    pub(crate) fn order(&self, turn: usize, unique: Option<&[u8]>) -> Vec<usize> {
        let count = self.names.len();
        let rotated = || (0..count).map(|n| (turn.wrapping_add(n)) % count).collect();
        match (self.selection, unique) {
            (Selection::InOrder, _) => (0..count).collect(),
            (Selection::RoundRobin, _) | (Selection::ByUnique, None) => rotated(),
            (Selection::ByUnique, Some(unique)) => {
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by_key(|index| {
                    let name = self.names.get(*index).map(String::as_bytes).unwrap_or_default();
                    std::cmp::Reverse(weight(name, unique))
                });
                order
            }
        }
    }
}

/// How much a server wants an id: the 64-bit FNV-1a hash of both, mixed so that every bit counts.
fn weight(server: &[u8], unique: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in server.iter().chain(b"\0").chain(unique) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(selection: Selection, servers: &str) -> Router {
        Router::new(&servers.parse::<Servers>().unwrap().selection(selection))
    }

    #[test]
    fn in_order_starts_with_the_first_and_round_robin_goes_on() {
        let in_order = router(Selection::InOrder, "a,b,c");
        let round = router(Selection::RoundRobin, "a,b,c");
        assert_eq!(in_order.order(7, None), [0, 1, 2]);
        assert_eq!(round.order(0, None), [0, 1, 2]);
        assert_eq!(round.order(1, Some(b"u")), [1, 2, 0]);
        assert_eq!(round.order(usize::MAX, None)[0], usize::MAX % 3);
    }

    #[test]
    fn an_id_keeps_its_server_wherever_it_stands_in_the_list() {
        let one = router(Selection::ByUnique, "a,b,c");
        let other = router(Selection::ByUnique, "c,a,b");
        let names = |router: &Router, id: &str| {
            let order = router.order(0, Some(id.as_bytes()));
            order.iter().map(|index| router.names[*index].clone()).collect::<Vec<_>>()
        };
        for id in 0..100 {
            assert_eq!(names(&one, &id.to_string()), names(&other, &id.to_string()));
        }
    }

    #[test]
    fn a_missing_server_moves_only_its_own_ids_and_all_get_a_share() {
        let three = router(Selection::ByUnique, "a,b,c");
        let two = router(Selection::ByUnique, "a,b");
        let mut share = [0; 3];
        for id in 0..3000 {
            let id = format!("job-{id}");
            let order = three.order(0, Some(id.as_bytes()));
            share[order[0]] += 1;
            let rest: Vec<usize> = order.into_iter().filter(|index| *index != 2).collect();
            assert_eq!(two.order(0, Some(id.as_bytes())), rest);
        }
        assert!(share.iter().all(|count| (800..1200).contains(count)), "{share:?}");
    }

    #[test]
    fn an_empty_list_is_an_error() {
        assert!("".parse::<Servers>().is_err() && "a,,b".parse::<Servers>().is_err());
        assert!(Servers::new(Vec::<ConnectOptions>::new()).is_err());
        assert_eq!("a, b:1".parse::<Servers>().unwrap().addresses().len(), 2);
    }
}
