//! The hash ring of libgearman 2.2 and later, known as ketama from libmemcached. Clients of both libraries send equal
//! ids to equal servers.
//!
//! Each server has 16 points on a ring of 2³²: the four little-endian numbers in each of the MD5 hashes of
//! `host:port-0` to `host:port-3`. An id goes to the first point at or after the first number of its own hash. When a
//! server is unusable, its ids go to the next other server after its first point, and so on.

use queue_core::Endpoint;

use crate::{Address, servers::md5::md5};

/// Number of hashes of each server; each has four points.
const HASHES: u32 = 4;

/// The points of all servers.
#[derive(Clone, Debug)]
pub(crate) struct HashRing {
    /// Sorted, with the index of the server.
    points: Vec<(u32, usize)>,
    servers: usize,
}

impl HashRing {
    /// Builds the ring. Names count as written, and IPv6 addresses without brackets.
    pub(crate) fn new<'a>(servers: impl IntoIterator<Item = &'a Address>) -> Self {
        let mut points = Vec::new();
        let mut count = 0;
        for (index, server) in servers.into_iter().enumerate() {
            count += 1;
            let server = match server.endpoint() {
                Endpoint::Tcp { host, port } | Endpoint::Tls { host, port } => {
                    format!("{host}:{port}")
                }
                // A unix socket. The other libraries do not have them.
                _ => server.to_string(),
            };
            for hash in 0..HASHES {
                let hash = md5(format!("{server}-{hash}").as_bytes());
                points.extend(hash.chunks_exact(4).map(|bytes| (number(bytes), index)));
            }
        }
        points.sort_unstable();
        HashRing { points, servers: count }
    }

    /// All servers, starting with the one for an id, each followed by those that take over its ids.
    pub(crate) fn order(&self, id: &[u8]) -> Vec<usize> {
        let at = number(md5(id).get(..4).unwrap_or_default());
        let start = self.points.partition_point(|(point, _)| *point < at);
        let mut order = Vec::with_capacity(self.servers);
        let mut next = self.from(start).next();
        while let Some(server) = next.filter(|server| !order.contains(server)) {
            order.push(server);
            next = self.behind(server);
        }
        // The chain may cycle through some servers. The others follow in ring order.
        for server in self.from(start) {
            if !order.contains(&server) {
                order.push(server);
            }
        }
        order
    }

    /// The first other server after the first point of this one.
    fn behind(&self, server: usize) -> Option<usize> {
        let first = self.points.iter().position(|(_, of)| *of == server)?;
        self.from(first).find(|other| *other != server)
    }

    /// The servers of all points, once around the ring.
    fn from(&self, start: usize) -> impl Iterator<Item = usize> {
        let (before, behind) = self.points.split_at(start.min(self.points.len()));
        behind.iter().chain(before).map(|(_, server)| *server)
    }
}

/// The little-endian number in four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Servers;

    fn ring(servers: &str) -> HashRing {
        HashRing::new(servers.parse::<Servers>().unwrap().addresses())
    }

    /// Values from crate `gearman` 0.2.0, whose own tests compare it with libgearman 2.2.0: with all servers up, and
    /// then with the servers chosen before down.
    #[test]
    fn ids_go_where_other_clients_send_them() {
        const IDS: [&str; 6] =
            ["mail-1", "resize:42", "nightly", "0", "\u{fc}n\u{ef}code", "a longer id with spaces"];
        for (servers, orders) in [
            (
                "one.example,two.example,three.example:4731,10.0.0.4",
                [
                    &[3, 2, 1, 0][..],
                    &[0, 1, 3, 2],
                    &[3, 2, 1, 0],
                    &[1, 3, 2, 0],
                    &[2, 1, 3, 0],
                    &[0, 1, 3, 2],
                ],
            ),
            ("a,b", [&[0, 1], &[1, 0], &[1, 0], &[0, 1], &[0, 1], &[1, 0]]),
            (
                "[::1],gearman.internal:7003,x:1",
                [&[1, 2, 0], &[1, 2, 0], &[0, 2, 1], &[1, 2, 0], &[0, 2, 1], &[1, 2, 0]],
            ),
        ] {
            let ring = ring(servers);
            for (id, order) in IDS.into_iter().zip(orders) {
                assert_eq!(ring.order(id.as_bytes()), order, "{id} among {servers}");
            }
        }
    }

    /// The hash of this id is that of a server's first point.
    #[test]
    fn an_id_that_falls_on_a_point_goes_to_its_server() {
        let ring = ring("a,b,c,d");
        for (server, id) in ["a:4730-0", "b:4730-0", "c:4730-0", "d:4730-0"].iter().enumerate() {
            assert_eq!(ring.order(id.as_bytes())[0], server, "{id}");
        }
    }

    #[test]
    fn every_server_is_tried_once_and_gets_a_share() {
        let ring = ring("a,b,c,d,unix:/run/e");
        let mut share = [0; 5];
        for id in 0..5000 {
            let mut order = ring.order(format!("job-{id}").as_bytes());
            share[order[0]] += 1;
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4]);
        }
        assert!(share.iter().all(|count| *count > 200), "{share:?}");
    }
}
