//! Progress of long commands on stderr: count, rate, remaining time.

mod rate;

use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::input::Meter;
use crate::output::Record;
use crate::output::escape;
use crate::output::messages::Messages;
use crate::output::units;

use self::rate::Rate;

/// The value of `--progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ProgressWhen {
    /// A bar if stderr is a terminal.
    #[default]
    Auto,
    /// A bar.
    Bar,
    /// A line every five seconds.
    Plain,
    /// An object every second, and at the end: ts, label, done, total, rate.
    Json,
    /// Nothing.
    Never,
}

/// The progress of one command. Short commands show none.
pub struct Progress {
    messages: Messages,
    mode: Mode,
    label: String,
    total: Option<u64>,
    done: u64,
    started: Instant,
    shown: Option<Instant>,
    bar: Option<ProgressBar>,
    /// The file being read, which gives an end if the number of records is unknown.
    meter: Option<Meter>,
    rate: Rate,
    /// The rate through the file, for the remaining time.
    pace: Rate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Bar,
    Lines,
    Objects,
    Hidden,
}

/// Commands that end sooner show no progress.
const PATIENCE: Duration = Duration::from_millis(300);
const LINE_INTERVAL: Duration = Duration::from_secs(5);
const OBJECT_INTERVAL: Duration = Duration::from_secs(1);

impl Progress {
    /// Starts measuring; `total` is `None` if unknown.
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
            ProgressWhen::Json => Mode::Objects,
        };
        let started = Instant::now();
        Self {
            messages: messages.clone(),
            mode,
            // It may be a name from a server, which a bar would show unescaped.
            label: escape::line(&label.into()).into_owned(),
            total,
            done: 0,
            started,
            shown: None,
            bar: None,
            meter: None,
            rate: Rate::new(started),
            pace: Rate::new(started),
        }
    }

    /// Measures by this file, if its size is known.
    pub fn measure(&mut self, meter: Option<Meter>) {
        self.meter = meter;
    }

    /// Sets the expected total, if known.
    pub fn expect(&mut self, total: Option<u64>) {
        self.total = total;
        if let Some(bar) = self.bar.take() {
            self.messages.set_bar(None);
            bar.finish_and_clear();
            self.show_bar();
        }
    }

    /// The number of items done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Counts one more item.
    pub fn advance(&mut self) {
        self.advance_by(1);
    }

    /// Counts `count` more items.
    pub fn advance_by(&mut self, count: u64) {
        self.done = self.done.saturating_add(count);
        let now = Instant::now();
        self.rate.mark(now, self.done);
        match (self.mode, &self.bar) {
            (Mode::Hidden, _) => {}
            (Mode::Bar, Some(_)) => self.move_bar(now),
            (Mode::Bar, None) if self.started.elapsed() >= PATIENCE => self.show_bar(),
            (Mode::Bar, None) => {}
            (Mode::Lines, _) => {
                if self.shown.unwrap_or(self.started).elapsed() >= LINE_INTERVAL {
                    self.shown = Some(Instant::now());
                    self.messages.note(self.line());
                }
            }
            (Mode::Objects, _) => {
                if self.shown.unwrap_or(self.started).elapsed() >= OBJECT_INTERVAL {
                    self.show_object(now);
                }
            }
        }
    }

    /// Sets the current count, for work that is counted elsewhere. An unknown total is `None`.
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
                    // The counting may have begun long ago, so there is no rate.
                    let whole = self.whole();
                    self.messages.note(format!("{}: {done}{whole}", self.label));
                }
            }
            (Mode::Objects, _) => {
                if self.shown.is_none_or(|shown| shown.elapsed() >= OBJECT_INTERVAL) {
                    self.show_object(Instant::now());
                }
            }
        }
    }

    /// Removes the bar, or writes the last object.
    pub fn finish(&mut self) {
        if self.mode == Mode::Objects {
            self.show_object(Instant::now());
            self.mode = Mode::Hidden;
        }
        self.messages.set_bar(None);
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Writes an object: `label`, `done`, `total` and `rate` (per second, null if unknown); for a file also its bytes
    /// read and its size.
    fn show_object(&mut self, now: Instant) {
        self.shown = Some(now);
        let fields = Record::new()
            .with("label", self.label.as_str())
            .with("done", self.done)
            .with("total", self.total)
            .with("rate", self.rate.per_second(now, self.done).map(|rate| rate.round() as u64));
        let fields = match &self.meter {
            Some(meter) => fields.with("bytes", meter.position()).with("size", meter.size()),
            None => fields,
        };
        self.messages.object(Value::Null, fields.into());
    }

    fn show_bar(&mut self) {
        let whole = self.meter.as_ref().map(Meter::size).or(self.total);
        let bar = ProgressBar::with_draw_target(whole, ProgressDrawTarget::stderr())
            .with_elapsed(self.started.elapsed());
        // A narrow terminal cuts the end, which matters least.
        let template = match whole {
            Some(_) => "{prefix} [{wide_bar}] {msg}",
            None => "{prefix} {msg} in {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(self.label.clone());
        self.messages.set_bar(Some(bar.clone()));
        self.bar = Some(bar);
        self.move_bar(Instant::now());
    }

    /// Updates the bar.
    fn move_bar(&mut self, now: Instant) {
        let Some(bar) = &self.bar else { return };
        let position = self.meter.as_ref().map_or(self.done, Meter::position);
        self.pace.mark(now, position);
        let mut text = HumanCount(self.done).to_string();
        if let (Some(total), None) = (self.total, &self.meter) {
            text.push_str(&format!("/{}", HumanCount(total)));
        }
        if let Some(rate) = self.rate.per_second(now, self.done) {
            text.push_str(&format!(" {}/s", HumanCount(rate.round() as u64)));
        }
        let left = bar.length().and_then(|whole| self.pace.left(now, position, whole));
        if let Some(left) = left {
            let left = Duration::from_secs(left.as_secs_f64().ceil() as u64);
            text.push_str(&format!(" {} left", units::show_duration(left)));
        }
        bar.set_message(text);
        bar.set_position(position);
    }

    fn whole(&self) -> String {
        self.total.map_or_else(String::new, |total| format!("/{total}"))
    }

    fn line(&self) -> String {
        let elapsed = units::show_duration(self.started.elapsed());
        let rate = self.rate.per_second(Instant::now(), self.done);
        let rate = rate.map(|rate| format!(", {rate:.0} per second")).unwrap_or_default();
        let (label, total) = (&self.label, self.whole());
        format!("{label}: {}{total} in {elapsed}{rate}", self.done)
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
    use crate::output::Memory;

    #[test]
    fn an_object_says_how_far_it_came() {
        let sink = Memory::default();
        let messages = Messages::to(Box::new(sink.clone()), "tool", false, false);
        let mut progress = Progress::start(ProgressWhen::Json, &messages, "kicking", Some(3));
        progress.advance_by(2);
        progress.finish();
        drop(progress);
        let text = sink.text();
        let object: Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!((&object["done"], &object["total"]), (&2.into(), &3.into()));
        assert_eq!(object["label"], "kicking");
        assert!(object["ts"].is_string() && object.get("rate").is_some(), "{text}");
    }

    #[test]
    fn a_label_never_acts_on_a_terminal() {
        let messages = Messages::to(Box::new(std::io::sink()), "tool", false, false);
        let progress = Progress::start(ProgressWhen::Bar, &messages, "H:\u{202e}\x1b:1", None);
        assert_eq!(progress.label, "H:\\u{202e}\\x1b:1");
    }
}
