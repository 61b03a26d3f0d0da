//! Announcing a worker's functions to its server.

use std::{collections::hash_map::Entry, time::Duration};

use super::{MAX_TIMEOUT_MS, WorkerSession};
use crate::{ClientId, Error, FunctionName, protocol::PacketType, text::Decimal};

/// A change of the functions, as the server has to be told of it.
#[derive(Debug)]
pub(super) enum AbilityChange {
    Can(FunctionName, Option<Duration>),
    Cannot(FunctionName),
    Reset,
}

impl WorkerSession {
    /// Names the worker (SET_CLIENT_ID).
    pub fn set_client_id(&mut self, id: &ClientId) {
        self.client_id = Some(id.clone());
        self.put(PacketType::SetClientId, &[], id.as_bytes());
    }

    /// Registers a function (CAN_DO), or one whose jobs the server gives to other workers after `timeout`
    /// (CAN_DO_TIMEOUT, in whole milliseconds, rounded up). A function is registered only once on a connection: another
    /// timeout counts from the next one on.
    pub fn can_do(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        self.abilities.retain(|(known, _)| known != function);
        self.abilities.push((function.clone(), timeout));
        if self.has_announced {
            self.tell(function, timeout);
        }
    }

    /// Announces the functions for the first time.
    pub(super) fn announce_first(&mut self) {
        if !std::mem::replace(&mut self.has_announced, true) {
            self.announce_all();
        }
    }

    /// Announces all functions: the first one last, so that it is served first, and before all others those that were
    /// set back.
    pub(super) fn announce_all(&mut self) {
        let abilities = std::mem::take(&mut self.abilities);
        let set_back = std::mem::take(&mut self.set_back);
        let mut order: Vec<_> = abilities.iter().rev().collect();
        order.sort_by_key(|(function, _)| !set_back.contains(function));
        for (function, timeout) in order {
            self.tell(function, *timeout);
        }
        self.abilities = abilities;
    }

    fn tell(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        if let Entry::Vacant(place) = self.functions.entry(function.clone()) {
            place.insert(timeout);
            self.change(AbilityChange::Can(function.clone(), timeout));
        }
    }

    fn change(&mut self, change: AbilityChange) {
        self.changes.push_back(change);
        self.notify_changes();
    }

    /// Tells the server of changes, in order. Withdrawals wait for the answers to grabs, and for the ends of the jobs
    /// that these bring: the server would give them to other workers.
    pub(super) fn notify_changes(&mut self) {
        let is_busy = self.confirmations.grabs > 0 || !self.running.is_empty();
        while let Some(next) = self.changes.front()
            && (!is_busy || matches!(next, AbilityChange::Can(..)))
        {
            match self.changes.pop_front() {
                Some(AbilityChange::Can(function, timeout)) => self.announce(&function, timeout),
                Some(AbilityChange::Cannot(function)) => {
                    self.put(PacketType::CantDo, &[], function.as_bytes());
                }
                Some(AbilityChange::Reset) => self.put(PacketType::ResetAbilities, &[], b""),
                None => {}
            }
        }
    }

    pub(super) fn announce(&mut self, function: &FunctionName, timeout: Option<Duration>) {
        match timeout {
            None => self.put(PacketType::CanDo, &[], function.as_bytes()),
            Some(timeout) => {
                let milliseconds = timeout.as_nanos().div_ceil(1_000_000);
                let milliseconds = Decimal::new(milliseconds.min(MAX_TIMEOUT_MS) as u64);
                let arguments = [function.as_bytes()];
                self.put(PacketType::CanDoTimeout, &arguments, milliseconds.as_bytes());
            }
        }
    }

    /// Withdraws a function (CANT_DO), once the grabs in flight are answered. They may still bring jobs of it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running, because the server would give those of the function to other workers.
    pub fn cant_do(&mut self, function: &FunctionName) -> Result<(), Error> {
        self.refuse_while_running(PacketType::CantDo)?;
        self.abilities.retain(|(known, _)| known != function);
        if self.functions.remove(function).is_some() {
            self.change(AbilityChange::Cannot(function.clone()));
        }
        Ok(())
    }

    /// Takes all functions back (RESET_ABILITIES), once the grabs in flight are answered. They may still bring jobs.
    ///
    /// # Errors
    ///
    /// `InvalidInput` while jobs are running, because the server would give them to other workers.
    pub fn reset_abilities(&mut self) -> Result<(), Error> {
        self.refuse_while_running(PacketType::ResetAbilities)?;
        self.abilities.clear();
        if self.has_announced {
            self.functions.clear();
            self.change(AbilityChange::Reset);
        }
        Ok(())
    }

    /// Refuses a command of which the server would give running jobs to others.
    pub(crate) fn refuse_while_running(&self, command: PacketType) -> Result<(), Error> {
        if self.running.is_empty() {
            return Ok(());
        }
        let why = "the server would give the running jobs to others: finish them first";
        Err(Error::invalid(why).with_command(command.name()))
    }
}
