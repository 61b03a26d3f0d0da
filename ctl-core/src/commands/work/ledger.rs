//! The ends of commands, kept until the fate of their jobs is known.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use queue_core::lock;

use super::{CommandEnd, RECORDED};
use crate::output::messages::Messages;

/// The fate of a job.
#[derive(Debug, Clone)]
pub struct Fate {
    /// Its word.
    pub word: &'static str,
    /// Why it was lost, if it was.
    pub lost: Option<String>,
    /// Whether it is the fate of a job whose command succeeds.
    pub is_best: bool,
    /// Whether it can be known before the command has ended.
    pub is_early: bool,
}

/// A finished job.
#[derive(Debug, Clone)]
pub struct Finished<K, M> {
    /// Its key in events.
    pub job: K,
    /// Further data.
    pub more: M,
    /// How its command ended.
    pub end: CommandEnd,
    /// Its fate: the word of its [`Fate`].
    pub fate: &'static str,
}

/// The jobs of a worker, identified by `K` in events; `M` is further data.
pub struct Ledger<K, M> {
    messages: Messages,
    label: fn(&K, &M) -> String,
    finished: Sender<Finished<K, M>>,
    ended: Mutex<HashMap<K, (M, CommandEnd)>>,
}

impl<K: Eq + Hash, M: Default> Ledger<K, M> {
    /// A ledger, and the receiver of finished jobs; `label` is their name in messages.
    #[must_use]
    pub fn new(
        messages: &Messages,
        label: fn(&K, &M) -> String,
    ) -> (Self, Receiver<Finished<K, M>>) {
        let (finished, receiver) = mpsc::channel();
        (Self { messages: messages.clone(), label, finished, ended: Mutex::default() }, receiver)
    }

    /// The command of a job has ended. The fate of a lost job is already known.
    pub fn ended(&self, job: K, more: M, end: CommandEnd, lost: Option<Fate>) {
        match lost {
            None => drop(lock(&self.ended).insert(job, (more, end))),
            Some(fate) => self.finish(job, more, end, &fate),
        }
    }

    /// The fate of a job is known.
    pub fn settled(&self, job: K, fate: &Fate) {
        let ended = lock(&self.ended).remove(&job);
        // The command still runs, and its end will be reported.
        if ended.is_none() && fate.is_early {
            return;
        }
        let (more, end) = ended.unwrap_or_default();
        self.finish(job, more, end, fate);
    }

    fn finish(&self, job: K, more: M, end: CommandEnd, fate: &Fate) {
        // What was deleted after that has not succeeded.
        let word = if fate.is_best && end.is_recorded { RECORDED } else { fate.word };
        if end.has_succeeded() != Some(true) || !fate.is_best {
            let lost = fate.lost.as_ref().map(|reason| format!("{word} ({reason})"));
            let shown = lost.as_deref().unwrap_or(word);
            end.tell(&self.messages, &(self.label)(&job, &more), shown);
        }
        let _ = self.finished.send(Finished { job, more, end, fate: word });
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const DELETED: Fate = Fate { word: "deleted", lost: None, is_best: true, is_early: false };

    fn fates(received: &Receiver<Finished<u64, ()>>) -> Vec<(u64, &'static str, Option<i32>)> {
        received.try_iter().map(|done| (done.job, done.fate, done.end.exit)).collect()
    }

    #[test]
    fn finishes_a_job_once_its_exit_and_fate_are_known() {
        let messages = Messages::to(Box::new(io::sink()), "tool", false, false);
        let (ledger, received) = Ledger::<u64, ()>::new(&messages, |job, ()| format!("job {job}"));
        let end = || CommandEnd { exit: Some(3), ..CommandEnd::default() };
        ledger.ended(1, (), end(), None);
        assert_eq!(fates(&received), []);
        ledger.settled(1, &DELETED);
        assert_eq!(fates(&received), [(1, "deleted", Some(3))]);
        let lost = Fate { word: "lost", lost: Some("gone".into()), is_best: false, is_early: true };
        ledger.settled(2, &lost);
        assert_eq!(fates(&received), []);
        ledger.ended(2, (), end(), Some(lost));
        assert_eq!(fates(&received), [(2, "lost", Some(3))]);
        // Without a command, such as a poisoned one.
        ledger.settled(3, &DELETED);
        assert_eq!(fates(&received), [(3, "deleted", None)]);
    }
}
