//! The dialer of a tool's connections: which servers, and with what options.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Attempt, Link, ServerArgs};
use queue_core::blocking::Canceller;

use crate::args::GlobalArgs;
use crate::config::{Settings, keys};
use crate::error::{CliError, Exit};
use crate::link::attention::Attention;
use crate::link::plan::{Plan, Target};
use crate::link::tls::{Tls, TlsArgs};
use crate::link::who;
use crate::output::messages::{Filter, Messages, Trace};
use crate::program::Program;
use crate::system::env::{Setting, Source};
use crate::system::signals::Interrupts;
use crate::text::units;

/// The clients' default time limit for connecting.
const USUAL_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server and its options.
type Way<L> = (<L as Link>::Address, <L as Link>::Options);

/// What is known about the servers.
#[derive(Default)]
struct Known {
    /// Their kind is confirmed.
    is_confirmed: AtomicBool,
    /// The user knows that they are slow.
    is_slow: AtomicBool,
}

impl Known {
    fn new(is_confirmed: bool) -> Arc<Self> {
        Arc::new(Self { is_confirmed: AtomicBool::new(is_confirmed), ..Self::default() })
    }

    fn is_confirmed(&self) -> bool {
        self.is_confirmed.load(Ordering::Relaxed)
    }
}

/// Where connections go and how they are made, from flags and environment. Clones use the same servers.
pub struct Dialer<L: Link> {
    target: Target,
    plan: Plan,
    tls: TlsArgs,
    /// Whatever the addresses say.
    transport: Option<String>,
    program: Program,
    settings: Settings,
    globals: GlobalArgs,
    messages: Messages,
    made: Option<Vec<Way<L>>>,
    /// Shared by all clones.
    known: Arc<Known>,
    /// Ends waits for a signal; shared by all clones. None for background connections.
    attention: Option<Attention>,
    /// Ends attempts to connect instead, and no calls.
    outliving: Option<Canceller>,
    /// Ends the wait for a server between two attempts.
    interrupts: Interrupts,
}

impl<L: Link> Clone for Dialer<L> {
    fn clone(&self) -> Self {
        Self {
            target: self.target.clone(),
            plan: self.plan.clone(),
            tls: self.tls.clone(),
            transport: self.transport.clone(),
            program: self.program,
            settings: self.settings.clone(),
            globals: self.globals.clone(),
            messages: self.messages.clone(),
            made: self.made.clone(),
            known: Arc::clone(&self.known),
            attention: self.attention.clone(),
            outliving: self.outliving.clone(),
            interrupts: self.interrupts.clone(),
        }
    }
}

impl<L: Link> Dialer<L> {
    /// From flags and settings; starts and opens nothing yet.
    ///
    /// # Errors
    /// Conflicting flags or an invalid variable: exit 2.
    pub fn new(
        program: &Program,
        (connect, embedded): (&ServerArgs, bool),
        tls: &TlsArgs,
        globals: &GlobalArgs,
        settings: Settings,
        messages: &Messages,
    ) -> Result<Self, CliError> {
        let servers = program.servers;
        let given = connect.addresses();
        if embedded && (given.is_some() || tls.is_given()) {
            let other = if given.is_some() { servers.flag } else { "TLS" };
            return Err(CliError::usage(format!("--embedded cannot be combined with {other}"))
                .hint("only one of them"));
        }
        let target = if embedded {
            Target::Embedded(Arc::default())
        } else {
            let setting = settings.setting(keys::ADDRESS, given, |text| Ok(text.to_owned()))?;
            Target::Named(setting.unwrap_or_else(|| Setting::default(servers.default.to_owned())))
        };
        let plan = Plan::new(globals, &settings)?;
        let mut dialer = Self {
            target: Target::Embedded(Arc::default()),
            plan,
            tls: tls.clone(),
            transport: None,
            program: *program,
            settings,
            globals: globals.clone(),
            messages: messages.clone(),
            made: None,
            known: Known::new(embedded),
            attention: Some(Attention::default()),
            outliving: None,
            interrupts: Interrupts::none(),
        };
        dialer.target(target);
        Ok(dialer)
    }

    /// The servers' addresses as people write them, separated by commas. For `--embedded` this starts the server.
    ///
    /// # Errors
    /// An invalid address: exit 2. The in-memory server cannot be started: exit 69.
    pub fn address(&mut self) -> Result<String, CliError> {
        let all: Vec<String> =
            self.made()?.iter().map(|(address, _)| address.to_string()).collect();
        Ok(all.join(","))
    }

    /// A dialer for each server, with its address. Each learns about its server separately.
    ///
    /// # Errors
    /// As [`Dialer::address`].
    pub fn each(&mut self) -> Result<Vec<(String, Self)>, CliError> {
        let ways = self.made()?.to_vec();
        let is_known = ways.len() == 1 && self.known.is_confirmed();
        let alone = |way: Way<L>| {
            let (address, known) = (way.0.to_string(), Known::new(is_known));
            (address, Self { made: Some(vec![way]), known, ..self.clone() })
        };
        Ok(ways.into_iter().map(alone).collect())
    }

    /// The options of every server.
    ///
    /// # Errors
    /// As [`Dialer::address`]; unusable TLS files.
    pub fn options(&mut self) -> Result<Vec<L::Options>, CliError> {
        Ok(self.made()?.iter().map(|(_, options)| options.clone()).collect())
    }

    /// As [`Dialer::options`], for a worker, which handles signals itself: they end no calls.
    pub(crate) fn options_of_worker(&self) -> Result<Vec<L::Options>, CliError> {
        Self { attention: None, made: None, ..self.clone() }.options()
    }

    /// The options of the first server.
    ///
    /// # Errors
    /// As [`Dialer::options`].
    pub fn first(&mut self) -> Result<L::Options, CliError> {
        let first = self.made()?.first().map(|(_, options)| options.clone());
        first.ok_or_else(|| CliError::usage("no server given"))
    }

    /// The options of the server, for commands that need exactly one.
    ///
    /// # Errors
    /// Several servers: exit 2. Also as [`Dialer::options`].
    pub fn only(&mut self) -> Result<L::Options, CliError> {
        let flag = self.program.servers.flag;
        if let several @ [(first, _), _, ..] = self.made()? {
            let (count, first) = (several.len(), first.to_string());
            let why = format!(
                "this command takes a single server, but {count} are given: {}",
                self.address()?
            );
            return Err(CliError::usage(why).hint(format!("{flag} {first}")));
        }
        self.first()
    }

    /// Where the address comes from.
    pub fn source(&self) -> String {
        self.target.source()
    }

    /// The time limits; for restoring them after a line of a session.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Uses this plan from the next connection on.
    pub(crate) fn set_plan(&mut self, plan: Plan) {
        self.plan = plan;
        self.made = None;
    }

    /// The value of `--timeout`, if set.
    pub fn timeout(&self) -> Option<Duration> {
        self.plan.timeout
    }

    /// The time limit of a whole call, if any.
    pub fn call_bound(&self) -> Option<Duration> {
        self.plan.call_bound(L::WAIT)
    }

    /// Sets the time limit for replies, if given; applies to later connections.
    pub fn bound(&mut self, timeout: Option<Duration>) {
        self.plan.timeout = timeout.or(self.plan.timeout);
    }

    /// Default time limit for connecting and replies, if the flags set none: `ping` and `check` use a short one.
    pub fn default_timeout(&mut self, bound: Duration) {
        self.plan.default_timeout(bound);
        self.made = None;
    }

    /// Switches to other servers, without a context.
    pub(crate) fn retarget(&mut self, addresses: String) {
        self.settings.leave();
        self.go_to(Target::Named(Setting::from(Source::Connect, addresses)));
    }

    /// Switches to the servers and settings of another context.
    ///
    /// # Errors
    /// The context does not exist, or names no server: exit 2.
    pub fn enter(&mut self, context: &str) -> Result<(), CliError> {
        let mut settings = self.settings.clone();
        settings.enter(context)?;
        let address = settings.setting(keys::ADDRESS, None, |text| Ok(text.to_owned()))?;
        let default = || Setting::default(self.program.servers.default.to_owned());
        let plan = Plan::new(&self.globals, &settings)?;
        self.settings = settings;
        self.plan = plan;
        self.go_to(Target::Named(address.unwrap_or_else(default)));
        Ok(())
    }

    /// Warns if an environment variable overrides the servers of the selected context.
    pub(crate) fn say_override(&self) {
        if let Target::Named(setting) = &self.target
            && let (Source::Environment(_), Some(Source::Context(_))) =
                (&setting.source, &setting.over)
        {
            self.messages.note(format!("address {} from {}", setting.value, setting.origin()));
        }
    }

    /// Errors in the addresses are reported where they are used.
    fn target(&mut self, target: Target) {
        let queue = match &target {
            Target::Named(addresses) => L::PARAMETERS.split(&addresses.value).ok(),
            Target::Embedded(_) => None,
        };
        self.settings.expect_queue(queue.and_then(|(_, queue)| queue));
        self.target = target;
    }

    fn go_to(&mut self, target: Target) {
        self.target(target);
        self.transport = None;
        self.made = None;
        self.known = Arc::default();
    }

    /// The protected context of one of these servers, if any; addresses are separated by commas.
    pub(crate) fn protected(&self, addresses: &str) -> Option<&str> {
        let theirs = who::places(addresses);
        let is_theirs = |text: &String| {
            L::parse(text).is_ok_and(|all| {
                all.iter().any(|address| !who::places(&address.to_string()).is_disjoint(&theirs))
            })
        };
        self.settings.config().contexts.iter().find_map(|(name, fields)| {
            let is_protected = fields.get(keys::PROTECTED.name).is_some_and(|text| text == "true");
            let holds = is_protected && fields.get(keys::ADDRESS.name).is_some_and(is_theirs);
            holds.then_some(&**name)
        })
    }

    /// The settings from environment, context and configuration file.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Uses this transport from the next connection on, whatever the addresses say.
    pub fn speak(&mut self, transport: String) {
        self.transport = Some(transport);
        self.made = None;
    }

    /// The messages to stderr.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Uses these messages from now on.
    pub(crate) fn set_messages(&mut self, messages: &Messages) {
        self.messages = messages.clone();
    }

    /// Shows no messages from now on, and signals end no calls.
    pub(crate) fn mute(&mut self) {
        self.messages = self.messages.with_filter(Filter::none());
        self.attention = None;
        self.made = None;
    }

    /// Interrupts end the wait for a server between two attempts from now on.
    pub(crate) fn heed_between_attempts(&mut self, interrupts: &Interrupts) {
        self.interrupts = interrupts.clone();
    }

    /// Signals end connecting, but no calls of later connections: for those that outlive a line of a session, whose
    /// later lines get the signals.
    pub fn outlive(&mut self) {
        self.outliving = Some(Canceller::new());
        self.made = None;
    }

    /// The handle that ends waits for a signal.
    pub(crate) fn attention(&self) -> Option<&Attention> {
        self.attention.as_ref()
    }

    /// A failure, unless it was caused by giving up: then the interruption. What may have been done stays a failure.
    pub(crate) fn unless_cancelled(&self, error: CliError) -> CliError {
        let cancelled = self.attention.as_ref().filter(|attention| attention.is_cancelled());
        let is_failure = matches!(error.exit, Exit::Unavailable | Exit::Timeout);
        match cancelled {
            Some(_) if error.is_unknown() => CliError { code: "GIVEN_UP", ..error },
            Some(attention) if is_failure => attention.interruption(),
            _ => error,
        }
    }

    /// The protocol trace.
    pub fn trace(&self) -> Trace {
        self.messages.trace(self.program.name)
    }

    /// Connects, as long as `--wait-for-server` says; each attempt gets what is left of `--timeout`.
    /// The first connection is used once the server has replied on it: nothing is sent to a server of another kind. One
    /// that is silent is looked at meanwhile, and ends the attempt if it says what it is.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub fn open<T>(
        &mut self,
        mut attempt: impl FnMut(Attempt) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let is_known = self.known.is_confirmed();
        let (address, source, servers) = (self.address()?, self.source(), self.servers()?);
        let asks = self.plan.wait_for_server.is_some();
        let place = (&*address, &*source);
        let attention = self.attention.clone().unwrap_or_default();
        let canceller = self.outliving.clone().unwrap_or_else(|| attention.canceller());
        let mut attempt = |bounds| attempt(bounds).map_err(|error| who::silent(error, &servers));
        let attempt = |left: Option<Duration>| {
            if is_known {
                return attempt(Attempt { asks, left, canceller: None });
            }
            let (started, own) = (Instant::now(), canceller.child());
            let first = Attempt { asks: true, left, canceller: Some(own.clone()) };
            let (patience, slow) = (self.plan.first_reply, self.slow_note(&address));
            let watch = who::Watch::begin(patience, &servers, &self.program, own, slow);
            let opened = attempt(first).map_err(|error| match watch.verdict() {
                _ if attention.is_cancelled() => error,
                Some(verdict) => verdict,
                None => {
                    let rest = left.map(|left| left.saturating_sub(started.elapsed()));
                    who::explain(error, &self.program, &servers, rest)
                }
            });
            let opened =
                opened.map_err(|error| CliError { message: error.at(&address), ..error })?;
            self.known.is_confirmed.store(true, Ordering::Relaxed);
            Ok(opened)
        };
        let mut attempt = attempt;
        let attempt = |left: Option<Duration>| {
            self.interrupts.check()?;
            let opened = attempt(left);
            // Nothing was sent.
            let interrupted = |_| attention.interruption();
            if attention.is_cancelled() { opened.map_err(interrupted) } else { opened }
        };
        attention.connecting(canceller.clone(), || {
            self.plan.open(place, self.program.name, &self.messages, attempt)
        })
    }

    /// Says once that the servers at this address are slow.
    fn slow_note(&self, address: &str) -> impl FnOnce() + Send + 'static {
        let (known, messages) = (Arc::clone(&self.known), self.messages.clone());
        let patience = units::show_duration(self.plan.first_reply);
        let text = format!("{address} has not answered within {patience}: still waiting");
        move || {
            if messages.shows_progress() && !known.is_slow.swap(true, Ordering::Relaxed) {
                messages.note(text);
            }
        }
    }

    /// Adds to a failure what is listening instead, unless a server has already replied correctly.
    pub fn explained(&mut self, error: CliError) -> CliError {
        let has_time = !error.is_late() || self.plan.timeout.is_none();
        let is_cancelled = self.attention.as_ref().is_some_and(Attention::is_cancelled);
        if self.known.is_confirmed() || !has_time || is_cancelled {
            return error;
        }
        let servers = self.servers().unwrap_or_default();
        who::explain(error, &self.program, &servers, None)
    }

    /// The servers, to look at what is listening there.
    fn servers(&mut self) -> Result<Vec<who::Server>, CliError> {
        let server = |(address, _): &Way<L>| who::Server {
            address: address.to_string(),
            is_tls: L::is_tls(address),
        };
        Ok(self.made()?.iter().map(server).collect())
    }

    fn made(&mut self) -> Result<&[Way<L>], CliError> {
        let made = match self.made.take() {
            Some(made) => made,
            None => self.make()?,
        };
        Ok(self.made.insert(made))
    }

    fn make(&self) -> Result<Vec<Way<L>>, CliError> {
        let text = self.target.address(&self.messages, || L::start("127.0.0.1:0", None))?;
        let addresses = L::parse(&text).map_err(|error| {
            CliError::setting(format!("{} (address from {})", error.message, self.source()))
        })?;
        let is_over_tls = self.settings.is_on(keys::TLS, self.tls.is_given());
        let over_tls = |address| if is_over_tls { L::over_tls(address) } else { address };
        let spoken_to = |address| match &self.transport {
            Some(transport) => L::by(address, transport),
            None => Ok(address),
        };
        let addresses = addresses.into_iter().map(over_tls).map(spoken_to);
        let addresses = addresses.collect::<Result<Vec<L::Address>, CliError>>()?;
        let any_tls = addresses.iter().any(L::is_tls);
        let tls = self.tls.read(any_tls, self.program.name, &self.settings, &self.messages)?;
        let with_options = |address: L::Address| {
            let mut options = options::<L>(address.clone(), &self.plan, tls.as_ref());
            if let Some(attention) = &self.attention {
                let own = self.outliving.clone().unwrap_or_else(|| attention.canceller());
                options = (L::SETTERS.canceller)(options, own);
            }
            (address, options)
        };
        Ok(addresses.into_iter().map(with_options).collect())
    }
}

/// The options for a server under this plan.
fn options<L: Link>(address: L::Address, plan: &Plan, tls: Option<&Tls>) -> L::Options {
    let set = L::SETTERS;
    let mut options = L::Options::from(address);
    if let Some(bound) = plan.connect_bound(USUAL_CONNECT_TIMEOUT) {
        options = (set.connect_timeout)(options, bound);
    }
    if let Some(bound) = plan.timeout {
        options = (set.write_timeout)(options, bound);
        options = (set.reply_timeout)(options, bound);
    }
    options = (set.total_timeout)(options, plan.call_bound(L::WAIT));
    if let (Some(set), Some(interval)) = (set.ping_interval, plan.ping_interval) {
        options = set(options, Some(interval).filter(|interval| !interval.is_zero()));
    }
    #[cfg(feature = "tls")]
    if let Some(tls) = tls {
        options = L::with_tls(options, tls.clone());
    }
    #[cfg(not(feature = "tls"))]
    let _ = tls;
    options
}
