//! What to write when, for each scenario; the loops in `blocking` and `tokio` only move bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};

use super::wire::{
    CAN_DO, ECHO_REQ, ECHO_RES, GRAB_JOB, JOB_ASSIGN, JOB_CREATED, NO_JOB, NOOP, PRE_SLEEP,
    SUBMIT_JOB, SUBMIT_JOB_BG, WORK_COMPLETE, first, request, submit,
};

/// The packets of one scenario, one after the other.
pub trait Plan {
    /// Appends what can be sent now; `false` when everything is done.
    fn fill(&mut self, out: &mut Vec<u8>) -> bool;

    /// Takes a packet, and appends what it requires.
    fn take(&mut self, packet_type: u32, body: &[u8], out: &mut Vec<u8>) -> Result<()>;
}

/// Maximum size of one write.
const ENOUGH: usize = 256 * 1024;

/// Submissions with a window: 1 waits for each answer. Half of the window is refilled at once.
pub struct Submits<'a> {
    functions: &'a [String],
    workload: &'a [u8],
    packet_type: u32,
    /// What ends a job.
    ended_by: u32,
    /// The number of the last submission.
    last: u64,
    left: u64,
    in_flight: u64,
    window: u64,
}

impl<'a> Submits<'a> {
    pub fn background(
        functions: &'a [String],
        workload: &'a [u8],
        jobs: u64,
        window: usize,
    ) -> Self {
        // Jobs with the same unique id would be joined, so no number is used twice.
        static LAST: AtomicU64 = AtomicU64::new(0);
        Submits {
            functions,
            workload,
            packet_type: SUBMIT_JOB_BG,
            ended_by: JOB_CREATED,
            last: LAST.fetch_add(jobs, Ordering::Relaxed) + jobs,
            left: jobs,
            in_flight: 0,
            window: window as u64,
        }
    }

    pub fn foreground(
        functions: &'a [String],
        workload: &'a [u8],
        jobs: u64,
        window: usize,
    ) -> Self {
        Submits {
            packet_type: SUBMIT_JOB,
            ended_by: WORK_COMPLETE,
            ..Self::background(functions, workload, jobs, window)
        }
    }
}

impl Plan for Submits<'_> {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        if self.in_flight <= self.window / 2 {
            while self.left > 0 && self.in_flight < self.window && out.len() < ENOUGH {
                let turn = self.left as usize % self.functions.len().max(1);
                let function = self.functions.get(turn).map_or("", String::as_str);
                let number = self.last - self.left;
                submit(out, self.packet_type, function.as_bytes(), number, self.workload);
                self.left -= 1;
                self.in_flight += 1;
            }
        }
        self.in_flight > 0
    }

    fn take(&mut self, packet_type: u32, body: &[u8], _out: &mut Vec<u8>) -> Result<()> {
        match packet_type {
            ended if ended == self.ended_by => self.in_flight -= 1,
            JOB_CREATED => {}
            other => bail!("a submission was answered with {other}: {}", body.escape_ascii()),
        }
        Ok(())
    }
}

/// Registers, and waits until the server has read that.
pub struct Register<'a> {
    functions: &'a [String],
    is_told: bool,
    is_done: bool,
}

impl<'a> Register<'a> {
    pub fn new(functions: &'a [String]) -> Self {
        Register { functions, is_told: false, is_done: false }
    }
}

impl Plan for Register<'_> {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.is_told {
            self.is_told = true;
            for function in self.functions {
                request(out, CAN_DO, &[function.as_bytes()]);
            }
            request(out, ECHO_REQ, &[b"ready"]);
        }
        !self.is_done
    }

    fn take(&mut self, packet_type: u32, body: &[u8], _out: &mut Vec<u8>) -> Result<()> {
        if packet_type != ECHO_RES {
            bail!("an echo was answered with {packet_type}: {}", body.escape_ascii());
        }
        self.is_done = true;
        Ok(())
    }
}

/// Grabs and completes jobs: as many as there should be, or until there is none.
pub struct Work<'a> {
    result: &'a [u8],
    /// Number of jobs still to come; `None` if unknown.
    left: Option<u64>,
    most_grabs: u64,
    /// How many of them are in flight.
    grabs: u64,
    pub completed: u64,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Awake,
    /// Waits to be told that there are jobs.
    Asleep,
    /// Makes sure that the last result was read.
    Ending,
    Done,
}

impl<'a> Work<'a> {
    pub fn new(result: &'a [u8], jobs: u64, grabs: usize) -> Self {
        let left = Some(jobs);
        Work { left, ..Self::until_none_is_left(result, grabs) }
    }

    pub fn until_none_is_left(result: &'a [u8], grabs: usize) -> Self {
        Work {
            result,
            left: None,
            most_grabs: grabs as u64,
            grabs: 0,
            completed: 0,
            state: State::Awake,
        }
    }

    fn may_grab(&self) -> bool {
        self.grabs < self.most_grabs && self.left.is_none_or(|left| self.grabs < left)
    }
}

impl Plan for Work<'_> {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        match self.state {
            State::Awake if self.left == Some(0) => {
                request(out, ECHO_REQ, &[b"done"]);
                self.state = State::Ending;
            }
            State::Awake if self.grabs == 0 => {
                while self.may_grab() {
                    request(out, GRAB_JOB, &[]);
                    self.grabs += 1;
                }
            }
            _ => {}
        }
        self.state != State::Done
    }

    fn take(&mut self, packet_type: u32, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match packet_type {
            JOB_ASSIGN => {
                request(out, WORK_COMPLETE, &[first(body)?, self.result]);
                self.completed += 1;
                self.grabs -= 1;
                self.left = self.left.map(|left| left - 1);
                if self.may_grab() {
                    request(out, GRAB_JOB, &[]);
                    self.grabs += 1;
                }
            }
            NO_JOB => {
                self.grabs -= 1;
                if self.grabs == 0 && self.left.is_none() {
                    self.left = Some(0);
                } else if self.grabs == 0 {
                    request(out, PRE_SLEEP, &[]);
                    self.state = State::Asleep;
                }
            }
            NOOP if self.state == State::Asleep => self.state = State::Awake,
            NOOP => {}
            ECHO_RES => self.state = State::Done,
            other => bail!("a grab was answered with {other}: {}", body.escape_ascii()),
        }
        Ok(())
    }
}
