//! The settings of a command line: flags, environment, context and configuration file, in order of precedence.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgMatches, Args, parser::ValueSource};

use super::file::{Config, Place};
use super::keys::{self, ADDRESS, Key, PROMPT_COLOR, PROTECTED, QUEUE};
use crate::error::CliError;
use crate::program::Program;
use crate::system::env::{Environment, Setting, Source, word};
use crate::text::color::{Role, Tint};
use crate::text::escape;

/// The value name of an argument for a context.
pub(crate) const CONTEXT: &str = "CONTEXT";

/// Flags that say where other settings come from.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct SettingsArgs {
    /// Use this configuration file
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Use the settings of this context, which override the environment; an empty name for none
    #[arg(long, global = true, value_name = CONTEXT)]
    pub context: Option<String>,
}

/// The context in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub name: String,
    /// The source of its selection: a flag, the environment, the file, or `connect` in a session.
    pub source: Source,
}

/// The settings of the environment, a context and the configuration file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The environment.
    pub environment: Environment,
    program: Program,
    place: Option<Place>,
    config: Arc<Config>,
    chosen: Option<Chosen>,
    /// Whether the servers differ from those of the file.
    is_elsewhere: bool,
    given: Arc<Vec<(Key, String)>>,
    /// The queue that the servers' addresses name.
    of_address: Option<String>,
    trouble: Option<Arc<CliError>>,
}

impl Settings {
    /// Reads the configuration file, and finds the selected context. `embedded` servers belong to no context.
    ///
    /// # Errors
    /// The file is invalid, or the context does not exist: exit 2. Conflicting flags: exit 2.
    pub fn load(
        program: &Program,
        args: &SettingsArgs,
        embedded: bool,
        environment: Environment,
    ) -> Result<Self, CliError> {
        if embedded && args.context.as_ref().is_some_and(|name| !name.is_empty()) {
            let text = "--embedded cannot be combined with --context";
            return Err(CliError::usage(text).hint("only one of them"));
        }
        let mut settings = Self::without_file(program, args, environment);
        settings.is_elsewhere = embedded;
        if let Some(place) = &settings.place {
            settings.config = Arc::new(place.read(program)?);
        }
        if !embedded {
            settings.chosen = settings.find(args)?;
        }
        Ok(settings)
    }

    /// The same without the file, for commands that work even if it is invalid.
    #[must_use]
    pub(crate) fn without_file(
        program: &Program,
        args: &SettingsArgs,
        environment: Environment,
    ) -> Self {
        let place = Place::find(args.config.as_deref(), program, &environment);
        Self {
            environment,
            program: *program,
            place,
            config: Arc::default(),
            chosen: None,
            is_elsewhere: false,
            given: Arc::default(),
            of_address: None,
            trouble: None,
        }
    }

    /// Adds the flags and their values; those of TLS are `tls`.
    #[must_use]
    pub(crate) fn with_flags(
        mut self,
        line: &ArgMatches,
        tls: impl Iterator<Item = (Key, String)>,
    ) -> Self {
        let words = |key: Key| {
            let id = key.flag(&self.program).strip_prefix("--")?.replace('-', "_");
            let is_given = line.value_source(&id) == Some(ValueSource::CommandLine);
            let words = line.get_raw(&id).filter(|_| is_given);
            let words: Vec<_> = words?.map(|word| word.to_string_lossy()).collect();
            Some((key, words.join(",")))
        };
        let is_other = |key: &Key| !key.name.starts_with(keys::TLS.name);
        let others = keys::all(&self.program).filter(is_other).filter_map(words);
        self.given = Arc::new(others.chain(tls).collect());
        self
    }

    /// Adds why the file is not used.
    #[must_use]
    pub(crate) fn with_trouble(mut self, error: CliError) -> Self {
        self.trouble = Some(Arc::new(error));
        self
    }

    /// Refuses to continue without a valid file.
    ///
    /// # Errors
    /// Why the file could not be read.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        self.trouble().cloned().map_or(Ok(()), Err)
    }

    /// Why the file is not used, although it exists.
    pub(crate) fn trouble(&self) -> Option<&CliError> {
        self.trouble.as_deref()
    }

    /// The values of flags.
    pub fn given(&self) -> &[(Key, String)] {
        &self.given
    }

    fn find(&self, args: &SettingsArgs) -> Result<Option<Chosen>, CliError> {
        let variable = format!("{}_CONTEXT", self.program.prefix);
        let chosen = if let Some(name) = &args.context {
            if name.is_empty() {
                return Ok(None);
            }
            Chosen { name: name.clone(), source: Source::Flag("--context") }
        } else if let Some(name) = self.environment.var(&variable) {
            Chosen { name, source: Source::Environment(variable) }
        } else if let Some(name) = &self.config.selected {
            Chosen { name: name.clone(), source: Source::File }
        } else {
            return Ok(None);
        };
        self.require(&chosen.name).map_err(|error| match &chosen.source {
            Source::Flag(_) => error,
            source => error.remark(format!("(the context came from: {source})")),
        })?;
        Ok(Some(chosen))
    }

    /// Rejects the name of a missing context.
    fn require(&self, name: &str) -> Result<(), CliError> {
        if self.config.contexts.contains_key(name) {
            return Ok(());
        }
        let tool = self.program.name;
        let known: Vec<&str> = self.config.contexts.keys().map(String::as_str).collect();
        let file = self.place.as_ref().map_or_else(|| "no file".to_owned(), Place::shown);
        let error =
            CliError::config(format!("there is no context `{}` in {file}", escape::line(name)));
        let error = match known.as_slice() {
            [] => error.hint(format!("{tool} context add {}", escape::line(name))),
            known => error.hint(format!("one of {}", known.join(", "))),
        };
        Err(error.hint("--context=, to use none"))
    }

    /// The location of the configuration file, which may not exist.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// The content of the configuration file.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The selected context.
    pub fn chosen(&self) -> Option<&Chosen> {
        self.chosen.as_ref()
    }

    /// Switches to another context.
    ///
    /// # Errors
    /// It does not exist: exit 2.
    pub fn enter(&mut self, name: &str) -> Result<(), CliError> {
        self.require(name)?;
        self.chosen = Some(Chosen { name: name.to_owned(), source: Source::Connect });
        self.is_elsewhere = false;
        Ok(())
    }

    /// Switches to servers that belong to no context.
    pub fn leave(&mut self) {
        self.chosen = None;
        self.is_elsewhere = true;
    }

    /// Sets the queue that the servers' addresses name.
    pub(crate) fn expect_queue(&mut self, queue: Option<String>) {
        self.of_address = queue;
    }

    /// The values from environment, context and file, in order of precedence. A context named on the command line
    /// overrides the environment, and a queue named by the servers' addresses overrides all.
    fn layers(&self, key: Key) -> Vec<(Source, String)> {
        let name = key.name;
        let variable = |variable: String| {
            let text = self.environment.var(&variable)?;
            Some((Source::Environment(variable), text))
        };
        let mut layers: Vec<_> =
            key.variables(&self.program).into_iter().filter_map(variable).collect();
        let is_of_servers = key == ADDRESS || name.starts_with(keys::TLS.name);
        if self.is_elsewhere && (is_of_servers || key == PROTECTED) {
            return layers;
        }
        if let Some(Chosen { name: context, source }) = &self.chosen {
            let fields = self.config.contexts.get(context);
            let text = fields.and_then(|fields| fields.get(name));
            let layer = text.map(|text| (Source::Context(context.clone()), text.clone()));
            let is_told = matches!(source, Source::Flag(_) | Source::Connect);
            let at = if is_told { 0 } else { layers.len() };
            layers.splice(at..at, layer);
        }
        let default = self.config.defaults.get(name);
        layers.extend(default.map(|text| (Source::File, text.clone())));
        let named = self.of_address.clone().filter(|_| key == QUEUE);
        layers.splice(0..0, named.map(|queue| (Source::Address, queue)));
        layers
    }

    /// The flag's value if there is one, otherwise the first of the rest in order of precedence, parsed by `parse`.
    ///
    /// # Errors
    /// A variable that `parse` rejects: exit 2, with the variable's name.
    pub fn setting<T>(
        &self,
        key: Key,
        given: Option<T>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Setting<T>>, CliError> {
        let mut layers = self.layers(key).into_iter();
        let read = |(source, text): (Source, String)| match parse(&text) {
            Ok(value) => Ok((source, value)),
            Err(why) => Err(source.refused(&why)),
        };
        let flag = |value| Ok((Source::Flag(key.flag(&self.program)), value));
        let found = given.map(flag).or_else(|| layers.next().map(read)).transpose()?;
        let below = layers.next().map(|(source, _)| source);
        let said = |(source, value)| {
            // One variable overriding another is no surprise.
            let is_said = |below: &Source| match below {
                Source::Context(_) => true,
                Source::Environment(_) => matches!(source, Source::Context(_)),
                _ => false,
            };
            Setting { over: below.filter(is_said), value, source }
        };
        Ok(found.map(said))
    }

    /// A setting as text, including a given flag.
    ///
    /// # Errors
    /// A variable with an invalid value: exit 2.
    pub fn text(&self, key: Key) -> Result<Option<Setting<String>>, CliError> {
        let given = self.given.iter().find(|(of, _)| *of == key);
        let check = |text: &str| key.check(text, &self.program).map(|()| text.to_owned());
        self.setting(key, given.map(|(_, text)| text.clone()), check)
    }

    /// Whether a switch is on.
    pub fn is_on(&self, key: Key, flag: bool) -> bool {
        let read = |text: &str| Ok(text == "true");
        let setting = self.setting(key, flag.then_some(true), read);
        setting.ok().flatten().is_some_and(|setting| setting.value)
    }

    /// The queue for commands without a name, from a context or the file.
    pub fn queue(&self) -> Option<String> {
        let setting = self.setting(QUEUE, None, |text| Ok(text.to_owned()));
        setting.ok().flatten().map(|setting| setting.value)
    }

    /// The word to type before a change to something protected: the context's name, or else `address`.
    pub fn lock(&self, address: impl FnOnce() -> String) -> Option<String> {
        let is_protected = self.is_on(PROTECTED, false);
        is_protected.then(|| match &self.chosen {
            Some(chosen) => chosen.name.clone(),
            None => address(),
        })
    }

    /// The start of a session's prompt: the context, and whether it is protected.
    pub fn mark(&self) -> Option<(String, Role)> {
        let name = self.chosen.as_ref().map(|chosen| chosen.name.as_str());
        if self.is_on(PROTECTED, false) {
            // Not marked by colour alone.
            return Some((format!("{}!", name.unwrap_or("protected")), Role::Error));
        }
        let tint = self.setting(PROMPT_COLOR, None, word::<Tint>).ok().flatten();
        let role = tint.map_or(Role::Heading, |setting| Role::Tint(setting.value));
        name.map(|name| (name.to_owned(), role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::TOOL;

    fn settings(text: &str, args: &SettingsArgs) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, text).unwrap();
        let args = SettingsArgs { config: Some(file), ..args.clone() };
        Settings::load(&TOOL, &args, false, Environment::of(&[])).unwrap()
    }

    #[test]
    fn the_prompt_marks_protected_contexts_without_colour() {
        let none = SettingsArgs::default();
        let file = "context = \"a\"\n[contexts.a]\nprompt-color = \"blue\"\n[contexts.b]\nprotected = true\n";
        let mark = |args: &SettingsArgs| settings(file, args).mark();
        assert_eq!(mark(&none), Some(("a".to_owned(), Role::Tint(Tint::Blue))));
        let b = SettingsArgs { context: Some("b".into()), ..none.clone() };
        assert_eq!(mark(&b), Some(("b!".to_owned(), Role::Error)));
        let free = SettingsArgs { context: Some(String::new()), ..none };
        assert_eq!(mark(&free), None);
        let all = settings("[defaults]\nprotected = true\n", &free);
        assert_eq!(all.mark(), Some(("protected!".to_owned(), Role::Error)));
    }

    #[test]
    fn addresses_given_in_a_session_belong_to_no_context() {
        let file = "context = \"a\"\n[defaults]\ntimeout = 3\ntls = true\n[contexts.a]\nprotected = true\ntube = \"t\"\n";
        let mut settings = settings(file, &SettingsArgs::default());
        let lock = |settings: &Settings| settings.lock(|| "host:1".to_owned());
        assert_eq!(
            (lock(&settings).as_deref(), settings.queue().as_deref()),
            (Some("a"), Some("t"))
        );
        settings.leave();
        assert_eq!((lock(&settings), settings.queue()), (None, None));
        assert!(!settings.is_on(keys::TLS, false));
        let timeout = settings.setting(keys::TIMEOUT, None, |text| Ok(text.to_owned()));
        assert_eq!(timeout.unwrap().unwrap().value, "3");
        assert_eq!(settings.enter("b").unwrap_err().exit.code(), 2);
        settings.enter("a").unwrap();
        assert_eq!(lock(&settings).as_deref(), Some("a"));
    }

    #[test]
    fn relative_paths_start_at_the_configuration_file() {
        let file = "[defaults]\ntls-ca = \"ca.pem\"\ntls-key = \"/k.pem\"\n";
        let settings = settings(file, &SettingsArgs::default());
        let folder = settings.place().unwrap().path.parent().unwrap().to_owned();
        let find = |name: &str| settings.config().defaults.get(name).unwrap().clone();
        assert_eq!(PathBuf::from(find("tls-ca")), folder.join("ca.pem"));
        assert_eq!(find("tls-key"), "/k.pem");
    }
}
