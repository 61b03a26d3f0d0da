//! Progress of long commands on stderr: count, rate, remaining time.

mod meter;
mod rate;
mod wait;

pub use self::meter::Meter;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::output::Record;
use crate::output::messages::{Messages, ProgressWhen};
use crate::text::{escape, units};

use self::rate::Rate;
pub use self::wait::{Wait, Waiting};

/// The progress of one command. Short commands show none.
pub struct Progress {
    messages: Messages,
    /// Not [`ProgressWhen::Auto`].
    mode: ProgressWhen,
    label: String,
    total: Option<u64>,
    done: u64,
    /// The last observation of a wait.
    seen: Option<String>,
    started: Instant,
    shown: Option<Instant>,
    bar: Option<ProgressBar>,
    /// The file being read, which gives an end if the number of records is unknown.
    meter: Option<Meter>,
    rate: Rate,
    /// The rate through the file, for the remaining time.
    pace: Rate,
}

/// Commands that end sooner show no progress.
const PATIENCE: Duration = Duration::from_millis(300);
const LINE_INTERVAL: Duration = Duration::from_secs(5);
const OBJECT_INTERVAL: Duration = Duration::from_secs(1);

impl Progress {
    /// Starts measuring; `total` is `None` if unknown.
    #[must_use]
    pub fn start(messages: &Messages, label: impl Into<String>, total: Option<u64>) -> Self {
        Self::since(Instant::now(), messages, label, total)
    }

    /// [Starts](Self::start) it for what began earlier: a wait that showed nothing while it was not one yet.
    pub fn since(
        started: Instant,
        messages: &Messages,
        label: impl Into<String>,
        total: Option<u64>,
    ) -> Self {
        Self {
            messages: messages.clone(),
            mode: messages.progress(),
            // It may be a name from a server, which a bar would show unescaped.
            label: escape::line(&label.into()).into_owned(),
            total,
            done: 0,
            seen: None,
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
            (ProgressWhen::Bar, Some(_)) => self.move_bar(now),
            (ProgressWhen::Bar, None) if self.started.elapsed() < PATIENCE => {}
            (ProgressWhen::Bar, None) => self.show_bar(),
            _ => self.report(Some(self.started), Self::line),
        }
    }

    /// Sets the current count, for work that is counted elsewhere. An unknown total is `None`.
    pub fn set(&mut self, done: u64, total: Option<u64>) {
        self.done = done;
        self.total = total;
        match (self.mode, &self.bar) {
            (ProgressWhen::Bar, Some(bar)) => {
                if let Some(total) = total {
                    bar.set_length(total);
                }
                bar.set_position(done);
            }
            (ProgressWhen::Bar, None) => self.show_bar(),
            // The counting may have begun long ago, so there is no rate.
            _ => self.report(None, |is| format!("{}: {done}{}", is.label, is.whole())),
        }
    }

    /// Shows how long a wait has lasted, how long it may last, and what it sees, if anything. What is counted is seconds.
    pub fn see(&mut self, seen: &str, bound: Option<Duration>) {
        let now = Instant::now();
        let waited = now.duration_since(self.started);
        self.done = waited.as_secs();
        self.total = bound.map(|bound| bound.as_secs_f64().ceil() as u64);
        self.seen = Some(escape::line(seen).into_owned());
        match self.mode {
            ProgressWhen::Bar if self.bar.is_none() && waited < PATIENCE => {}
            // The count of what has arrived so far stays.
            ProgressWhen::Bar if self.bar.is_none() && self.messages.has_bar() => {}
            ProgressWhen::Bar => {
                let text = self.wait(bound);
                if self.bar.is_none() {
                    self.open_bar(None, "{wide_msg}");
                }
                if let Some(bar) = &self.bar {
                    bar.set_message(text);
                }
            }
            _ => self.report(Some(self.started), |is| is.wait(bound)),
        }
    }

    /// For example ``waiting for `empty`, 12s of 1m: 3 jobs``.
    fn wait(&self, bound: Option<Duration>) -> String {
        let of = bound.map(|bound| format!(" of {}", units::show_duration(bound)));
        let of = of.unwrap_or_default();
        let waited = units::show_duration(Duration::from_secs(self.done));
        let seen = self.seen.as_ref().filter(|seen| !seen.is_empty());
        let seen = seen.map(|seen| format!(": {seen}")).unwrap_or_default();
        format!("{}, {waited}{of}{seen}", self.label)
    }

    /// Writes a line or an object, if it is time for one: some time after the last one, or else after `first`.
    fn report(&mut self, first: Option<Instant>, line: impl FnOnce(&Self) -> String) {
        let interval = match self.mode {
            ProgressWhen::Plain => LINE_INTERVAL,
            ProgressWhen::Json => OBJECT_INTERVAL,
            _ => return,
        };
        let now = Instant::now();
        if self.shown.or(first).is_some_and(|last| now.duration_since(last) < interval) {
            return;
        }
        self.shown = Some(now);
        match self.mode {
            ProgressWhen::Json => self.show_object(now),
            _ => self.messages.note(line(self)),
        }
    }

    /// Removes the bar, or writes the last object.
    pub fn finish(&mut self) {
        if self.mode == ProgressWhen::Json {
            self.show_object(Instant::now());
            self.mode = ProgressWhen::Never;
        }
        if let Some(bar) = self.bar.take() {
            self.messages.set_bar(None);
            bar.finish_and_clear();
        }
    }

    /// Writes an object: `label`, `done`, `total` and `rate` (per second, null if unknown); for a file also its bytes
    /// read and its size; for a wait what it has seen.
    fn show_object(&mut self, now: Instant) {
        let mut fields = Record::new()
            .with("label", self.label.as_str())
            .with("done", self.done)
            .with("total", self.total)
            .with("rate", self.rate.per_second(now, self.done).map(|rate| rate.round() as u64));
        if let Some(meter) = &self.meter {
            fields.push("bytes", meter.position());
            fields.push("size", meter.size());
        }
        if let Some(seen) = &self.seen {
            fields.push("seen", seen.as_str());
        }
        self.messages.object(Value::Null, fields.into());
    }

    fn show_bar(&mut self) {
        let whole = self.meter.as_ref().map(Meter::size).or(self.total);
        let template = match whole {
            Some(_) => "{prefix} [{wide_bar}] {msg}",
            None => "{prefix} {msg} in {elapsed}",
        };
        self.open_bar(whole, template);
        self.move_bar(Instant::now());
    }

    /// A narrow terminal cuts the end of the template, which matters least.
    fn open_bar(&mut self, whole: Option<u64>, template: &str) {
        let bar = ProgressBar::with_draw_target(whole, ProgressDrawTarget::stderr())
            .with_elapsed(self.started.elapsed());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(self.label.clone());
        self.messages.set_bar(Some(bar.clone()));
        self.bar = Some(bar);
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
    fn progress_objects_carry_the_position() {
        let sink = Memory::default();
        let messages = Messages::to(Box::new(sink.clone()), "tool", false, false);
        let mut progress =
            Progress::start(&messages.with_progress(ProgressWhen::Json), "kicking", Some(3));
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
    fn a_wait_shows_its_state_and_limit() {
        let sink = Memory::default();
        let messages = Messages::to(Box::new(sink.clone()), "tool", false, false);
        let mut progress =
            Progress::start(&messages.with_progress(ProgressWhen::Json), "waiting", None);
        progress.see("3 \x1bjobs", Some(Duration::from_secs(60)));
        assert_eq!(progress.wait(None), "waiting, 0s: 3 \\x1bjobs");
        progress.finish();
        drop(progress);
        let object: Value = serde_json::from_str(sink.text().trim_end()).unwrap();
        assert_eq!((&object["seen"], &object["total"]), (&"3 \\x1bjobs".into(), &60.into()));
        let mut endless = Progress::start(&messages.without_progress(), "waiting", None);
        endless.see("", None);
        assert_eq!(endless.wait(None), "waiting, 0s");
        // The whole time, not cut to seconds.
        for (bound, shown) in [(60_000, "1m"), (500, "500ms"), (1500, "1s 500ms")] {
            let bound = Duration::from_millis(bound);
            endless.see("", Some(bound));
            assert_eq!(endless.wait(Some(bound)), format!("waiting, 0s of {shown}"));
            assert_eq!(endless.total, Some(bound.as_millis().div_ceil(1000) as u64));
        }
    }

    #[test]
    fn escapes_labels() {
        let messages = Messages::to(Box::new(std::io::sink()), "tool", false, false);
        let progress =
            Progress::start(&messages.with_progress(ProgressWhen::Bar), "H:\u{202e}\x1b:1", None);
        assert_eq!(progress.label, "H:\\u{202e}\\x1b:1");
    }
}
