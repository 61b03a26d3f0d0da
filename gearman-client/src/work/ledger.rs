//! A record of jobs that kill the processes of their workers.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Failure, UniqueId, protocol::Assignment, trace};

/// Records, in a directory, which jobs were running when their worker's process died, so that a job that kills every
/// process that runs it is run a limited number of times instead of forever.
///
/// When a worker is lost, gearmand gives its job to the next one, without limit unless it is started with
/// `--job-retries`, and does not report how often that happened. Start it with `--job-retries`, which counts across all
/// machines (0 means no limit up to server 2.0, and no second attempt from 2.1). With a ledger
/// ([`WorkerOptions::crash_ledger`]), a job that has killed too many processes fails without being run, with an
/// exception that gives the reason. Any number of processes on a machine may share a directory.
///
/// Jobs are identified by function and unique id; one without an id, or with `-`, or grabbed [without
/// it](crate::Grab::Plain), is not recorded. A process killed for another reason also counts, so allow more than one
/// crash. If files cannot be read or written, the job is run. The file of a job that never came back stays; it may be
/// deleted.
///
/// Each job costs writing and deleting a small file. With the feature `tracing`, a warning is logged for a job that has
/// killed processes, and for one that is refused because of it.
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
pub enum CrashVerdict {
    /// Run it. If the process ends before this is dropped, that counts as one more crash.
    Run(RunningJob),
    /// It has killed too many processes to be run again. The ledger has now forgotten it.
    Poison(u32),
}

/// A running job.
#[derive(Debug)]
pub struct RunningJob {
    /// `None` for a job that cannot be identified.
    entry: Option<PathBuf>,
    /// How many processes it has killed.
    crashes: u32,
}

impl RunningJob {
    /// How often the job was run, including this time.
    pub(crate) fn attempt(&self) -> u32 {
        self.crashes.saturating_add(1)
    }
}

impl CrashLedger {
    /// Opens a ledger in this folder, which is created if missing. A job that has killed `limit` processes is poison.
    ///
    /// # Errors
    ///
    /// When the folder cannot be created.
    pub fn open(folder: impl Into<PathBuf>, limit: u32) -> io::Result<Self> {
        let folder = folder.into();
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&folder)?;
        Ok(CrashLedger { folder, limit: limit.max(1) })
    }

    /// Decides whether to run a job, and records that it runs.
    ///
    /// # Errors
    ///
    /// When the folder cannot be written to.
    pub fn begin(&self, job: &Assignment) -> io::Result<CrashVerdict> {
        let Some(entry) = self.entry(job) else {
            return Ok(CrashVerdict::Run(RunningJob { entry: None, crashes: 0 }));
        };
        let crashes = crashes(&entry)?;
        if crashes >= self.limit {
            fs::remove_file(&entry)?;
            trace::crashed(&job.handle, &job.function, crashes, false);
            return Ok(CrashVerdict::Poison(crashes));
        }
        if crashes > 0 {
            trace::crashed(&job.handle, &job.function, crashes, true);
        }
        fs::write(&entry, (crashes + 1).to_string())?;
        Ok(CrashVerdict::Run(RunningJob { entry: Some(entry), crashes }))
    }

    /// The same for a worker's handler: a poison job fails.
    pub(crate) fn admit(&self, job: &Assignment) -> Result<Option<RunningJob>, Failure> {
        match self.begin(job) {
            Ok(CrashVerdict::Run(running)) => Ok(Some(running)),
            Ok(CrashVerdict::Poison(crashes)) => Err(Failure::exception(format!(
                "not run: this job was running when {crashes} processes of its workers ended"
            ))),
            // A full disk is no reason to refuse a job.
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

/// Number of processes that died. A truncated entry was being written by one of them.
fn crashes(entry: &Path) -> io::Result<u32> {
    match fs::read_to_string(entry) {
        Ok(text) => Ok(text.parse().unwrap_or(1)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            // Another worker with the same job may have removed it first.
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

    fn runs(ledger: &CrashLedger, job: &Assignment) -> Option<RunningJob> {
        match ledger.begin(job).unwrap() {
            CrashVerdict::Run(running) => Some(running),
            CrashVerdict::Poison(_) => None,
        }
    }

    #[test]
    fn a_job_that_has_ended_as_many_processes_is_poison_once() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = CrashLedger::open(folder.path().join("made/here"), 2).unwrap();
        let (bad, good) = (job("f", "bad"), job("f", "good"));
        for _ in 0..2 {
            // Simulates a process that dies here.
            forget(runs(&ledger, &bad).unwrap());
            drop(runs(&ledger, &good).unwrap());
        }
        // Another process, and a job of another function with that id.
        let ledger = CrashLedger::open(folder.path().join("made/here"), 2).unwrap();
        assert!(runs(&ledger, &job("g", "bad")).is_some());
        assert!(matches!(ledger.begin(&bad).unwrap(), CrashVerdict::Poison(2)));
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
