//! A child and the processes that it starts: its process group, where the system has them.

pub(crate) mod guard;

use std::io;
use std::process::{Child, ExitStatus};

use self::guard::Guarded;

/// A child with its process group, which ends at the latest when this is dropped. Signals are sent only until the child
/// is reaped: after that, its number may be reused by other processes.
#[derive(Debug)]
pub(crate) struct Family {
    child: Child,
    own_group: bool,
    /// Whether its number is no longer its own.
    is_reaped: bool,
    /// Kills it if this process is killed.
    guarded: Option<Guarded>,
}

impl Family {
    /// This child; `own_group` says whether it leads a group.
    pub(crate) fn of(child: Child, own_group: bool) -> Self {
        Self { child, own_group, is_reaped: false, guarded: None }
    }

    /// Its group is killed if this process is.
    pub(crate) fn guarded_by(mut self, guarded: Option<Guarded>) -> Self {
        if let Some(guarded) = &guarded {
            guarded.runs_in(self.child.id());
        }
        self.guarded = guarded;
        self
    }

    /// Whether the child has ended. Does not reap it, where the system can look without reaping.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.is_reaped || system::has_ended(&mut self.child)
    }

    /// Asks it to end. Does nothing where this is not supported.
    pub(crate) fn terminate(&self) {
        if !self.is_reaped {
            system::terminate(&self.child, self.own_group);
        }
    }

    /// Kills whatever is left of it, also if the child itself has ended.
    pub(crate) fn kill(&mut self) {
        if self.is_reaped {
            return;
        }
        if self.own_group {
            system::kill_group(&self.child);
        }
        let _ = self.child.kill();
    }

    /// Waits for the child's end, and reaps it.
    ///
    /// # Errors
    /// The system does not say how it ended.
    pub(crate) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.is_reaped = true;
        self.guarded = None;
        self.child.wait()
    }

    /// The rest of it besides the child: the names of those in its group, and of those outside that hold one of
    /// these pipes, with process ids; none where the system does not report them.
    pub(crate) fn remains(&self, pipes: &[u64]) -> (Vec<String>, Vec<String>) {
        let group = (self.own_group && !self.is_reaped).then(|| self.child.id());
        system::remains(group, pipes)
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
            let _ = self.reap();
        }
    }
}

#[cfg(unix)]
mod system {
    use std::process::Child;

    use rustix::io::Errno;
    use rustix::process::{
        Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
    };

    pub(super) fn has_ended(child: &mut Child) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(Pid::from_child(child)), look) {
            Ok(state) => state.is_some(),
            Err(error) => error != Errno::INTR,
        }
    }

    pub(super) fn terminate(child: &Child, own_group: bool) {
        let pid = Pid::from_child(child);
        // One that has gone needs no signal.
        let _ = match own_group {
            true => kill_process_group(pid, Signal::TERM),
            false => kill_process(pid, Signal::TERM),
        };
    }

    pub(super) fn kill_group(child: &Child) {
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    }

    #[cfg(target_os = "linux")]
    pub(super) fn remains(group: Option<u32>, pipes: &[u64]) -> (Vec<String>, Vec<String>) {
        let (mut members, mut holders) = (Vec::new(), Vec::new());
        let pipes: Vec<String> = pipes.iter().map(|pipe| format!("pipe:[{pipe}]")).collect();
        let own = std::process::id();
        let Ok(processes) = std::fs::read_dir("/proc") else { return (members, holders) };
        for process in processes.flatten() {
            let pid = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            if pid.is_none_or(|pid| pid == own) {
                continue;
            }
            // The process may have ended meanwhile.
            let Ok(stat) = std::fs::read(process.path().join("stat")) else { continue };
            let Some((name, of)) = named(&stat) else { continue };
            if Some(of) == group {
                members.push(name);
            } else if holds(&process.path().join("fd"), &pipes) {
                holders.push(name);
            }
        }
        (members, holders)
    }

    /// A running process and its group, from `PID (NAME) STATE PARENT GROUP ..`; a name may contain anything.
    #[cfg(target_os = "linux")]
    fn named(stat: &[u8]) -> Option<(String, u32)> {
        let text = String::from_utf8_lossy(stat);
        let (pid, rest) = text.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let is_running = fields.next()? != "Z";
        let group = fields.nth(1)?.parse().ok()?;
        is_running.then(|| (format!("{name} (process {pid})"), group))
    }

    /// Whether one of the descriptors in this folder is one of the pipes. Those of other users cannot be read.
    #[cfg(target_os = "linux")]
    fn holds(descriptors: &std::path::Path, pipes: &[String]) -> bool {
        let Ok(descriptors) = std::fs::read_dir(descriptors) else { return false };
        let targets = descriptors.flatten().filter_map(|one| std::fs::read_link(one.path()).ok());
        targets.into_iter().any(|target| pipes.iter().any(|pipe| target.as_os_str() == &**pipe))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn remains(_: Option<u32>, _: &[u64]) -> (Vec<String>, Vec<String>) {
        (Vec::new(), Vec::new())
    }
}

#[cfg(not(unix))]
mod system {
    use std::process::Child;

    pub(super) fn has_ended(child: &mut Child) -> bool {
        !matches!(child.try_wait(), Ok(None))
    }

    pub(super) fn terminate(_: &Child, _: bool) {}

    pub(super) fn kill_group(_: &Child) {}

    pub(super) fn remains(_: Option<u32>, _: &[u64]) -> (Vec<String>, Vec<String>) {
        (Vec::new(), Vec::new())
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::system::process;

    /// A child that has ended, and left a process in its group whose end closes the pipe.
    fn ended() -> (Family, BufReader<std::process::ChildStdout>) {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo ready"]).stdout(Stdio::piped());
        let own_group = process::group(&mut command);
        let mut child = process::spawn(&mut command).unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut family = Family::of(child, own_group);
        stdout.read_line(&mut String::new()).unwrap();
        while !family.has_ended() {
            std::thread::yield_now();
        }
        (family, stdout)
    }

    #[test]
    fn kills_a_group_after_its_leader_ended() {
        let (mut family, mut stdout) = ended();
        family.kill();
        assert_eq!(stdout.read_line(&mut String::new()).unwrap(), 0);
        assert!(family.reap().unwrap().success());
    }

    #[test]
    fn never_signals_a_reaped_pid() {
        let (mut family, mut stdout) = ended();
        let (members, _) = family.remains(&[]);
        assert!(family.reap().unwrap().success() && family.has_ended());
        // The group still has a process, as an unrelated group with that number would.
        let number = rustix::process::Pid::from_child(&family.child);
        family.terminate();
        family.kill();
        drop(family);
        assert!(rustix::process::test_kill_process_group(number).is_ok(), "{members:?}");
        rustix::process::kill_process_group(number, rustix::process::Signal::KILL).unwrap();
        assert_eq!(stdout.read_line(&mut String::new()).unwrap(), 0);
    }
}
