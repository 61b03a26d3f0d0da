//! Which failures of a server were reported during an outage.

/// Reports each kind of failure `K` of an unreachable server once, until there is a connection again. Otherwise an
/// outage, or a system out of file descriptors, would be reported with every attempt.
#[derive(Clone, Debug)]
pub struct Outage<K> {
    reported: Vec<K>,
}

impl<K> Default for Outage<K> {
    fn default() -> Self {
        Outage { reported: Vec::new() }
    }
}

impl<K: Copy + PartialEq> Outage<K> {
    /// There is a connection, so later failures are new.
    pub fn ends(&mut self) {
        self.reported.clear();
    }

    /// Whether this kind of failure is new; marks it as reported.
    pub fn is_new(&mut self, kind: K) -> bool {
        let is_new = !self.reported.contains(&kind);
        if is_new {
            self.reported.push(kind);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_is_reported_once_per_outage() {
        let mut outage = Outage::default();
        assert_eq!(
            ["lost", "refused", "refused", "lost"].map(|kind| outage.is_new(kind)),
            [true, true, false, false]
        );
        outage.ends();
        assert!(outage.is_new("refused"));
    }
}
