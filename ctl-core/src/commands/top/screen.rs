//! The terminal while a picture has it: raw, on its second screen, and given back whatever happens.

use std::io::{self, IsTerminal, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use crossterm::style::Print;
use crossterm::terminal::{
    self, Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen,
    LeaveAlternateScreen,
};
use crossterm::{cursor, execute, queue};

use crate::error::CliError;
use crate::output::messages::Messages;

/// Whether a picture has the terminal now.
static HAS: AtomicBool = AtomicBool::new(false);
/// A defect took the terminal from a picture.
static LOST: AtomicBool = AtomicBool::new(false);

/// The terminal, until it is dropped.
pub(super) struct Screen {
    messages: Messages,
    stops: stops::Stops,
}

/// What happened at the terminal.
pub(super) enum Happened {
    Key(KeyEvent),
    /// The screen has another size, or was used by somebody else.
    Changed,
}

/// Whether a picture can be shown, and keys be read.
pub(super) fn is_possible() -> bool {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term.is_empty() || term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

impl Screen {
    /// Takes the terminal. Messages wait until it is given back.
    ///
    /// # Errors
    /// The terminal cannot be used: exit 74.
    pub(super) fn open(messages: &Messages) -> Result<Self, CliError> {
        give_back_on_panic();
        let stops = stops::Stops::watch().map_err(unusable)?;
        messages.hold();
        // Dropped where taking the terminal fails half-way, too.
        let screen = Self { messages: messages.clone(), stops };
        take().map_err(unusable)?;
        Ok(screen)
    }

    /// The number of columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        // A terminal that does not know its size says 0.
        let known = terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0);
        let (width, height) = known.unwrap_or((80, 24));
        (width.into(), height.into())
    }

    /// Shows these lines, each of which fits.
    ///
    /// # Errors
    /// The terminal cannot be written: exit 74.
    pub(super) fn show(&self, lines: &[String]) -> Result<(), CliError> {
        let mut picture = Vec::new();
        let mut draw = || -> io::Result<()> {
            for (row, line) in lines.iter().enumerate() {
                let row = u16::try_from(row).unwrap_or(u16::MAX);
                // Cleared first: behind a full line the cursor still stands on its last character.
                let clear = Clear(ClearType::CurrentLine);
                queue!(picture, cursor::MoveTo(0, row), clear, Print(line))?;
            }
            if let Ok(row) = u16::try_from(lines.len())
                && lines.len() < self.size().1
            {
                queue!(picture, cursor::MoveTo(0, row), Clear(ClearType::FromCursorDown))?;
            }
            let mut stdout = io::stdout().lock();
            stdout.write_all(&picture)?;
            stdout.flush()
        };
        draw().map_err(unusable)
    }

    /// Makes the whole screen empty, whatever was on it.
    ///
    /// # Errors
    /// The terminal cannot be written: exit 74.
    pub(super) fn clear(&self) -> Result<(), CliError> {
        execute!(io::stdout(), Clear(ClearType::All)).map_err(unusable)
    }

    /// Waits so long for something to happen.
    ///
    /// # Errors
    /// The terminal cannot be read: exit 74. A defect elsewhere has ended the picture: exit 70.
    pub(super) fn wait(&mut self, bound: Duration) -> Result<Option<Happened>, CliError> {
        if LOST.load(Ordering::SeqCst) {
            return Err(CliError::internal(
                "polling a server failed because of a defect in the tool",
            ));
        }
        if self.stops.was_continued() {
            // Whoever had the terminal meanwhile has left it as it likes.
            let _ = terminal::disable_raw_mode();
            take().map_err(unusable)?;
            return Ok(Some(Happened::Changed));
        }
        if self.stops.is_asked() {
            self.suspend()?;
            return Ok(Some(Happened::Changed));
        }
        stops::wait_for_input(bound).map_err(unusable)?;
        match event::poll(Duration::ZERO) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(unusable(error)),
        }
        Ok(match event::read().map_err(unusable)? {
            Event::Key(key) if key.kind != KeyEventKind::Release => Some(Happened::Key(key)),
            Event::Resize(..) => Some(Happened::Changed),
            _ => None,
        })
    }

    /// Gives the terminal back, stops this process, and takes the terminal again once it goes on.
    ///
    /// # Errors
    /// The terminal cannot be used again: exit 74.
    pub(super) fn suspend(&mut self) -> Result<(), CliError> {
        give_back();
        self.stops.stop();
        take().map_err(unusable)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
        self.messages.release();
    }
}

fn take() -> io::Result<()> {
    HAS.store(true, Ordering::SeqCst);
    stops::picture(true);
    terminal::enable_raw_mode()?;
    execute!(
        io::stdout(),
        EnterAlternateScreen,
        cursor::Hide,
        DisableLineWrap,
        Clear(ClearType::All)
    )
}

/// A terminal that cannot be written any more needs nothing back.
fn give_back() {
    if HAS.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), EnableLineWrap, cursor::Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
        stops::picture(false);
    }
}

/// What a panic says has to be readable, and so has what follows.
fn give_back_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if HAS.load(Ordering::SeqCst) {
                LOST.store(true, Ordering::SeqCst);
                give_back();
            }
            usual(panic);
        }));
    });
}

fn unusable(error: io::Error) -> CliError {
    CliError::reading("the terminal", &error)
}

/// SIGTSTP and SIGCONT.
#[cfg(unix)]
mod stops {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use signal_hook::consts::{SIGCONT, SIGTSTP};
    use signal_hook::{flag, low_level};

    /// Waits so long for something to read, or for a signal. Reading from a terminal that is gone would never come back: it
    /// is at its end again and again.
    pub(super) fn wait_for_input(bound: Duration) -> io::Result<()> {
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        let bound = Timespec::try_from(bound).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&bound)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        match fds.iter().any(|fd| fd.revents().intersects(gone)) {
            true => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is gone")),
            false => Ok(()),
        }
    }

    #[derive(Default)]
    struct Flags {
        /// No picture has the terminal: SIGTSTP does what it always does.
        outside: Arc<AtomicBool>,
        asked: Arc<AtomicBool>,
        continued: Arc<AtomicBool>,
    }

    static FLAGS: OnceLock<Flags> = OnceLock::new();

    /// Whether the process was asked to stop, or has gone on.
    pub(super) struct Stops(&'static Flags);

    impl Stops {
        pub(super) fn watch() -> io::Result<Self> {
            if FLAGS.get().is_none() {
                let flags = Flags::default();
                flags.outside.store(true, Ordering::SeqCst);
                flag::register_conditional_default(SIGTSTP, Arc::clone(&flags.outside))?;
                flag::register(SIGTSTP, Arc::clone(&flags.asked))?;
                flag::register(SIGCONT, Arc::clone(&flags.continued))?;
                let _ = FLAGS.set(flags);
            }
            let flags = FLAGS.get().ok_or(io::ErrorKind::Other)?;
            flags.asked.store(false, Ordering::SeqCst);
            flags.continued.store(false, Ordering::SeqCst);
            Ok(Self(flags))
        }

        pub(super) fn is_asked(&self) -> bool {
            self.0.asked.swap(false, Ordering::SeqCst)
        }

        pub(super) fn was_continued(&self) -> bool {
            self.0.continued.swap(false, Ordering::SeqCst)
        }

        /// Stops this process until somebody lets it go on.
        pub(super) fn stop(&self) {
            // A process that cannot be stopped goes on.
            let _ = low_level::emulate_default_handler(SIGTSTP);
            self.is_asked();
            self.was_continued();
        }
    }

    /// Says whether a picture has the terminal.
    pub(super) fn picture(has: bool) {
        if let Some(flags) = FLAGS.get() {
            flags.outside.store(!has, Ordering::SeqCst);
        }
    }
}

#[cfg(not(unix))]
mod stops {
    use std::io;

    /// Waits so long for something to read.
    pub(super) fn wait_for_input(bound: std::time::Duration) -> io::Result<()> {
        crossterm::event::poll(bound).map(drop)
    }

    /// Nothing stops a process here.
    pub(super) struct Stops;

    impl Stops {
        pub(super) fn watch() -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn is_asked(&self) -> bool {
            false
        }

        pub(super) fn was_continued(&self) -> bool {
            false
        }

        pub(super) fn stop(&self) {}
    }

    pub(super) fn picture(_: bool) {}
}
