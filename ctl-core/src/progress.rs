//! Progress of long commands on stderr: count, rate, time left.

use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::args::ProgressWhen;
use crate::escape;
use crate::messages::Messages;
use crate::units;

/// The progress of one command. Nothing is shown for commands that end within a moment.
pub struct Progress {
    messages: Messages,
    mode: Mode,
    label: String,
    total: Option<u64>,
    done: u64,
    started: Instant,
    shown: Option<Instant>,
    bar: Option<ProgressBar>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Bar,
    Lines,
    Hidden,
}

/// Commands faster than this show no progress.
const PATIENCE: Duration = Duration::from_millis(300);
const LINE_INTERVAL: Duration = Duration::from_secs(5);

impl Progress {
    /// Starts measuring; `total` is none when it is not known.
    #[must_use]
    pub fn start(
        when: ProgressWhen,
        messages: &Messages,
        label: impl Into<String>,
        total: Option<u64>,
    ) -> Self {
        let mode = match when {
            ProgressWhen::Auto if messages.is_terminal() => Mode::Bar,
            ProgressWhen::Auto | ProgressWhen::Never => Mode::Hidden,
            ProgressWhen::Bar => Mode::Bar,
            ProgressWhen::Plain => Mode::Lines,
        };
        Self {
            messages: messages.clone(),
            mode,
            // It may be a name from a server, and a bar shows it as it is.
            label: escape::line(&label.into()).into_owned(),
            total,
            done: 0,
            started: Instant::now(),
            shown: None,
            bar: None,
        }
    }

    /// Counts one more.
    pub fn advance(&mut self) {
        self.advance_by(1);
    }

    /// So many items are done.
    pub fn advance_by(&mut self, count: u64) {
        self.done = self.done.saturating_add(count);
        match (self.mode, &self.bar) {
            (Mode::Hidden, _) => {}
            (Mode::Bar, Some(bar)) => bar.inc(count),
            (Mode::Bar, None) if self.started.elapsed() >= PATIENCE => self.show_bar(),
            (Mode::Bar, None) => {}
            (Mode::Lines, _) => {
                if self.shown.unwrap_or(self.started).elapsed() >= LINE_INTERVAL {
                    self.shown = Some(Instant::now());
                    self.messages.note(self.line());
                }
            }
        }
    }

    /// Says where it stands, for work whose steps somebody else counts. A whole that is not known is none.
    pub fn set(&mut self, done: u64, total: Option<u64>) {
        self.done = done;
        self.total = total;
        match (self.mode, &self.bar) {
            (Mode::Hidden, _) => {}
            (Mode::Bar, Some(bar)) => {
                if let Some(total) = total {
                    bar.set_length(total);
                }
                bar.set_position(done);
            }
            (Mode::Bar, None) => self.show_bar(),
            (Mode::Lines, _) => {
                if self.shown.is_none_or(|shown| shown.elapsed() >= LINE_INTERVAL) {
                    self.shown = Some(Instant::now());
                    // Whoever counts may have begun long ago: there is no rate.
                    let whole = self.whole();
                    self.messages.note(format!("{}: {done}{whole}", self.label));
                }
            }
        }
    }

    /// Removes the bar.
    pub fn finish(&mut self) {
        self.messages.set_bar(None);
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn show_bar(&mut self) {
        let target = ProgressDrawTarget::stderr();
        let bar = ProgressBar::with_draw_target(self.total, target)
            .with_elapsed(self.started.elapsed())
            .with_position(self.done);
        let template = match self.total {
            Some(_) => "{msg} [{bar:30}] {human_pos}/{human_len} {rate} {eta} left",
            None => "{msg} {human_pos} {rate} {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, text: &mut dyn Write| {
                let _ = write!(text, "{:.0}/s", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
        }
        bar.set_message(self.label.clone());
        self.messages.set_bar(Some(bar.clone()));
        self.bar = Some(bar);
    }

    fn whole(&self) -> String {
        self.total.map_or_else(String::new, |total| format!("/{total}"))
    }

    fn line(&self) -> String {
        let elapsed = self.started.elapsed();
        let rate = self.done as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
        let total = self.whole();
        let label = &self.label;
        let elapsed = units::show_duration(elapsed);
        format!("{label}: {}{total} in {elapsed}, {rate:.0} per second", self.done)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_never_acts_on_a_terminal() {
        let messages = Messages::to(Box::new(std::io::sink()), "tool", false, false);
        let progress = Progress::start(ProgressWhen::Bar, &messages, "H:\u{202e}\x1b:1", None);
        assert_eq!(progress.label, "H:\\u{202e}\\x1b:1");
    }
}
