//! Which kinds of fault a seed has: few in some seeds, so that rare combinations occur that a storm of all would hide.

use std::fmt;

use crate::rng::Rng;

/// A kind of fault, or a habit of the actors that causes as much trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A connection is closed at some byte.
    Close,
    /// A connection is reset at some byte.
    Reset,
    /// A connection carries nothing from some byte on, without a notice.
    Hang,
    /// Connecting is refused.
    Refused,
    /// Connecting never ends.
    Unanswered,
    /// A read gets a part of what has arrived.
    PartialReads,
    /// A write takes a part of its data.
    PartialWrites,
    /// A write takes nothing.
    Stalls,
    /// A server ends and restarts with its jobs.
    Restart,
    /// A server ends and restarts empty.
    Wipe,
    /// A server denies a command.
    Denial,
    /// A server answers late.
    Delay,
    /// A server answers no more.
    Silence,
    /// A server closes the connection within a reply.
    CutReply,
    /// A server resets the connection within a reply.
    ResetReply,
    /// A server sends a reply piece by piece.
    Chunks,
    /// Callers give up.
    GiveUp,
    /// Handlers run for longer than a job may take.
    Overrun,
    /// Handlers and consumers give jobs back, or fail.
    Failure,
}

use Kind::*;

impl Kind {
    const FAULTS: [Kind; 16] = [
        Close,
        Reset,
        Hang,
        Refused,
        Unanswered,
        PartialReads,
        PartialWrites,
        Stalls,
        Restart,
        Wipe,
        Denial,
        Delay,
        Silence,
        CutReply,
        ResetReply,
        Chunks,
    ];
    const HABITS: [Kind; 3] = [GiveUp, Overrun, Failure];
}

/// All kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kinds(u32);

impl Kinds {
    /// Those of a seed: none but habits in one of ten, all in another, and otherwise as dense as the seed determines.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(!seed);
        let (plan, density) = (rng.below(10), 1 + rng.below(3));
        let mut draw = |kind: &Kind| {
            let is_drawn = rng.below(4) < density;
            match plan {
                0 => is_drawn && Kind::HABITS.contains(kind),
                1 => true,
                _ => is_drawn,
            }
        };
        let all = Kind::FAULTS.into_iter().chain(Kind::HABITS);
        all.filter(|kind| draw(kind)).collect()
    }

    pub fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Nothing goes wrong except for the habits of the actors.
    pub fn are_quiet(self) -> bool {
        !Kind::FAULTS.into_iter().any(|kind| self.has(kind))
    }

    /// One of these, if there is any.
    pub fn pick(self, of: &[Kind], rng: &mut Rng) -> Option<Kind> {
        let here: Vec<Kind> = of.iter().copied().filter(|kind| self.has(*kind)).collect();
        let count = here.len() as u64;
        (count > 0).then(|| here[rng.below(count) as usize])
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        Kinds(kinds.into_iter().fold(0, |bits, kind| bits | 1 << kind as u8))
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Kind::FAULTS.into_iter().chain(Kind::HABITS);
        let names: Vec<String> =
            all.filter(|kind| self.has(*kind)).map(|kind| format!("{kind:?}")).collect();
        if names.is_empty() { f.write_str("no faults") } else { f.write_str(&names.join(", ")) }
    }
}
