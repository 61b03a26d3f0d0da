//! The values of a record itself, and those of the command line for records without them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use queue_core::lock;

use crate::error::CliError;
use crate::input::named::Named;
use crate::output::messages::Messages;

/// Values of records: their own come first, options are for what a record does not say. Clones share what was noted.
#[derive(Clone)]
pub struct OwnFirst {
    messages: Messages,
    /// Fields for which it was noted that an option does not apply to every record.
    noted: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl OwnFirst {
    /// Notes go to these messages.
    #[must_use]
    pub fn new(messages: &Messages) -> Self {
        Self { messages: messages.clone(), noted: Arc::default() }
    }

    /// Notes the first record that has another value of a field than the option gives.
    pub fn compare<T: PartialEq>(
        &self,
        (option, field): (char, &'static str),
        label: &str,
        own: &Option<T>,
        given: &Option<T>,
    ) {
        if own.is_none() || given.is_none() || own == given {
            return;
        }
        let mut noted = lock(&self.noted);
        if noted.insert(field) {
            self.messages.note(format!(
                "-{option} is only for records without `{field}`: {label} has its own, which is used"
            ));
        }
    }

    /// The tube, function or queue of a record.
    ///
    /// # Errors
    /// Neither the record nor the command line names one: exit 65.
    pub fn name<N: Named>(
        &self,
        label: &str,
        own: Option<N::Name>,
        given: Option<N::Name>,
    ) -> Result<N::Name, CliError>
    where
        N::Name: PartialEq,
    {
        let words = N::WORDS;
        self.compare((words.short, words.one), label, &own, &given);
        own.or(given).ok_or_else(|| {
            let (one, short, value) = (words.one, words.short, words.value);
            // Warnings about single records have no hints.
            CliError::bad_data(format!(
                "the record names no {one}: give it a `{one}`, or use -{short} {value} for records without one"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::named::Words;
    use crate::output::Memory;

    #[derive(Debug, Clone)]
    enum Tube {}

    impl Named for Tube {
        type Name = String;
        const WORDS: Words = Words { one: "tube", several: "tubes", short: 't', value: "TUBE" };

        fn read(text: &str) -> Result<String, CliError> {
            Ok(text.to_owned())
        }
    }

    #[test]
    fn records_win_over_flags_with_one_note_for_each_flag() {
        let sink = Memory::default();
        let own = OwnFirst::new(&Messages::to(Box::new(sink.clone()), "tool", false, false));
        let some = |text: &str| Some(text.to_owned());
        let tube = |own_name, given| own.clone().name::<Tube>("record 7", own_name, given);
        assert_eq!(tube(some("a"), None).unwrap(), "a");
        assert_eq!(tube(None, some("b")).unwrap(), "b");
        assert_eq!(tube(some("a"), some("a")).unwrap(), "a");
        assert_eq!(sink.text(), "");
        for _ in 0..2 {
            assert_eq!(tube(some("a"), some("b")).unwrap(), "a");
            own.compare(('p', "pri"), "record 8", &Some(1), &Some(2));
        }
        let text = sink.text();
        assert_eq!(text.matches("-t is only for records without `tube`: record 7").count(), 1);
        assert_eq!(text.lines().count(), 2, "{text}");
        let error = tube(None, None).unwrap_err();
        assert_eq!(error.exit.code(), 65);
        assert!(error.message.contains("-t TUBE"), "{error}");
    }
}
