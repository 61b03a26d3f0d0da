//! A process that outlives this one, and kills the commands that this one leaves running when it is killed itself.

use std::io::Write as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::CliError;
use crate::system::family::Family;
use crate::system::process;

/// Its stdin names the process groups that begin and end, and is closed with this process, however that ends.
const SCRIPT: &str = r#"trap '' HUP INT TERM
groups=' '
while read -r change group; do
  case $change in
    +) groups="$groups$group " ;;
    -) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done"#;

/// The process, which ends with this.
#[derive(Debug)]
pub(crate) struct Guard {
    groups: Mutex<ChildStdin>,
    _shell: Family,
}

impl Guard {
    /// Starts it; none where the system has no process groups or no shell.
    ///
    /// # Errors
    /// The system has no room for it now: exit 75.
    pub(crate) fn start() -> Result<Option<Arc<Self>>, CliError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals of a terminal do not reach it.
        if !process::group(&mut command) {
            return Ok(None);
        }
        match process::spawn(&mut command) {
            Ok(mut shell) => Ok(shell.stdin.take().map(|stdin| {
                Arc::new(Self { groups: Mutex::new(stdin), _shell: Family::of(shell, true) })
            })),
            Err(error) if error.is_shortage() => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn tell(&self, change: char, group: u32) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        // Without it, the commands run as they would without a guard.
        let _ = groups.write_all(format!("{change} {group}\n").as_bytes());
    }
}

/// A process group that the guard knows, until this is dropped.
#[derive(Debug)]
pub(crate) struct Guarded {
    guard: Arc<Guard>,
    group: u32,
}

impl Guarded {
    pub(crate) fn new(guard: &Arc<Guard>, group: u32) -> Self {
        guard.tell('+', group);
        Self { guard: Arc::clone(guard), group }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.guard.tell('-', self.group);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    /// A command in a group of its own, whose output ends with it.
    fn sleeper() -> (u32, Family, impl std::io::BufRead) {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo; wait"]).stdout(Stdio::piped());
        process::group(&mut command);
        let mut child = process::spawn(&mut command).unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        (child.id(), Family::of(child, true), out)
    }

    #[test]
    fn the_groups_that_are_left_are_killed_and_no_others() {
        let guard = Arc::into_inner(Guard::start().unwrap().unwrap()).unwrap();
        let (first, mut left, last) = (sleeper(), sleeper(), sleeper());
        for (change, group) in
            [('+', first.0), ('+', left.0), ('+', last.0), ('-', first.0), ('-', last.0)]
        {
            guard.tell(change, group);
        }
        let Guard { groups, _shell: mut shell } = guard;
        drop(groups);
        assert!(shell.reap().unwrap().success());
        assert_eq!(left.2.read_line(&mut String::new()).unwrap(), 0);
        assert_eq!(process::signal(left.1.reap().unwrap()), Some(9));
        for (_, mut family, _) in [first, last] {
            assert!(!family.has_ended());
        }
    }
}
