//! Records from arguments, files and stdin for a queue, read in batches so that memory use stays bounded.

use std::ffi::OsString;

use crate::bulk::{Bulk, Gate};
use crate::error::{CliError, Exit};
use crate::input::feed::Feed;
use crate::input::{Argument, Framing, Input, Named, named};
use crate::output::messages::Messages;
use crate::output::progress::Meter;
use crate::output::records::is_blank;
use crate::output::{Output, Record};
use crate::system::signals::Interrupts;
use crate::text::units;

/// The item made from a record, or the record's name and its error.
pub type Item<T> = Result<T, (String, CliError)>;

/// A stream of items.
pub type Items<T> = Box<dyn Iterator<Item = Item<T>> + Send>;

/// Maximum bytes per batch.
const BATCH_BYTES: usize = 1 << 20;
/// Maximum bytes of bodies read ahead.
const READ_AHEAD: u64 = 8 << 20;

/// How an argument is split into records.
#[derive(Debug, Clone, Copy)]
pub enum Cut {
    /// Each record is a body.
    Bodies(Framing),
    /// Each line is a JSON object with a body; blank lines are skipped.
    Ndjson,
}

/// The records of an argument, with bodies of at most `limit` bytes, and the name of a literal. Also returns how far a
/// file has been read.
fn records(
    argument: Argument,
    literal: String,
    cut: Cut,
    limit: u64,
    input: &mut Input,
) -> Result<(Named, Option<Meter>), CliError> {
    match cut {
        Cut::Bodies(framing) => named(argument, literal, framing, limit, input),
        Cut::Ndjson => {
            // JSON may need six bytes for one, and has other fields.
            let longest = limit.saturating_mul(6).saturating_add(4096);
            let (lines, meter) = named(argument, literal, Framing::Lines, longest, input)?;
            Ok((Box::new(lines.filter(|(_, line)| !is_blank(line))), meter))
        }
    }
}

/// The sources of the body arguments; without any, stdin, which is reported to a user at a terminal.
#[must_use]
pub fn sources(bodies: &[OsString], input: &Input, messages: &Messages) -> Vec<Argument> {
    if bodies.is_empty() || bodies.iter().any(|body| body == "-") {
        input.invite("the body", messages);
    }
    if bodies.is_empty() {
        return vec![Argument::Read("-".into())];
    }
    bodies.iter().map(|text| Argument::parse(text)).collect()
}

/// Applies `make` to the records of all these arguments, with bodies of at most `limit` bytes, and to their names: a
/// literal is called `body`. How far they have been read is only known for a single argument.
///
/// # Errors
/// A file cannot be opened (66), or stdin is in use (2).
pub fn chain<T: 'static>(
    sources: Vec<Argument>,
    cut: Cut,
    limit: u64,
    (input, messages): (&mut Input, &Messages),
    make: impl Fn(&str, Vec<u8>) -> Result<T, CliError> + Clone + Send + 'static,
) -> Result<(Items<T>, Option<Meter>), CliError> {
    let (is_only, mut meter) = (sources.len() == 1, None);
    let mut all: Items<T> = Box::new(std::iter::empty());
    for (number, source) in (1..).zip(sources) {
        // With several arguments, the name has its number.
        let literal = if is_only { "body".to_owned() } else { format!("body {number}") };
        let wary = match (&source, cut) {
            (Argument::Read(path), Cut::Bodies(framing)) => input.is_doubtful(path, framing),
            _ => false,
        };
        let (records, read) = records(source, literal, cut, limit, input)?;
        let records = if wary { doubting(records, messages) } else { records };
        meter = read.filter(|_| is_only);
        let make = make.clone();
        all = Box::new(all.chain(records.map(move |(label, bytes)| {
            bytes.and_then(|bytes| make(&label, bytes)).map_err(|error| (label, error))
        })));
    }
    Ok((all, meter))
}

/// Warns of an empty body from stdin: a command that was to write it may have failed.
fn doubting(records: Named, messages: &Messages) -> Named {
    let messages = messages.clone();
    Box::new(records.inspect(move |(_, bytes)| {
        if bytes.as_ref().is_ok_and(Vec::is_empty) {
            messages
                .warn("stdin is empty, so the body is empty too; give '' as BODY if that is meant");
        }
    }))
}

/// Repeats each item.
#[must_use]
pub fn repeat<T: Clone + Send + 'static>(items: Items<T>, times: u64) -> Items<T> {
    let times = usize::try_from(times).unwrap_or(usize::MAX);
    if times == 1 {
        return items;
    }
    Box::new(items.flat_map(move |item| -> Items<T> {
        match item {
            Ok(item) => Box::new(std::iter::repeat_n(item, times).map(Ok)),
            bad => Box::new(std::iter::once(bad)),
        }
    }))
}

/// Limits the number of items.
#[must_use]
pub fn take<T: 'static>(items: Items<T>, limit: Option<u64>) -> Items<T> {
    match limit {
        Some(limit) => Box::new(items.take(usize::try_from(limit).unwrap_or(usize::MAX))),
        None => items,
    }
}

/// Reads everything, and reports what would be done: `verb`, the number of `noun`, and `place`.
///
/// # Errors
/// The first invalid record; write failures.
pub fn would<T>(
    out: &mut Output,
    items: Items<T>,
    (verb, noun, place): (&str, &str, &str),
) -> Result<Exit, CliError> {
    let mut count = 0_u64;
    for item in items {
        item.map_err(|(label, error)| error.context(label))?;
        count += 1;
    }
    let key = format!("{noun}s");
    let record = Record::new().with("dry_run", true).with(key.clone(), count);
    let sentence = format!("would {verb} {} {place}", units::count(count, noun));
    out.done_with(&record, &[&*key], sentence.trim_end())
}

/// Items in batches, directly from the arguments or read by a thread.
pub struct Batches<T> {
    source: Source<T>,
    window: usize,
    weigh: fn(&T) -> usize,
}

enum Source<T> {
    Given(Items<T>),
    Read(Feed<Item<T>>),
}

impl<T: Send + 'static> Batches<T> {
    /// Batches of at most `window` items, read ahead by a thread unless they are given; `weigh` returns the size of one,
    /// which is at most `limit`.
    ///
    /// # Errors
    /// The system cannot start a thread: exit 75 or 70.
    pub fn of(
        items: Items<T>,
        is_given: bool,
        limit: u64,
        window: usize,
        weigh: fn(&T) -> usize,
    ) -> Result<Self, CliError> {
        let ahead = usize::try_from(READ_AHEAD / limit.max(1)).unwrap_or(2);
        let source = match is_given {
            true => Source::Given(items),
            false => Source::Read(Feed::start(items, ahead.clamp(2, window.saturating_mul(2)))?),
        };
        Ok(Self { source, window, weigh })
    }

    /// Passes every batch of valid items to `send`; an invalid record counts as a failure.
    ///
    /// # Errors
    /// The error of `send`; a failure that ends everything.
    pub fn each(
        mut self,
        bulk: &mut Bulk,
        interrupts: &Interrupts,
        mut send: impl FnMut(&mut Bulk, Vec<T>) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let gate = bulk.gate();
        while gate.is_open() {
            let batch = self.next(interrupts);
            if batch.is_empty() || !gate.turn(batch.len()) {
                break;
            }
            let good = sift(batch, &gate, |label, error| bulk.failure(label, error))?;
            send(bulk, good)?;
        }
        Ok(())
    }

    /// The next batch; empty at the end or after a signal.
    pub fn next(&mut self, interrupts: &Interrupts) -> Vec<Item<T>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < self.window && bytes < BATCH_BYTES {
            let item = match &mut self.source {
                Source::Given(items) => items.next(),
                Source::Read(feed) if batch.is_empty() => feed.wait(interrupts),
                Source::Read(feed) => feed.ready(),
            };
            let Some(item) = item else { break };
            bytes += item.as_ref().map_or(0, self.weigh);
            batch.push(item);
        }
        batch
    }
}

/// The valid items of a batch, as long as the gate is open; the others go to `bad`.
///
/// # Errors
/// The error of `bad`.
pub fn sift<T>(
    batch: Vec<Item<T>>,
    gate: &Gate,
    mut bad: impl FnMut(String, CliError) -> Result<(), CliError>,
) -> Result<Vec<T>, CliError> {
    let mut good = Vec::with_capacity(batch.len());
    for item in batch {
        match item {
            Ok(item) => good.push(item),
            Err((label, error)) => bad(label, error)?,
        }
        if !gate.is_open() {
            break;
        }
    }
    Ok(good)
}

/// Passes the outcome of each item of a batch to `report`, in order; items without an outcome were not sent.
///
/// # Errors
/// The error of `report`.
pub fn settle<I, T>(
    items: impl IntoIterator<Item = I>,
    outcomes: impl IntoIterator<Item = Result<T, CliError>>,
    mut report: impl FnMut(I, Result<T, CliError>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut outcomes = outcomes.into_iter();
    let not_sent = || Err(CliError::unavailable("the connection failed before this was sent"));
    items.into_iter().try_for_each(|item| report(item, outcomes.next().unwrap_or_else(not_sent)))
}

#[cfg(test)]
mod tests {
    use queue_core::Fate;

    use super::*;
    use crate::error::Change;

    fn lines(text: &str, cut: Cut, limit: u64) -> Items<Vec<u8>> {
        let mut input = Input::Bytes(text.as_bytes().to_vec());
        let messages = Messages::to(Box::new(std::io::sink()), "tool", false, false);
        let make = |_: &str, bytes: Vec<u8>| match &*bytes {
            b"bad" => Err(CliError::bad_data("no item")),
            _ => Ok(bytes),
        };
        let stdin = vec![Argument::Read("-".into())];
        chain(stdin, cut, limit, (&mut input, &messages), make).unwrap().0
    }

    fn shown(batch: &[Item<Vec<u8>>]) -> Vec<&str> {
        batch.iter().map(text).collect()
    }

    fn text(item: &Item<Vec<u8>>) -> &str {
        match item {
            Ok(bytes) => std::str::from_utf8(bytes).unwrap(),
            Err((label, _)) => label,
        }
    }

    #[test]
    fn repeats_and_limits_items_and_names_each_bad_one_once() {
        let all = || lines("a\nbad\nb", Cut::Bodies(Framing::Lines), 9);
        let repeated: Vec<_> = repeat(all(), 2).collect();
        assert_eq!(shown(&repeated), ["a", "a", "stdin record 2", "b", "b"]);
        let some: Vec<_> = take(repeat(all(), 2), Some(4)).collect();
        assert_eq!(shown(&some), ["a", "a", "stdin record 2", "b"]);
    }

    #[test]
    fn accepts_long_json_lines_and_skips_blank_ones() {
        let text = "\n  \n\"123456789\"\n";
        let got: Vec<_> = lines(text, Cut::Ndjson, 9).collect();
        assert_eq!(shown(&got), ["\"123456789\""]);
        let got: Vec<_> = lines("123456789x", Cut::Bodies(Framing::Lines), 9).collect();
        assert!(got[0].is_err());
    }

    #[test]
    fn bounds_batches_by_count_and_bytes() {
        let text = "a\n".repeat(10);
        let weigh: fn(&Vec<u8>) -> usize = |_| BATCH_BYTES / 2;
        let all = || lines(&text, Cut::Bodies(Framing::Lines), 9);
        for (window, most) in [(100, 2), (1, 1)] {
            for is_given in [false, true] {
                let mut batches = Batches::of(all(), is_given, 9, window, weigh).unwrap();
                let mut count = 0;
                loop {
                    let batch = batches.next(&Interrupts::none());
                    assert!(batch.len() <= most, "{}", batch.len());
                    if batch.is_empty() {
                        break;
                    }
                    count += batch.len();
                }
                assert_eq!(count, 10);
            }
        }
    }

    #[test]
    fn items_without_an_outcome_were_not_sent() {
        let mut told = Vec::new();
        let change = Change { may: "it may be there", look: "tool jobs" };
        let lost = CliError::unavailable("lost").fated(Fate::Unknown, Some(change));
        let outcomes = [Ok(1), Err(lost)];
        settle(["a", "b", "c", "d"], outcomes, |item, outcome| {
            told.push((item, outcome.map_err(|error| error.is_unknown())));
            Ok(())
        })
        .unwrap();
        assert_eq!(told, [("a", Ok(1)), ("b", Err(true)), ("c", Err(false)), ("d", Err(false))]);
    }

    #[test]
    fn a_dry_run_counts_and_names_bad_items() {
        let mut out = Output::to(Box::new(std::io::sink()), crate::output::Style::default());
        let words = ("put", "job", "");
        let good = lines("a\nb", Cut::Bodies(Framing::Lines), 9);
        assert_eq!(would(&mut out, good, words).unwrap(), Exit::Done);
        let bad = lines("a\nbad", Cut::Bodies(Framing::Lines), 9);
        let error = would(&mut out, bad, words).unwrap_err();
        assert!(error.message.contains("stdin record 2"), "{error}");
    }
}
