//! `:set` and its relatives.

use super::{Flow, Session, help};
use crate::error::CliError;
use crate::repl::shell::{ON_OFF, Setting, Shell, Terminal};

impl<S: Shell> Session<'_, S> {
    pub(super) fn set(
        &mut self,
        name: Option<&str>,
        value: Option<&str>,
        terminal: Option<&mut dyn Terminal>,
    ) -> Result<Flow, CliError> {
        match (name, value) {
            (None, _) => self.show_settings(None)?,
            (Some(name), None) => {
                let settings = self.settings();
                let known = |name: &str| settings.iter().find(|setting| setting.name == name);
                match name.strip_prefix("no").filter(|rest| known(rest).is_some()) {
                    Some(name) => self.change(name, "off", terminal)?,
                    None if known(name).is_some_and(|setting| setting.allowed == ON_OFF) => {
                        self.change(name, "on", terminal)?;
                    }
                    None => self.show_settings(Some(name))?,
                }
            }
            (Some(name), Some(value)) => self.change(name, value, terminal)?,
        }
        Ok(Flow::Next)
    }

    fn change(
        &mut self,
        name: &str,
        value: &str,
        terminal: Option<&mut dyn Terminal>,
    ) -> Result<(), CliError> {
        let settings = self.settings();
        let setting = settings
            .iter()
            .find(|s| s.name == name)
            .ok_or_else(|| unknown_setting(name, &settings))?;
        if !setting.allowed.is_empty() && !setting.allowed.contains(&value) {
            return Err(CliError::usage(format!(
                "{name} cannot be `{value}`: it is one of {}",
                setting.allowed.join(", ")
            )));
        }
        let on = value == "on";
        match name {
            "timing" => self.timing = on,
            "hints" => {
                self.hints = on;
                if let Some(terminal) = terminal {
                    terminal.set_hints(on);
                }
            }
            name => self.shell.set(name, value)?,
        }
        Ok(())
    }

    pub(super) fn show_settings(&mut self, only: Option<&str>) -> Result<(), CliError> {
        let settings = self.settings();
        let mut shown = String::new();
        for setting in settings.iter().filter(|s| only.is_none_or(|name| s.name == name)) {
            shown.push_str(&format!("{}\t{}\t{}\n", setting.name, setting.value, setting.about));
        }
        match only {
            Some(name) if shown.is_empty() => Err(unknown_setting(name, &settings)),
            _ => self.shell.show(&help::columns(&shown)),
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let switch = |name, on: bool, about| {
            let value = if on { "on" } else { "off" }.to_owned();
            Setting { name, value, allowed: ON_OFF, about }
        };
        let mut settings = vec![
            switch("timing", self.timing, "show how long each command takes, not only slow ones"),
            switch("hints", self.hints, "show grey hints while typing"),
        ];
        settings.extend(self.shell.settings());
        settings.sort_by_key(|setting| setting.name);
        settings
    }
}

fn unknown_setting(name: &str, settings: &[Setting]) -> CliError {
    let names: Vec<&str> = settings.iter().map(|setting| setting.name).collect();
    CliError::usage(format!("there is no setting `{name}` (there are: {})", names.join(", ")))
}
