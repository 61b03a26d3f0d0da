//! This side of a command's pipes. Descendants may keep the other side open for ever, so they are served only until
//! the command is over.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use super::Piece;

pub(super) use system::{Pipe, identity};

/// A pipe whose service ends with its command, if not before.
pub(super) struct Watched<P> {
    pipe: P,
    over: Arc<AtomicBool>,
}

impl<P: Pipe> Watched<P> {
    pub(super) fn new(pipe: P, over: Arc<AtomicBool>) -> Self {
        system::never_wait(&pipe);
        Self { pipe, over }
    }

    /// Repeats an operation that would have to wait. An error is the end of the pipe, or of the command.
    fn wait_out<T>(
        &mut self,
        is_input: bool,
        mut operation: impl FnMut(&mut P) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match operation(&mut self.pipe) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.over.load(Ordering::SeqCst) {
                        return Err(error);
                    }
                    system::wait(&self.pipe, is_input);
                }
                done => return done,
            }
        }
    }
}

/// Writes all of the input; a command need not read it.
pub(super) fn feed<P: Pipe + Write>(mut stdin: Watched<P>, mut input: &[u8]) {
    while !input.is_empty() {
        match stdin.wait_out(false, |pipe| pipe.write(input)) {
            Ok(written @ 1..) => input = input.get(written..).unwrap_or_default(),
            Ok(0) | Err(_) => return,
        }
    }
}

/// Passes on all of the output.
pub(super) fn pump<P: Pipe + Read>(
    mut from: Watched<P>,
    to: &SyncSender<Piece>,
    piece: fn(Vec<u8>) -> Piece,
) {
    let mut buffer = vec![0; 32 << 10];
    while let Ok(read @ 1..) = from.wait_out(true, |pipe| pipe.read(&mut buffer)) {
        let bytes = buffer.get(..read).unwrap_or_default().to_vec();
        if to.send(piece(bytes)).is_err() {
            return;
        }
    }
}

#[cfg(unix)]
mod system {
    use std::os::fd::AsFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    /// How often to check whether the command is over.
    const SLICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

    pub(in super::super) trait Pipe: AsFd + Send + 'static {}
    impl<P: AsFd + Send + 'static> Pipe for P {}

    /// The number that both sides of a pipe share.
    pub(in super::super) fn identity(pipe: &impl Pipe) -> Option<u64> {
        rustix::fs::fstat(pipe).ok().map(|stat| stat.st_ino)
    }

    /// From now on, an operation that would have to wait fails. The other side is not concerned.
    pub(super) fn never_wait(pipe: &impl Pipe) {
        // A pipe that cannot do that waits, as without this.
        let _ = rustix::io::ioctl_fionbio(pipe, true);
    }

    /// Waits until the next operation may succeed, but not for long.
    pub(super) fn wait(pipe: &impl Pipe, is_input: bool) {
        let event = if is_input { PollFlags::IN } else { PollFlags::OUT };
        // The next operation says what is wrong.
        let _ = poll(&mut [PollFd::new(pipe, event)], Some(&SLICE));
    }
}

#[cfg(not(unix))]
mod system {
    pub(in super::super) trait Pipe: Send + 'static {}
    impl<P: Send + 'static> Pipe for P {}

    pub(in super::super) fn identity(_: &impl Pipe) -> Option<u64> {
        None
    }

    /// Operations wait here for as long as it takes.
    pub(super) fn never_wait(_: &impl Pipe) {}

    pub(super) fn wait(_: &impl Pipe, _: bool) {}
}
