//! The terminal while the live view has it: in raw mode, on the alternate screen, and always restored.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Once};
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

/// Whether a live view has the terminal.
static HAS: AtomicBool = AtomicBool::new(false);
/// Whether a panic took the terminal from a live view.
static LOST: AtomicBool = AtomicBool::new(false);

/// The terminal, until it is dropped.
pub(super) struct Screen {
    messages: Messages,
    stops: &'static Stops,
}

/// An event at the terminal.
pub(super) enum Happened {
    Key(KeyEvent),
    /// The screen was resized, or used by another program.
    Changed,
}

/// Whether a live view is possible.
pub(super) fn is_possible() -> bool {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term.is_empty() || term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

impl Screen {
    /// Takes the terminal. Messages wait until it is restored.
    ///
    /// # Errors
    /// The terminal is unusable: exit 74.
    pub(super) fn open(messages: &Messages) -> Result<Self, CliError> {
        give_back_on_panic();
        let stops = Stops::watch().map_err(unusable)?;
        messages.hold();
        // Dropped, and so restored, even if taking the terminal fails half-way.
        let screen = Self { messages: messages.clone(), stops };
        take().map_err(unusable)?;
        Ok(screen)
    }

    /// The number of columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        // A terminal of unknown size reports 0.
        let known = terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0);
        let (width, height) = known.unwrap_or((80, 24));
        (width.into(), height.into())
    }

    /// Shows these lines, each of which must fit.
    ///
    /// # Errors
    /// The terminal cannot be written: exit 74.
    pub(super) fn show(&self, lines: &[String]) -> Result<(), CliError> {
        let mut picture = Vec::new();
        let mut draw = || -> io::Result<()> {
            for (row, line) in lines.iter().enumerate() {
                let row = u16::try_from(row).unwrap_or(u16::MAX);
                // Clear first: after a full line the cursor is still on its last character.
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

    /// Clears the whole screen.
    ///
    /// # Errors
    /// The terminal cannot be written: exit 74.
    pub(super) fn clear(&self) -> Result<(), CliError> {
        execute!(io::stdout(), Clear(ClearType::All)).map_err(unusable)
    }

    /// Waits for an event, at most this long.
    ///
    /// # Errors
    /// The terminal cannot be read: exit 74. A panic elsewhere has ended the live view: exit 70.
    pub(super) fn wait(&mut self, bound: Duration) -> Result<Option<Happened>, CliError> {
        if LOST.load(Ordering::SeqCst) {
            return Err(CliError::internal("polling a server failed because of a bug in the tool"));
        }
        if self.stops.continued.swap(false, Ordering::SeqCst) {
            // The child may have changed the terminal's mode.
            let _ = terminal::disable_raw_mode();
            take().map_err(unusable)?;
            return Ok(Some(Happened::Changed));
        }
        if self.stops.asked.swap(false, Ordering::SeqCst) {
            self.suspend()?;
            return Ok(Some(Happened::Changed));
        }
        wait_for_input(bound).map_err(unusable)?;
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

    /// Restores the terminal, stops this process, and takes the terminal again when it continues.
    ///
    /// # Errors
    /// The terminal cannot be taken again: exit 74.
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
    picture(true);
    terminal::enable_raw_mode()?;
    execute!(
        io::stdout(),
        EnterAlternateScreen,
        cursor::Hide,
        DisableLineWrap,
        Clear(ClearType::All)
    )
}

/// An unwritable terminal needs no restoring.
fn give_back() {
    if HAS.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), EnableLineWrap, cursor::Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
        picture(false);
    }
}

/// Makes the message of a panic, and what follows, readable.
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

/// What SIGTSTP and SIGCONT have asked for, where there are such signals.
#[derive(Default)]
struct Stops {
    /// Set while no live view has the terminal: SIGTSTP then has its default effect.
    outside: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
    continued: Arc<AtomicBool>,
}

static STOPS: LazyLock<io::Result<Stops>> = LazyLock::new(|| {
    let stops = Stops::default();
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGCONT, SIGTSTP};
        use signal_hook::flag;

        stops.outside.store(true, Ordering::SeqCst);
        flag::register_conditional_default(SIGTSTP, Arc::clone(&stops.outside))?;
        flag::register(SIGTSTP, Arc::clone(&stops.asked))?;
        flag::register(SIGCONT, Arc::clone(&stops.continued))?;
    }
    Ok(stops)
});

impl Stops {
    fn watch() -> io::Result<&'static Self> {
        let stops = STOPS.as_ref().map_err(|error| io::Error::other(error.to_string()))?;
        stops.forget();
        Ok(stops)
    }

    fn forget(&self) {
        self.asked.store(false, Ordering::SeqCst);
        self.continued.store(false, Ordering::SeqCst);
    }

    /// Stops this process until it is continued.
    fn stop(&self) {
        // A process that cannot be stopped continues.
        #[cfg(unix)]
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP);
        self.forget();
    }
}

/// Records whether a live view has the terminal.
fn picture(has: bool) {
    if let Ok(stops) = &*STOPS {
        stops.outside.store(!has, Ordering::SeqCst);
    }
}

/// Waits for input or a signal, at most this long. Reading from a closed terminal would never return, since it is
/// at its end every time.
#[cfg(unix)]
fn wait_for_input(bound: Duration) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

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

/// Waits for input, at most this long.
#[cfg(not(unix))]
fn wait_for_input(bound: Duration) -> io::Result<()> {
    event::poll(bound).map(drop)
}
