//! Where results go, and when they count as delivered: to a file once they are synced to disk, to a pipe once its
//! reader has read them.

use std::fs::File;
use std::io;
use std::process::ChildStdin;
use std::time::Duration;

/// The destination of an [`Output`](super::Output).
#[derive(Debug)]
pub struct Destination {
    name: String,
    kind: Kind,
    /// A second handle for queries and syncing; `None` for memory.
    handle: Option<File>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A regular file.
    Disk,
    /// A pipe whose unread bytes the system reports.
    Pipe,
    /// A terminal, socket, device or memory: what is written counts as read.
    Unseen,
}

/// The delivery state of written bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// All are delivered.
    Arrived,
    /// The reader exists, but has not read all of them.
    Unread,
    /// The reader went away before it had read all of them.
    Deserted,
}

impl Destination {
    /// The process's stdout.
    #[must_use]
    pub fn stdout() -> Self {
        Self::of("stdout".to_owned(), system::stdout())
    }

    /// A file, with its name for messages.
    #[must_use]
    pub fn file(name: impl Into<String>, file: &File) -> Self {
        Self::of(name.into(), file.try_clone().ok())
    }

    /// The stdin of a child, with its name for messages.
    #[must_use]
    pub fn pipe(name: impl Into<String>, stdin: &ChildStdin) -> Self {
        Self::of(name.into(), system::handle(stdin))
    }

    /// Memory in place of stdout.
    #[must_use]
    pub fn memory() -> Self {
        Self::of("stdout".to_owned(), None)
    }

    /// A file of any kind.
    #[cfg(unix)]
    #[cfg(test)]
    pub(super) fn disk(name: &str, file: &File) -> Self {
        Self { name: name.to_owned(), kind: Kind::Disk, handle: file.try_clone().ok() }
    }

    fn of(name: String, handle: Option<File>) -> Self {
        let kind = match handle.as_ref().and_then(|file| file.metadata().ok()) {
            Some(metadata) if metadata.is_file() => Kind::Disk,
            Some(metadata) if system::tells_what_is_unread(&metadata) => Kind::Pipe,
            _ => Kind::Unseen,
        };
        Self { name, kind, handle }
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a regular file, which needs no reader.
    pub(super) fn is_disk(&self) -> bool {
        self.kind == Kind::Disk
    }

    /// Whether it can be observed that a reader has read.
    pub(super) fn shows_reading(&self) -> bool {
        self.kind == Kind::Pipe
    }

    /// The delivery state of everything written. Syncs a file to disk.
    pub(super) fn arrival(&self) -> io::Result<Arrival> {
        let Some(handle) = &self.handle else { return Ok(Arrival::Arrived) };
        match self.kind {
            Kind::Disk => handle.sync_data().map(|()| Arrival::Arrived),
            Kind::Pipe => arrival_in_pipe(handle),
            Kind::Unseen if system::has_reader(handle, Duration::ZERO)? => Ok(Arrival::Arrived),
            Kind::Unseen => Ok(Arrival::Deserted),
        }
    }

    /// Sleeps for `time`, or less if the reader goes away.
    pub(super) fn rest(&self, time: Duration) {
        match &self.handle {
            Some(handle) if self.kind == Kind::Pipe => {
                // The next check reports the failure.
                let _ = system::has_reader(handle, time);
            }
            _ => std::thread::sleep(time),
        }
    }
}

fn arrival_in_pipe(pipe: &File) -> io::Result<Arrival> {
    if system::unread(pipe)? == 0 {
        return Ok(Arrival::Arrived);
    }
    if system::has_reader(pipe, Duration::ZERO)? {
        return Ok(Arrival::Unread);
    }
    // It may have read the rest just before it went away.
    Ok(if system::unread(pipe)? == 0 { Arrival::Arrived } else { Arrival::Deserted })
}

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata};
    use std::io;
    use std::os::fd::AsFd;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;

    pub(super) fn stdout() -> Option<File> {
        handle(&io::stdout())
    }

    pub(super) fn handle(of: &impl AsFd) -> Option<File> {
        of.as_fd().try_clone_to_owned().ok().map(File::from)
    }

    /// Only Linux supports FIONREAD at the writing end of a pipe.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn tells_what_is_unread(metadata: &Metadata) -> bool {
        use std::os::unix::fs::FileTypeExt as _;
        metadata.file_type().is_fifo()
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn tells_what_is_unread(_: &Metadata) -> bool {
        false
    }

    pub(super) fn unread(pipe: &File) -> io::Result<u64> {
        Ok(rustix::io::ioctl_fionread(pipe)?)
    }

    /// Whether a reader still exists; waits up to `time` for a change.
    pub(super) fn has_reader(file: &File, time: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(file, PollFlags::empty())];
        let time = Timespec::try_from(time).unwrap_or_default();
        match poll(&mut fds, Some(&time)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::ERR | PollFlags::HUP;
        Ok(!fds.iter().any(|fd| fd.revents().intersects(gone)))
    }
}

#[cfg(windows)]
mod system {
    use std::fs::{File, Metadata};
    use std::io;
    use std::time::Duration;

    pub(super) fn stdout() -> Option<File> {
        handle(&io::stdout())
    }

    pub(super) fn handle(of: &impl std::os::windows::io::AsHandle) -> Option<File> {
        of.as_handle().try_clone_to_owned().ok().map(File::from)
    }

    pub(super) fn tells_what_is_unread(_: &Metadata) -> bool {
        false
    }

    pub(super) fn unread(_: &File) -> io::Result<u64> {
        Ok(0)
    }

    pub(super) fn has_reader(_: &File, time: Duration) -> io::Result<bool> {
        std::thread::sleep(time);
        Ok(true)
    }
}
