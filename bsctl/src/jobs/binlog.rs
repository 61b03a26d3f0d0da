//! The log that beanstalkd keeps with `-b`, read without the server: versions 5 and 7, as a 64-bit little-endian
//! machine writes them. Nothing is locked or changed.
//!
//! A file begins with its version. Each record has the length of the tube's name, the name, a struct with the job's
//! numbers, and the body. Without a name and a body, it is a change of a job of an earlier record. Zeros end a file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::Items;
use ctl_core::text::units;

use super::Described;
use crate::names;

/// Maximum length of a tube's name, in bytes.
const LONGEST_NAME: u64 = 200;
/// The end of every body.
const END: &[u8] = b"\r\n";

/// How a version writes its records.
struct Layout {
    /// Size of the length of a name, in bytes.
    length: usize,
    /// Size of the struct, in bytes.
    numbers: usize,
    /// A second in its unit of time.
    second: u64,
}

impl Layout {
    fn of(version: u64) -> Option<Self> {
        match version {
            5 => Some(Self { length: 8, numbers: 77, second: 1_000_000 }),
            7 => Some(Self { length: 4, numbers: 80, second: 1_000_000_000 }),
            _ => None,
        }
    }
}

/// The jobs of a log that have not been deleted.
#[derive(Default)]
pub struct Binlog {
    jobs: BTreeMap<u64, Logged>,
    /// The number of records so far.
    records: u64,
    damaged: Vec<(String, CliError)>,
}

/// A job, and where its body is.
struct Logged {
    /// Without its body.
    job: Described,
    /// The number of its last record, by which buried jobs are in order.
    last: u64,
    body: Place,
}

/// Where a body is.
struct Place {
    path: Arc<Path>,
    at: u64,
    size: u64,
}

impl Binlog {
    /// Reads all files `binlog.N` of a folder, in their order.
    ///
    /// # Errors
    /// The folder cannot be read, or has no such file: exit 66.
    pub fn read(folder: &Path) -> Result<Self, CliError> {
        let shown = folder.display();
        let listed = fs::read_dir(folder).map_err(|error| {
            CliError::new(Exit::NoInput, "NO_INPUT", format!("{shown}: {error}"))
        })?;
        let mut files: Vec<(u64, PathBuf)> = listed.flatten().filter_map(numbered).collect();
        if files.is_empty() {
            let why = format!("{shown} has no file binlog.N");
            return Err(CliError::new(Exit::NoInput, "NO_INPUT", why)
                .hint("the folder that beanstalkd was started with: -b DIR"));
        }
        files.sort_unstable();
        let mut log = Self::default();
        for (_, path) in files {
            if let Err((at, why)) = log.file(&Arc::from(path.as_path())) {
                let why =
                    format!("damaged at byte {at}: {why}; what follows in this file is not read");
                let error = CliError::new(Exit::BadData, "BINLOG_DAMAGED", why);
                log.damaged.push((path.display().to_string(), error));
            }
        }
        Ok(log)
    }

    /// The damage, and the jobs: by their ids, buried ones in the order in which they were buried.
    pub fn jobs(self) -> Items<(String, Described)> {
        let mut jobs: Vec<_> = self.jobs.into_iter().collect();
        jobs.sort_by_key(|(id, Logged { job, last, .. })| match job.state.as_deref() {
            Some("buried") => (1, *last),
            _ => (0, *id),
        });
        let read = |(id, job): (u64, Logged)| {
            let label = format!("job {id} of {}", job.body.path.display());
            match job.described() {
                Ok(job) => Ok((label, job)),
                Err(error) => Err((label, error)),
            }
        };
        Box::new(self.damaged.into_iter().map(Err).chain(jobs.into_iter().map(read)))
    }

    /// Reads a file up to its end, or to its first damage, which is named with its place.
    fn file(&mut self, path: &Arc<Path>) -> Result<(), (u64, String)> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (len, file) = opened.map_err(|error| (0, error.to_string()))?;
        let mut bytes = Bytes { file: BufReader::new(file), at: 0, len };
        let version = number(&bytes.take(4).map_err(|why| (0, why))?);
        let Some(layout) = Layout::of(version) else {
            return Err((0, format!("version {version} is unknown (5 and 7 are known)")));
        };
        loop {
            let start = bytes.at;
            match self.record(&layout, path, &mut bytes) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(why) => {
                    return if bytes.is_zero_from(start) { Ok(()) } else { Err((start, why)) };
                }
            }
        }
    }

    /// Reads a record; `false` if there is none.
    fn record(
        &mut self,
        layout: &Layout,
        path: &Arc<Path>,
        bytes: &mut Bytes,
    ) -> Result<bool, String> {
        if bytes.left() == 0 {
            return Ok(false);
        }
        let length = number(&bytes.take(layout.length)?);
        if length > LONGEST_NAME {
            return Err(format!("a name of {length} bytes (at most {LONGEST_NAME})"));
        }
        let name = bytes.take(usize::try_from(length).unwrap_or_default())?;
        let numbers = bytes.take(layout.numbers)?;
        let field = |at: usize, size: usize| number(numbers.get(at..at + size).unwrap_or_default());
        let id = field(0, 8);
        if id == 0 {
            return Err("a record without a job".to_owned());
        }
        let word = field(76, 1);
        let state = match word {
            // It was deleted.
            0 => None,
            // A reserved job is ready again when the server starts.
            1 | 2 => Some("ready"),
            3 => Some("buried"),
            4 => Some("delayed"),
            _ => return Err(format!("job {id} has the unknown state {word}")),
        };
        self.records += 1;
        let body = (length > 0 && state.is_some()).then(|| field(32, 4));
        let place = body.map(|size| Place { path: Arc::clone(path), at: bytes.at, size });
        let is_whole = body.map_or(Ok(false), |size| bytes.body(size));
        let is_whole = is_whole.map_err(|why| format!("the body of job {id}: {why}"))?;
        let Some(state) = state else {
            self.jobs.remove(&id);
            return Ok(true);
        };
        let seconds = |at| u32::try_from(field(at, 8) / layout.second).unwrap_or(u32::MAX);
        let mut job = Described {
            tube: None,
            state: Some(state.to_owned()),
            pri: Some(u32::try_from(field(8, 4)).unwrap_or(u32::MAX)),
            delay: Some(seconds(16)),
            ttr: Some(seconds(24)),
            body: Vec::new(),
        };
        let last = self.records;
        // A server that is killed while it moves a job to a new file leaves a body of zeros there, and the whole one
        // behind. It would take the zeros itself.
        if let Some(body) = place.filter(|_| is_whole || !self.jobs.contains_key(&id)) {
            let tube = std::str::from_utf8(&name).map_err(|error| error.to_string())?;
            job.tube = Some(names::tube(tube).map_err(|error| error.message)?);
            self.jobs.insert(id, Logged { job, last, body });
        // The first record of a job may be in a file that is gone, because the job is gone.
        } else if let Some(known) = self.jobs.get_mut(&id) {
            job.tube = known.job.tube.take();
            (known.job, known.last) = (job, last);
        }
        Ok(true)
    }
}

impl Logged {
    /// With its body.
    fn described(self) -> Result<Described, CliError> {
        let Self { job, body, .. } = self;
        let unreadable = |error| CliError::reading("the log", &error);
        let mut file = File::open(&body.path).map_err(unreadable)?;
        file.seek(SeekFrom::Start(body.at)).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(body.size).read_to_end(&mut bytes).map_err(unreadable)?;
        let Some(body) = bytes.strip_suffix(END) else {
            let why = "its body was not written whole before the server stopped";
            return Err(CliError::new(Exit::BadData, "BINLOG_DAMAGED", why));
        };
        Ok(Described { body: body.to_vec(), ..job })
    }
}

/// The bytes of a file, of which never more are taken than there are.
struct Bytes {
    file: BufReader<File>,
    at: u64,
    len: u64,
}

impl Bytes {
    fn left(&self) -> u64 {
        self.len.saturating_sub(self.at)
    }

    fn check(&self, count: u64) -> Result<(), String> {
        let left = self.left();
        match count > left {
            true => Err(format!("{} missing", units::count(count - left, "byte"))),
            false => Ok(()),
        }
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>, String> {
        self.check(count as u64)?;
        let mut bytes = vec![0; count];
        self.file.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        self.at += count as u64;
        Ok(bytes)
    }

    /// Passes over a body; whether it was written to its end.
    fn body(&mut self, size: u64) -> Result<bool, String> {
        self.check(size)?;
        let before_end = size.saturating_sub(END.len() as u64);
        let by = i64::try_from(before_end).map_err(|error| error.to_string())?;
        self.file.seek_relative(by).map_err(|error| error.to_string())?;
        self.at += before_end;
        let end = usize::try_from(size - before_end).unwrap_or_default();
        Ok(self.take(end)? == END)
    }

    /// Whether nothing was written from here on: the server fills a new file with zeros.
    fn is_zero_from(&mut self, at: u64) -> bool {
        let there = self.file.seek(SeekFrom::Start(at)).is_ok();
        there && self.file.by_ref().bytes().all(|byte| byte.is_ok_and(|byte| byte == 0))
    }
}

/// A number, the lowest byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn numbered(entry: fs::DirEntry) -> Option<(u64, PathBuf)> {
    let name = entry.file_name();
    let number = name.to_str()?.strip_prefix("binlog.")?.parse().ok()?;
    let path = entry.path();
    fs::metadata(&path).ok()?.is_file().then_some((number, path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record as the server writes it: without a name, it is a change.
    fn record(version: u64, name: &str, (id, state, pri): (u64, u8, u32), body: &[u8]) -> Vec<u8> {
        let layout = Layout::of(version).unwrap();
        let mut bytes = name.len().to_le_bytes()[..layout.length].to_vec();
        bytes.extend(name.as_bytes());
        let mut numbers = vec![0; layout.numbers];
        let mut set =
            |at: usize, value: &[u8]| numbers[at..at + value.len()].copy_from_slice(value);
        set(0, &id.to_le_bytes());
        set(8, &pri.to_le_bytes());
        set(16, &(5 * layout.second).to_le_bytes());
        set(24, &(60 * layout.second).to_le_bytes());
        set(32, &u32::try_from(body.len()).unwrap().to_le_bytes());
        set(76, &[state]);
        [bytes, numbers, body.to_vec()].concat()
    }

    fn log(version: u64) -> Vec<u8> {
        let (ready, reserved, buried, delayed) = (1, 2, 3, 4);
        let parts = [
            u32::try_from(version).unwrap().to_le_bytes().to_vec(),
            record(version, "mail", (1, ready, 0), b"one\r\n"),
            record(version, "mail", (2, ready, 7), b"\0\xff\r\n\r\n"),
            record(version, "sms", (3, delayed, 0), b"\r\n"),
            record(version, "sms", (4, ready, 0), b"gone\r\n"),
            record(version, "", (9, ready, 0), b""),
            record(version, "", (2, buried, 8), b""),
            record(version, "", (1, buried, 0), b""),
            record(version, "", (4, 0, 0), b""),
            record(version, "mail", (5, reserved, 0), b"five\r\n"),
        ];
        parts.concat()
    }

    /// Each job as `id state pri body`, and what is damaged.
    fn read(files: &[(&str, &[u8])]) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let (mut jobs, mut damaged) = (Vec::new(), Vec::new());
        for job in Binlog::read(folder.path()).unwrap().jobs() {
            match job {
                Ok((label, job)) => {
                    let id = label.split(' ').nth(1).unwrap();
                    let (state, pri) = (job.state.unwrap(), job.pri.unwrap());
                    assert_eq!((job.delay, job.ttr), (Some(5), Some(60)));
                    jobs.push(format!("{id} {state} {pri} {}", job.body.escape_ascii()));
                }
                Err((_, error)) => damaged.push(error.message),
            }
        }
        (jobs, damaged)
    }

    const JOBS: [&str; 4] =
        ["3 delayed 0 ", "5 ready 0 five", r"2 buried 8 \x00\xff\r\n", "1 buried 0 one"];

    #[test]
    fn reads_both_versions_with_trailing_zeros() {
        for version in [5, 7] {
            for zeros in [0, 1, 3, 50, 500] {
                let bytes = [log(version), vec![0; zeros]].concat();
                assert_eq!(
                    read(&[("binlog.1", &bytes), ("lock", b"")]),
                    (JOBS.map(Into::into).to_vec(), vec![])
                );
            }
        }
    }

    #[test]
    fn reads_files_in_numeric_order() {
        let change = [7u32.to_le_bytes().to_vec(), record(7, "", (1, 0, 0), b"")].concat();
        let first = [7u32.to_le_bytes().to_vec(), record(7, "t", (1, 1, 0), b"x\r\n")].concat();
        assert!(read(&[("binlog.10", &change), ("binlog.9", &first)]).0.is_empty());
        assert_eq!(read(&[("binlog.9", &change), ("binlog.10", &first)]).0.len(), 1);
    }

    #[test]
    fn reads_a_truncated_log_up_to_the_cut() {
        let whole = log(7);
        let mut most = 0;
        for cut in 4..whole.len() {
            let (jobs, damaged) = read(&[("binlog.1", &whole[..cut])]);
            assert!(jobs.len() <= 4 && damaged.len() <= 1, "{cut}: {jobs:?} {damaged:?}");
            most = most.max(jobs.len());
        }
        assert_eq!(most, 4);
        let (jobs, damaged) = read(&[("binlog.1", &whole[..whole.len() - 3])]);
        assert_eq!(jobs.len(), 3);
        assert!(damaged[0].contains("the body of job 5: 3 bytes missing"), "{damaged:?}");
    }

    #[test]
    fn names_damage_by_offset_and_reads_other_files() {
        let first = record(7, "t", (1, 1, 0), b"x\r\n");
        for (bad, why) in [
            (record(7, &"n".repeat(201), (2, 1, 0), b"y\r\n"), "a name of 201 bytes"),
            (record(7, "t", (2, 6, 0), b"y\r\n"), "job 2 has the unknown state 6"),
            (record(7, "a b", (2, 1, 0), b"y\r\n"), "tube name is not valid"),
            // A block that was not written before the machine went down.
            ([vec![0; 90], first.clone()].concat(), "a record without a job"),
        ] {
            let bytes = [&7u32.to_le_bytes()[..], &first, &bad].concat();
            let (jobs, damaged) = read(&[("binlog.1", &bytes), ("binlog.2", &log(5))]);
            assert_eq!(jobs.len(), 4, "job 1 is that of the second file");
            let place = format!("damaged at byte {}", 4 + first.len());
            assert!(damaged[0].contains(&place) && damaged[0].contains(why), "{damaged:?}");
        }
        let (_, damaged) = read(&[("binlog.1", &8u32.to_le_bytes())]);
        assert!(damaged[0].contains("version 8 is unknown"), "{damaged:?}");
        let unfinished = [&7u32.to_le_bytes()[..], &record(7, "t", (1, 1, 0), b"xyz")].concat();
        let (jobs, damaged) = read(&[("binlog.1", &unfinished)]);
        assert!(jobs.is_empty() && damaged[0].contains("not written whole"), "{damaged:?}");
    }

    #[test]
    fn a_half_moved_job_keeps_its_earlier_body() {
        let moved = record(7, "mail", (2, 1, 9), &[0; 6]);
        let second = [&7u32.to_le_bytes()[..], &moved, &[0; 500]].concat();
        let (jobs, damaged) = read(&[("binlog.1", &log(7)), ("binlog.2", &second)]);
        assert!(jobs.contains(&r"2 ready 9 \x00\xff\r\n".to_owned()), "{jobs:?}");
        assert_eq!((jobs.len(), damaged.len()), (4, 0), "{damaged:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail(noise: Vec<u8>, at in 0usize..400, version in 4u32..9) {
            let mut bytes = log(7);
            for (place, byte) in bytes.iter_mut().skip(at).zip(&noise) {
                *place ^= byte;
            }
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("binlog.1"), &bytes).unwrap();
            fs::write(folder.path().join("binlog.2"), [&version.to_le_bytes()[..], &noise].concat()).unwrap();
            let read = Binlog::read(folder.path()).unwrap().jobs();
            prop_assert!(read.count() <= 200);
        }
    }
}
