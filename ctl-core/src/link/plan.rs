//! Reaching servers: addresses and time limits.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::args::GlobalArgs;
use crate::config::{Settings, keys};
use crate::error::CliError;
use crate::link::CONNECT;
use crate::output::messages::{Level, Messages};
use crate::output::progress::Wait;
use crate::system::env::{Setting, Source};
use crate::text::units;

/// The servers; `S` is an in-memory one.
#[derive(Debug, Clone)]
pub enum Target {
    /// At these addresses, as people write them.
    Named(Setting<String>),
    /// The in-memory server in this process, with its address; it lives until the last clone is dropped.
    Embedded(Arc<OnceLock<(Box<dyn Any + Send + Sync>, String)>>),
}

impl Target {
    /// Where the address comes from.
    pub fn source(&self) -> String {
        match self {
            Self::Named(setting) => setting.origin(),
            Self::Embedded(_) => Source::Flag("--embedded").to_string(),
        }
    }

    /// The address. Starts the in-memory server if necessary.
    ///
    /// # Errors
    /// The server cannot be started: exit 69.
    pub fn address<S: Any + Send + Sync>(
        &self,
        messages: &Messages,
        start: impl FnOnce() -> std::io::Result<(S, String)>,
    ) -> Result<String, CliError> {
        let cell = match self {
            Self::Named(setting) => return Ok(setting.value.clone()),
            Self::Embedded(cell) => cell,
        };
        if let Some((_, address)) = cell.get() {
            return Ok(address.clone());
        }
        let (server, address) = start().map_err(|error| {
            CliError::unavailable(format!("cannot start the in-memory server: {error}"))
        })?;
        messages.note(format!("embedded server on {address}"));
        // It was empty, so nothing is dropped.
        let _ = cell.set((Box::new(server), address.clone()));
        Ok(address)
    }
}

/// Time limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Time limit for connecting. Without one, the client's own applies, or the reply timeout if that is shorter.
    pub connect_timeout: Option<Duration>,
    /// Time limit for each reply, including reconnects. Without one, the client's own limits apply to each
    /// step.
    pub timeout: Option<Duration>,
    /// How long a server may be silent at first before it is looked at: longer where connecting may take longer.
    pub(crate) first_reply: Duration,
    /// How long to wait for the server to answer.
    pub wait_for_server: Option<Duration>,
    /// The idle time before a ping; 0 for no pings. Without one, the client's own.
    pub ping_interval: Option<Duration>,
}

/// How long a server may be silent at first before it is looked at, and its share of a time limit for connecting.
const FIRST_REPLY: Duration = Duration::from_secs(1);
const FIRST_REPLY_SHARE: u32 = 5;

/// Pause after the first attempt; each further pause doubles, up to a second.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

impl Plan {
    /// From flags, environment, context and file.
    ///
    /// # Errors
    /// An invalid variable: exit 2.
    pub fn new(globals: &GlobalArgs, settings: &Settings) -> Result<Self, CliError> {
        let bound = |key, given| {
            let setting = settings.setting(key, given, units::duration)?;
            Ok::<_, CliError>(setting.map(|setting| setting.value))
        };
        let connect_timeout = bound(keys::CONNECT_TIMEOUT, None)?;
        let longer = connect_timeout.map(|most| most / FIRST_REPLY_SHARE);
        Ok(Self {
            connect_timeout,
            first_reply: longer.unwrap_or_default().max(FIRST_REPLY),
            timeout: bound(keys::TIMEOUT, globals.timeout)?,
            wait_for_server: bound(keys::WAIT_FOR_SERVER, globals.wait_for_server)?,
            ping_interval: bound(keys::PING_INTERVAL, None)?,
        })
    }

    /// Time limit for connecting, if it differs from the client's own: connecting never takes longer than a reply may.
    pub(crate) fn connect_bound(&self, own: Duration) -> Option<Duration> {
        self.connect_timeout.or(self.timeout.filter(|bound| *bound < own))
    }

    /// Time limit for a whole call; `waits` is how long the server may be asked to wait before it replies.
    pub fn call_bound(&self, waits: Duration) -> Option<Duration> {
        self.timeout.map(|bound| bound.saturating_add(waits))
    }

    /// Default time limit for connecting and replies, if the flags set none.
    pub fn default_timeout(&mut self, bound: Duration) {
        self.connect_timeout = self.connect_timeout.or(self.timeout).or(Some(bound));
        self.timeout = self.timeout.or(Some(bound));
    }

    /// Connects, again and again for as long as `--wait-for-server` says. Each attempt gets what remains of `--timeout`,
    /// or of `--wait-for-server` if that is longer; none starts after that. `place` is the address and its source.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub fn open<T>(
        &self,
        (address, source): (&str, &str),
        tool: &'static str,
        messages: &Messages,
        mut attempt: impl FnMut(Option<Duration>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let label = format!("waiting for {address}");
        let wait = Wait::new(messages, label, self.wait_for_server).showing(messages);
        let mut shown = wait.shown();
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match attempt(self.left(wait.elapsed())) {
                Ok(opened) => {
                    messages.decision(format!("connected to {address} ({source})"));
                    return Ok(opened);
                }
                Err(error) if error.code == "INTERRUPTED" => return Err(error),
                Err(error) => error,
            };
            let next = wait.elapsed().saturating_add(pause);
            if self.wait_for_server.is_none_or(|bound| next >= bound) {
                // The address was just typed, so its source is obvious.
                return Err(if source == CONNECT {
                    error
                } else {
                    error.remark(format!("(address from {source})"))
                });
            }
            shown.see(&error.message);
            messages.log(Level::Debug, tool, &format!("{error}; retrying in {pause:?}"));
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// The time left for connecting, if `--timeout` is set.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let bound = self.timeout?.max(self.wait_for_server.unwrap_or_default());
        Some(bound.saturating_sub(elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SettingsArgs;
    use crate::program::TOOL;
    use crate::system::env::Environment;
    use std::io;

    fn plan(globals: &GlobalArgs, variables: &[(&str, &str)]) -> Plan {
        let environment = Environment::of(variables);
        let settings = Settings::without_file(&TOOL, &SettingsArgs::default(), environment);
        Plan::new(globals, &settings).unwrap()
    }

    fn silent() -> Messages {
        Messages::to(Box::new(io::sink()), "tool", false, false)
    }

    #[test]
    fn retries_until_the_wait_ends_and_names_the_source() {
        let tries = |wait_for_server| {
            let plan = plan(&GlobalArgs { wait_for_server, ..GlobalArgs::default() }, &[]);
            let mut tries = 0;
            let outcome: Result<(), _> =
                plan.open(("host:1", "flag --x"), "tool", &silent(), |_| {
                    tries += 1;
                    Err(CliError::unavailable("nobody listens"))
                });
            let error = outcome.unwrap_err();
            assert!(error.message.contains("flag --x"), "{error}");
            tries
        };
        assert_eq!((tries(None), tries(Some(FIRST_PAUSE / 2))), (1, 1));
        assert!(tries(Some(FIRST_PAUSE * 4)) > 1);
    }

    #[test]
    fn the_embedded_server_is_started_once() {
        let target = Target::Embedded(Arc::default());
        let copy = target.clone();
        let address = |target: &Target, number: u8| {
            target.address(&silent(), || Ok((number, number.to_string()))).unwrap()
        };
        assert_eq!((address(&target, 7), address(&copy, 8)), ("7".to_owned(), "7".to_owned()));
        assert_eq!(copy.source(), "flag --embedded");
        let refused = || Err::<((), String), _>(io::ErrorKind::AddrInUse.into());
        let error = Target::Embedded(Arc::default()).address(&silent(), refused);
        assert_eq!(error.unwrap_err().exit.code(), 69);
    }

    #[test]
    fn a_connection_attempt_gets_the_remaining_timeout() {
        let seconds = Duration::from_secs;
        let plan = |timeout, wait_for_server| {
            let globals = GlobalArgs { timeout, wait_for_server, ..GlobalArgs::default() };
            plan(&globals, &[])
        };
        let two = Some(seconds(2));
        assert_eq!(plan(two, Some(seconds(30))).left(seconds(10)), Some(seconds(20)));
        assert_eq!(plan(two, None).left(seconds(3)), Some(Duration::ZERO));
        assert_eq!(plan(None, Some(seconds(30))).left(seconds(3)), None);
    }

    #[test]
    fn a_short_timeout_bounds_connecting_and_whole_calls() {
        let seconds = Duration::from_secs;
        let plan = |connect_timeout, timeout| {
            let globals = GlobalArgs { timeout, ..GlobalArgs::default() };
            Plan { connect_timeout, ..plan(&globals, &[]) }
        };
        assert_eq!(plan(None, Some(seconds(2))).connect_bound(seconds(5)), Some(seconds(2)));
        assert_eq!(plan(None, Some(seconds(9))).connect_bound(seconds(5)), None);
        let both = plan(Some(seconds(1)), Some(seconds(9)));
        assert_eq!(both.connect_bound(seconds(5)), Some(seconds(1)));
        assert_eq!(both.call_bound(seconds(1)), Some(seconds(10)));
        assert_eq!(plan(None, None).call_bound(seconds(1)), None);
    }

    #[test]
    fn flags_bound_before_defaults_do() {
        let mut plan = plan(&GlobalArgs::default(), &[("TOOL_TIMEOUT", "7")]);
        plan.default_timeout(Duration::from_secs(2));
        let seven = Some(Duration::from_secs(7));
        assert_eq!((plan.timeout, plan.connect_timeout), (seven, seven));
    }
}
