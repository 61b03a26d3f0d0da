//! Jobs that end the processes of their workers.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Failure, UniqueId, protocol::Assignment, trace};

/// Remembers, in a directory, which jobs were running when their worker's process died, so that a job that kills every
/// process that runs it is run a limited number of times instead of forever.
///
/// gearmand gives a job whose worker is lost to the next one, without limit unless it is started with `--job-retries`,
/// and does not report how often that was. Start it with `--job-retries`, which counts across all machines (0 means no
/// limit up to server 2.0, and no second attempt from 2.1). With a ledger ([`WorkerOptions::crash_ledger`]), a job that
/// has killed too many processes is failed without being run, with an exception that says why. Any number of processes
/// on a machine may share a directory.
///
/// Jobs are identified by function and unique id; one without an id, or with `-`, or grabbed [without
/// it](crate::Grab::Plain), is not remembered. A process killed for another reason counts as well, so allow more than
/// one crash. Files that cannot be read or written are ignored: the job is run. The file of a job that never came back
/// stays; it may be deleted.
///
/// Each job costs writing and deleting a small file. With the feature `tracing` a job that has ended processes, and one
/// that is refused for it, are warned of.
///
/// ```no_run
/// use gearman_client::{CrashLedger, WorkerOptions};
///
/// let options: WorkerOptions = "127.0.0.1:4730".parse()?;
/// let options = options.crash_ledger(CrashLedger::open("/var/lib/resizer/crashes", 3)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`WorkerOptions::crash_ledger`]: crate::WorkerOptions::crash_ledger
#[derive(Clone, Debug)]
pub struct CrashLedger {
    folder: PathBuf,
    limit: u32,
}

/// A ledger's verdict on a job that is about to run.
#[derive(Debug)]
#[must_use = "the job counts as running until this is dropped"]
#[non_exhaustive]
pub enum Verdict {
    /// Run it. Should the process end before this is dropped, that is one crash more.
    Run(Running),
    /// It has killed too many processes to be run again. The ledger has forgotten it now.
    Poison(u32),
}

/// A job that runs.
#[derive(Debug)]
pub struct Running {
    /// `None` for a job that cannot be told apart from others.
    entry: Option<PathBuf>,
    /// How many processes it has ended.
    crashes: u32,
}

impl Running {
    /// How often the job is run, this time included.
    pub(crate) fn attempt(&self) -> u32 {
        self.crashes.saturating_add(1)
    }
}

impl CrashLedger {
    /// A ledger in this folder, which is made if it is missing: a job that has ended `limit` processes is poison.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made.
    pub fn open(folder: impl Into<PathBuf>, limit: u32) -> io::Result<Self> {
        let folder = folder.into();
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&folder)?;
        Ok(CrashLedger { folder, limit: limit.max(1) })
    }

    /// Says whether to run a job, and remembers that it runs.
    ///
    /// # Errors
    ///
    /// When the folder cannot be written to.
    pub fn begin(&self, job: &Assignment) -> io::Result<Verdict> {
        let Some(entry) = self.entry(job) else {
            return Ok(Verdict::Run(Running { entry: None, crashes: 0 }));
        };
        let crashes = crashes(&entry)?;
        if crashes >= self.limit {
            fs::remove_file(&entry)?;
            trace::crashed(job, crashes, false);
            return Ok(Verdict::Poison(crashes));
        }
        if crashes > 0 {
            trace::crashed(job, crashes, true);
        }
        fs::write(&entry, (crashes + 1).to_string())?;
        Ok(Verdict::Run(Running { entry: Some(entry), crashes }))
    }

    /// The same for a worker's handler: a job that is poison has failed.
    pub(crate) fn admit(&self, job: &Assignment) -> Result<Option<Running>, Failure> {
        match self.begin(job) {
            Ok(Verdict::Run(running)) => Ok(Some(running)),
            Ok(Verdict::Poison(crashes)) => Err(Failure::exception(format!(
                "not run: this job was running when {crashes} processes of its workers ended"
            ))),
            // A job is not refused for a full disk.
            Err(_) => Ok(None),
        }
    }

    fn entry(&self, job: &Assignment) -> Option<PathBuf> {
        if job.unique.is_empty() || *job.unique == *b"-" {
            return None;
        }
        let key = [job.function.as_bytes(), b"\0", &job.unique].concat();
        Some(self.folder.join(UniqueId::of_payload(key).to_string()))
    }
}

/// How many processes have ended. An entry that was cut off was being written by one of them.
fn crashes(entry: &Path) -> io::Result<u32> {
    match fs::read_to_string(entry) {
        Ok(text) => Ok(text.parse().unwrap_or(1)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            // Another worker that had the same job may have ended it first.
            let _ = fs::remove_file(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::forget;

    use bytes::Bytes;

    use super::*;

    fn job(function: &str, unique: &str) -> Assignment {
        let handle = crate::JobHandle::try_from("H:x:1").unwrap();
        let function = function.try_into().unwrap();
        let unique = Bytes::copy_from_slice(unique.as_bytes());
        Assignment { handle, function, unique, reducer: None, workload: Bytes::new() }
    }

    fn runs(ledger: &CrashLedger, job: &Assignment) -> Option<Running> {
        match ledger.begin(job).unwrap() {
            Verdict::Run(running) => Some(running),
            Verdict::Poison(_) => None,
        }
    }

    #[test]
    fn a_job_that_has_ended_as_many_processes_is_poison_once() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = CrashLedger::open(folder.path().join("made/here"), 2).unwrap();
        let (bad, good) = (job("f", "bad"), job("f", "good"));
        for _ in 0..2 {
            // As a process that ends here.
            forget(runs(&ledger, &bad).unwrap());
            drop(runs(&ledger, &good).unwrap());
        }
        // Another process, and another function's job with that id.
        let ledger = CrashLedger::open(folder.path().join("made/here"), 2).unwrap();
        assert!(runs(&ledger, &job("g", "bad")).is_some());
        assert!(matches!(ledger.begin(&bad).unwrap(), Verdict::Poison(2)));
        assert!(runs(&ledger, &bad).is_some(), "it was submitted anew");
        assert!(runs(&ledger, &good).is_some());
        assert_eq!(fs::read_dir(folder.path().join("made/here")).unwrap().count(), 0);
    }

    #[test]
    fn jobs_without_an_id_are_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = CrashLedger::open(folder.path(), 1).unwrap();
        for unique in ["", "-"] {
            for _ in 0..3 {
                forget(runs(&ledger, &job("f", unique)).unwrap());
            }
        }
    }

    #[test]
    fn an_entry_that_was_cut_off_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = CrashLedger::open(folder.path(), 2).unwrap();
        forget(runs(&ledger, &job("f", "u")).unwrap());
        let entry = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        fs::write(&entry, "").unwrap();
        forget(runs(&ledger, &job("f", "u")).unwrap());
        assert!(runs(&ledger, &job("f", "u")).is_none());
    }
}
