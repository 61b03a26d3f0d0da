//! A process that outlives this one, and kills the commands that this one leaves running when it is killed itself.

use std::io::Write as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use queue_core::lock;

use crate::error::CliError;
use crate::system::family::Family;
use crate::system::process;

/// Its stdin has a line for each command that is about to start (`MARK new`), runs (`MARK GROUP`) and has ended (`MARK
/// -`), and is closed with this process, however that ends. A command that had no time to get its line is found by the
/// mark in its environment, where the system shows that.
const SCRIPT: &str = r#"trap '' HUP INT TERM
known=' '
while read -r mark group; do
  case $known in
    *" $mark:"*) after=${known#* $mark:}; known="${known%% $mark:*} ${after#* }" ;;
  esac
  [ "$group" = - ] || known="$known$mark:$group "
done
for command in $known; do
  groups=${command#*:}
  if [ "$groups" = new ]; then
    groups=$(grep -ls "CTL_COMMAND=${command%:*};" /proc/[0-9]*/environ)
  fi
  for group in $groups; do
    group=${group#/proc/}
    kill -s KILL -- "-${group%/environ}"
  done
done"#;

/// The process, which ends with this.
#[derive(Debug)]
pub(crate) struct Guard {
    commands: Mutex<ChildStdin>,
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
                Arc::new(Self { commands: Mutex::new(stdin), _shell: Family::of(shell, true) })
            })),
            Err(error) if error.is_shortage() => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn tell(&self, mark: &str, state: &str) {
        let mut commands = lock(&self.commands);
        // Without it, the commands run as they would without a guard.
        let _ = commands.write_all(format!("{mark} {state}\n").as_bytes());
    }
}

/// A command that the guard knows, until this is dropped.
#[derive(Debug)]
pub(crate) struct Guarded {
    guard: Arc<Guard>,
    mark: String,
}

impl Guarded {
    /// One that is about to start.
    pub(crate) fn new(guard: &Arc<Guard>, command: &mut Command) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mark = format!("{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        command.env("CTL_COMMAND", format!("{mark};"));
        guard.tell(&mark, "new");
        Self { guard: Arc::clone(guard), mark }
    }

    /// It runs in this process group.
    pub(crate) fn runs_in(&self, group: u32) {
        self.guard.tell(&self.mark, &group.to_string());
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.guard.tell(&self.mark, "-");
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    /// A command in its own group, whose output ends with it.
    fn sleeper(guard: &Arc<Guard>) -> (Guarded, u32, Family, impl std::io::BufRead + use<>) {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo; wait"]).stdout(Stdio::piped());
        process::group(&mut command);
        let guarded = Guarded::new(guard, &mut command);
        let mut child = process::spawn(&mut command).unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        (guarded, child.id(), Family::of(child, true), out)
    }

    #[test]
    fn kills_only_leftover_commands() {
        let guard = Guard::start().unwrap().unwrap();
        let [first, running, new, last] = [(); 4].map(|()| sleeper(&guard));
        for (guarded, group, ..) in [&first, &running, &last] {
            guarded.runs_in(*group);
        }
        let others = [first, last].map(|(guarded, _, family, _)| {
            drop(guarded);
            family
        });
        let mut left = vec![running];
        if cfg!(target_os = "linux") {
            left.push(new);
        }
        // Closes its pipe, as the end of this process does.
        let mut other =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        *guard.commands.lock().unwrap() = other.stdin.take().unwrap();
        for (_, _, mut family, mut out) in left {
            assert_eq!(out.read_line(&mut String::new()).unwrap(), 0);
            assert_eq!(process::signal(family.reap().unwrap()), Some(9));
        }
        for mut family in others {
            assert!(!family.has_ended());
        }
        drop(guard);
        other.wait().unwrap();
    }
}
