//! Selection among several servers.

use crate::random::{STEP, mix};

/// How a producer selects a server for what it sends.
///
/// Whatever the selection, a failed server is skipped for a while: for a time that grows with each failure, or until it
/// is reachable again. So is one that takes over a second to connect, or has let a caller's time pass without an answer,
/// while another one is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Selection {
    /// The first usable one, in the order of the list: the others are spares.
    #[default]
    InOrder,
    /// Each in turn.
    RoundRobin,
    /// A random one each time.
    Random,
    /// The same one for the same key, which the caller gives; without a key, each in turn.
    ///
    /// Uses rendezvous hashing over the addresses in their text form, so all producers with the same list, in any
    /// order, select alike, and while a server is down only its own keys move.
    ByKey,
}

crate::words!(Selection, crate::Error, "way to choose a server":
    "in-order" = InOrder, "round-robin" = RoundRobin, "random" = Random, "by-key" = ByKey);

/// Selects among the servers that are usable now.
#[derive(Debug)]
pub struct Chooser {
    selection: Selection,
    /// A hash of each address.
    addresses: Vec<u64>,
    /// The server whose turn it is.
    turn: usize,
    random: u64,
}

impl Chooser {
    /// Selects among servers whose addresses have these hashes ([`stable_hash`]). Processes that have to select alike
    /// must hash the same text.
    #[must_use]
    pub fn new(selection: Selection, addresses: Vec<u64>, seed: u64) -> Self {
        Chooser { selection, addresses, turn: 0, random: seed }
    }

    /// The server for a message with this key, among those for which `is_usable` returns true.
    pub fn choose(&mut self, key: Option<u64>, is_usable: impl Fn(usize) -> bool) -> Option<usize> {
        let count = self.addresses.len();
        match (self.selection, key) {
            (Selection::InOrder, _) => (0..count).find(|server| is_usable(*server)),
            (Selection::ByKey, Some(key)) => self
                .addresses
                .iter()
                .enumerate()
                .filter(|(server, _)| is_usable(*server))
                .max_by_key(|(_, address)| affinity(**address, key))
                .map(|(server, _)| server),
            (Selection::Random, _) => {
                self.random = self.random.wrapping_add(1);
                let usable = (0..count).filter(|server| is_usable(*server)).count() as u64;
                // Without a usable server there is nothing to draw from.
                let drawn = spread(self.random).checked_rem(usable)?;
                (0..count).filter(|server| is_usable(*server)).nth(usize::try_from(drawn).ok()?)
            }
            (Selection::RoundRobin | Selection::ByKey, _) => {
                let mut round = (0..count).map(|n| (self.turn + n) % count);
                let chosen = round.find(|server| is_usable(*server))?;
                self.turn = (chosen + 1) % count;
                Some(chosen)
            }
        }
    }
}

/// A hash that is the same in every process and release: FNV-1a.
#[must_use]
pub fn stable_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The weight of a key for the server whose address has this hash. The server with the greatest weight gets the key, so
/// while a server is down only its own keys move (rendezvous hashing).
#[must_use]
pub fn affinity(address: u64, key: u64) -> u64 {
    spread(address ^ spread(key))
}

fn spread(number: u64) -> u64 {
    mix(number.wrapping_add(STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chooser(selection: Selection, servers: usize) -> Chooser {
        let addresses =
            (0..servers).map(|n| stable_hash(format!("host{n}:11300").as_bytes())).collect();
        Chooser::new(selection, addresses, 7)
    }

    fn counts(chooser: &mut Chooser, down: &[usize]) -> Vec<usize> {
        let mut counts = vec![0; chooser.addresses.len()];
        for key in 0..3000 {
            counts[chooser.choose(Some(key), |server| !down.contains(&server)).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn in_order_means_the_first_that_works() {
        let mut chooser = chooser(Selection::InOrder, 3);
        assert_eq!(counts(&mut chooser, &[]), [3000, 0, 0]);
        assert_eq!(counts(&mut chooser, &[0]), [0, 3000, 0]);
        assert_eq!(chooser.choose(None, |_| false), None);
    }

    #[test]
    fn the_other_servers_get_equal_shares() {
        for selection in [Selection::RoundRobin, Selection::Random, Selection::ByKey] {
            for down in [&[][..], &[1]] {
                let counts = counts(&mut chooser(selection, 3), down);
                let fair = 3000 / (3 - down.len());
                for (server, count) in counts.into_iter().enumerate() {
                    let wanted =
                        if down.contains(&server) { 0..1 } else { fair * 9 / 10..fair * 11 / 10 };
                    assert!(wanted.contains(&count), "{selection:?}: {count} of {wanted:?}");
                }
            }
            assert_eq!(chooser(selection, 3).choose(Some(1), |_| false), None);
        }
    }

    #[test]
    fn a_key_moves_only_while_its_server_is_away() {
        let mut chooser = chooser(Selection::ByKey, 5);
        for key in 0..1000 {
            let home = chooser.choose(Some(key), |_| true).unwrap();
            let away = chooser.choose(Some(key), |server| server != home).unwrap();
            assert_ne!(home, away);
            let other_down = (home + 1) % 5;
            let still = chooser.choose(Some(key), |server| server != other_down).unwrap();
            assert_eq!(still, home);
        }
    }

    #[test]
    fn the_order_of_the_list_does_not_matter_to_keys() {
        let names: Vec<u64> =
            ["a", "b", "c"].iter().map(|name| stable_hash(name.as_bytes())).collect();
        let reversed: Vec<u64> = names.iter().rev().copied().collect();
        let mut one = Chooser::new(Selection::ByKey, names.clone(), 0);
        let mut other = Chooser::new(Selection::ByKey, reversed.clone(), 0);
        for key in 0..100 {
            let a = names[one.choose(Some(key), |_| true).unwrap()];
            assert_eq!(a, reversed[other.choose(Some(key), |_| true).unwrap()]);
        }
    }
}
