//! How a command takes the name of a tube, function or queue: as an argument or by a flag, with the same meaning.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

use clap::{Arg, Args};

use crate::config::Settings;
use crate::error::CliError;
use crate::input::Argument;
use crate::output::messages::Messages;

/// A kind of named thing.
pub trait Named: Clone + fmt::Debug + 'static {
    /// A valid name.
    type Name: Clone + Eq + Hash;

    /// The words for it.
    const WORDS: Words;

    /// Parses a name.
    ///
    /// # Errors
    /// The name is invalid: exit 65.
    fn read(text: &str) -> Result<Self::Name, CliError>;
}

/// The words for a named thing.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The singular, such as `tube`; also the long flag.
    pub one: &'static str,
    /// The plural.
    pub several: &'static str,
    /// The short flag.
    pub short: char,
    /// The placeholder for a name in help texts, such as `TUBE`.
    pub value: &'static str,
}

impl Words {
    /// The hint for a missing or wrong name.
    fn hint(&self) -> String {
        format!("{value} or -{} {value}", self.short, value = self.value)
    }

    fn missing(&self) -> CliError {
        CliError::usage(format!("no {} given", self.one)).hint(self.hint())
    }

    fn read<N: Named>(&self, word: &OsStr) -> Result<N::Name, CliError> {
        let text = word.to_str().ok_or_else(|| {
            CliError::bad_data(format!("{} name {} is not UTF-8", self.one, word.to_string_lossy()))
        })?;
        N::read(text).map_err(|error| match text.contains(['*', '?']) {
            true => error.hint(format!(
                "patterns are not names: the command `{} '{text}'` lists what matches",
                self.several
            )),
            false => error,
        })
    }
}

/// The id of the positional argument.
pub(crate) const PLACE: &str = "named";
/// The id of the flag.
pub(crate) const FLAG: &str = "named-by-flag";
/// The id of the group of both.
pub const NAMES: &str = "names";

/// Sets the help text of the positional argument.
pub fn described(help: &'static str) -> impl Fn(Arg) -> Arg {
    move |arg| if arg.get_id() == PLACE { arg.help(help) } else { arg }
}

/// Makes the name arguments take patterns.
#[must_use]
pub fn pattern(arg: Arg, help: &'static str) -> Arg {
    match arg.get_id().as_str() {
        PLACE => arg.value_name("GLOB").help(help),
        FLAG => arg.value_name("GLOB"),
        _ => arg,
    }
}

/// One name.
#[derive(Debug, Clone, Args)]
#[group(id = "names", multiple = true)]
pub struct One<N: Named> {
    #[arg(id = PLACE, value_name = N::WORDS.value, help = format!("The {}", N::WORDS.one))]
    place: Option<OsString>,
    #[arg(id = FLAG, short = N::WORDS.short, long = N::WORDS.one, value_name = N::WORDS.value)]
    #[arg(help = format!("The {}, by flag", N::WORDS.one))]
    flag: Option<String>,
    #[arg(skip)]
    kind: PhantomData<fn() -> N>,
}

impl<N: Named> One<N> {
    /// The name, if given.
    ///
    /// # Errors
    /// Two different names: exit 2. An invalid name: exit 65.
    pub fn given(&self) -> Result<Option<N::Name>, CliError> {
        let words = N::WORDS;
        let flag = self.flag.as_ref().map(OsStr::new);
        if let (Some(one), Some(two)) = (&self.place, flag)
            && one != two
        {
            let (one, two) = (one.to_string_lossy(), two.to_string_lossy());
            let several = words.several;
            let why = format!("two {several} are given, {one} and {two}, but only one is allowed");
            return Err(CliError::usage(why).hint(words.hint()));
        }
        self.place.as_deref().or(flag).map(|word| words.read::<N>(word)).transpose()
    }

    /// The name.
    ///
    /// # Errors
    /// No name or two different names: exit 2. An invalid name: exit 65.
    pub fn name(&self) -> Result<N::Name, CliError> {
        self.given()?.ok_or_else(|| N::WORDS.missing())
    }

    /// The name, or the default from the settings.
    ///
    /// # Errors
    /// As [`One::name`].
    pub fn name_or_usual(&self, settings: &Settings) -> Result<N::Name, CliError> {
        match (self.given()?, settings.queue()) {
            (None, Some(usual)) => N::read(&usual),
            (given, _) => given.ok_or_else(|| N::WORDS.missing()),
        }
    }

    /// The name as written, if given.
    pub fn text(&self) -> Option<String> {
        let place = self.place.as_ref().map(|word| word.to_string_lossy().into_owned());
        place.or_else(|| self.flag.clone())
    }
}

/// Several names; positional ones come first.
#[derive(Debug, Clone, Args)]
#[group(id = "names", multiple = true)]
pub struct Several<N: Named> {
    #[arg(id = PLACE, value_name = N::WORDS.value, num_args = 0..)]
    #[arg(help = format!("The {}", N::WORDS.several))]
    place: Vec<OsString>,
    #[arg(id = FLAG, short = N::WORDS.short, long = N::WORDS.one, value_name = N::WORDS.value)]
    #[arg(help = format!("A {}, by flag; repeatable", N::WORDS.one))]
    flags: Vec<String>,
    #[arg(skip)]
    kind: PhantomData<fn() -> N>,
}

impl<N: Named> Several<N> {
    /// The names, each once; empty if none is given.
    ///
    /// # Errors
    /// An invalid name: exit 65.
    pub fn given(&self) -> Result<Vec<N::Name>, CliError> {
        let all = self.place.iter().map(OsString::as_os_str);
        once(all.chain(self.flags.iter().map(OsStr::new)).map(|word| N::WORDS.read::<N>(word)))
    }

    /// The names, at least one.
    ///
    /// # Errors
    /// No name: exit 2. An invalid name: exit 65.
    pub fn names(&self) -> Result<Vec<N::Name>, CliError> {
        let names = self.given()?;
        if names.is_empty() { Err(N::WORDS.missing()) } else { Ok(names) }
    }

    /// The names, or the default from the settings.
    ///
    /// # Errors
    /// As [`Several::names`].
    pub fn names_or_usual(&self, settings: &Settings) -> Result<Vec<N::Name>, CliError> {
        match (self.given()?, settings.queue()) {
            (names, Some(usual)) if names.is_empty() => Ok(vec![N::read(&usual)?]),
            (names, _) if names.is_empty() => Err(N::WORDS.missing()),
            (names, _) => Ok(names),
        }
    }

    /// The names as written, which may be patterns.
    pub fn texts(&self) -> Vec<String> {
        let place = self.place.iter().map(|word| word.to_string_lossy().into_owned());
        place.chain(self.flags.iter().cloned()).collect()
    }
}

/// The names, each once: what is in a queue is counted and taken once.
///
/// # Errors
/// The first one of the names.
pub fn once<N: Clone + Eq + Hash, E>(
    names: impl IntoIterator<Item = Result<N, E>>,
) -> Result<Vec<N>, E> {
    let (mut once, mut known) = (Vec::new(), HashSet::new());
    for name in names {
        let name = name?;
        if known.insert(name.clone()) {
            once.push(name);
        }
    }
    Ok(once)
}

/// A name and further words: the first word is the name, unless the flag gives it.
#[derive(Debug, Clone, Args)]
#[group(id = "names", multiple = true)]
pub struct Leading<N: Named> {
    #[arg(id = PLACE, value_name = N::WORDS.value)]
    #[arg(help = format!("The {}, unless given with -{}", N::WORDS.one, N::WORDS.short))]
    place: Option<OsString>,
    #[arg(id = FLAG, short = N::WORDS.short, long = N::WORDS.one, value_name = N::WORDS.value)]
    #[arg(help = format!("The {}, by flag", N::WORDS.one))]
    flag: Option<String>,
    #[arg(skip)]
    kind: PhantomData<fn() -> N>,
}

impl<N: Named> Leading<N> {
    /// The name, and all words that follow it; `rest` are those after the first.
    ///
    /// # Errors
    /// No name: exit 2. An invalid name: exit 65.
    pub fn split(&self, rest: &[OsString]) -> Result<(N::Name, Vec<OsString>), CliError> {
        let words = N::WORDS;
        let (name, first) = match (&self.flag, &self.place) {
            (Some(flag), place) => (words.read::<N>(OsStr::new(flag))?, place.as_ref()),
            (None, Some(place)) => (words.read::<N>(place)?, None),
            (None, None) => return Err(words.missing()),
        };
        Ok((name, first.into_iter().chain(rest).cloned().collect()))
    }

    /// As [`Leading::split`], for words that may be records. Records can name their own, so for them the name is optional,
    /// and a first word that is a record, `@FILE` or `-` is none.
    ///
    /// # Errors
    /// As [`Leading::split`].
    pub fn split_for(
        &self,
        are_records: bool,
        rest: &[OsString],
    ) -> Result<(Option<N::Name>, Vec<OsString>), CliError> {
        let is_record = |word: &OsString| match Argument::parse(word) {
            Argument::Read(_) => true,
            Argument::Literal(text) => text.trim_ascii_start().starts_with(b"{"),
        };
        match (&self.flag, &self.place) {
            (None, None) if are_records => Ok((None, rest.to_vec())),
            (None, Some(first)) if are_records && is_record(first) => {
                Ok((None, std::iter::once(first).chain(rest).cloned().collect()))
            }
            _ => self.split(rest).map(|(name, rest)| (Some(name), rest)),
        }
    }

    /// As [`Leading::split`], with at most one further word.
    ///
    /// # Errors
    /// As [`Leading::split`]; more words: exit 2.
    pub fn split_one(
        &self,
        rest: Option<&OsString>,
    ) -> Result<(N::Name, Option<OsString>), CliError> {
        let (name, rest) = self.split(rest.map_or(&[], std::slice::from_ref))?;
        match <[OsString; 1]>::try_from(rest) {
            Ok([word]) => Ok((name, Some(word))),
            Err(rest) if rest.is_empty() => Ok((name, None)),
            Err(rest) => {
                let last = rest.last().map(|word| word.to_string_lossy().into_owned());
                let last = last.unwrap_or_default();
                let why = format!(
                    "`{last}` is unexpected: -{} already gives the {}",
                    N::WORDS.short,
                    N::WORDS.one
                );
                Err(CliError::usage(why))
            }
        }
    }

    /// Whether the name is given by the flag.
    pub fn is_by_flag(&self) -> bool {
        self.flag.is_some()
    }
}

/// Notes that the first of several bodies is also the name of something that exists, and so may have been meant as a
/// name. `exists` asks the server.
pub fn note_first_body<N: Named>(
    messages: &Messages,
    bodies: &[OsString],
    exists: impl FnOnce(&N::Name) -> bool,
) {
    let words = N::WORDS;
    let [first, _, ..] = bodies else { return };
    let Argument::Literal(_) = Argument::parse(first) else { return };
    let Ok(name) = words.read::<N>(first) else { return };
    if exists(&name) {
        let (first, one, short) = (first.to_string_lossy(), words.one, words.short);
        messages.note(format!(
            "using `{first}` as a body; to select the {one} of that name, use -{short} {first}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Clone)]
    enum Tube {}

    impl Named for Tube {
        type Name = String;
        const WORDS: Words = Words { one: "tube", several: "tubes", short: 't', value: "TUBE" };

        fn read(text: &str) -> Result<String, CliError> {
            if text.is_empty() { Err(CliError::bad_data("empty")) } else { Ok(text.to_owned()) }
        }
    }

    #[derive(Debug, Parser)]
    struct WithOne {
        #[command(flatten)]
        tube: One<Tube>,
    }

    #[derive(Debug, Parser)]
    struct WithSeveral {
        #[command(flatten)]
        tubes: Several<Tube>,
    }

    #[derive(Debug, Parser)]
    struct WithLeading {
        #[command(flatten)]
        tube: Leading<Tube>,
        bodies: Vec<OsString>,
    }

    fn line<'a>(words: &[&'a str]) -> Vec<&'a str> {
        [&["tool"], words].concat()
    }

    #[test]
    fn takes_one_name_by_position_or_by_flag() {
        let name = |words: &[&str]| {
            let name = WithOne::try_parse_from(line(words)).unwrap().tube.name();
            name.map_err(|error| error.exit.code())
        };
        for words in [&["mail"][..], &["-t", "mail"], &["--tube=mail"], &["mail", "-t", "mail"]] {
            assert_eq!(name(words), Ok("mail".to_owned()), "{words:?}");
        }
        assert_eq!(name(&["mail", "-t", "sms"]), Err(2));
        assert_eq!(name(&[]), Err(2));
        assert_eq!(name(&[""]), Err(65));
        assert!(WithOne::try_parse_from(line(&["mail", "sms"])).is_err());
    }

    #[test]
    fn takes_several_names_by_position_and_by_flag() {
        let names = |words: &[&str]| {
            let names = WithSeveral::try_parse_from(line(words)).unwrap().tubes.names();
            names.map_err(|error| error.exit.code())
        };
        assert_eq!(names(&["-t", "c", "a", "b"]).unwrap(), ["a", "b", "c"]);
        assert_eq!(names(&["a", "b", "a", "-t", "b"]).unwrap(), ["a", "b"]);
        assert_eq!(names(&[]), Err(2));
    }

    #[test]
    fn arguments_after_the_name_are_not_names() {
        let split = |words: &[&str]| {
            let parsed = WithLeading::try_parse_from(line(words)).unwrap();
            let (name, rest) =
                parsed.tube.split(&parsed.bodies).map_err(|error| error.exit.code())?;
            Ok((name, rest.join(OsStr::new(" ")).into_string().unwrap()))
        };
        let mail = |rest: &str| Ok(("mail".to_owned(), rest.to_owned()));
        assert_eq!(split(&["mail", "a", "b"]), mail("a b"));
        assert_eq!(split(&["-t", "mail", "a", "b"]), mail("a b"));
        assert_eq!(split(&["a", "b", "-t", "mail"]), mail("a b"));
        assert_eq!(split(&["mail"]), mail(""));
        assert_eq!(split(&[]), Err(2));
        let records = |words: &[&str]| {
            let parsed = WithLeading::try_parse_from(line(words)).unwrap();
            let (name, rest) = parsed.tube.split_for(true, &parsed.bodies).unwrap();
            (name, rest.join(OsStr::new(" ")).into_string().unwrap())
        };
        let none = |rest: &str| (None, rest.to_owned());
        assert_eq!(records(&[]), none(""));
        assert_eq!(records(&["@a", "-"]), none("@a -"));
        assert_eq!(records(&[" {}", "b"]), none(" {} b"));
        assert_eq!(records(&["mail", "@a"]), (Some("mail".to_owned()), "@a".to_owned()));
        assert_eq!(records(&["-t", "mail", "@a"]), (Some("mail".to_owned()), "@a".to_owned()));
        let one = |words: &[&str]| {
            let parsed = WithLeading::try_parse_from(line(words)).unwrap();
            let one = parsed.tube.split_one(parsed.bodies.first());
            one.map(|(_, word)| word).map_err(|error| error.exit.code())
        };
        assert_eq!(one(&["mail", "a"]), Ok(Some("a".into())));
        assert_eq!(one(&["-t", "mail", "a"]), Ok(Some("a".into())));
        assert_eq!(one(&["-t", "mail"]), Ok(None));
        assert_eq!(one(&["-t", "mail", "a", "b"]), Err(2));
    }
}
