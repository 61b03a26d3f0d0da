//! The way to the servers: where they are, how they are reached, and what a tool does over its connections.

pub mod absence;
pub mod dial;
pub mod fleet;
pub mod tls;
pub mod who;

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fixtures::fault::Faults;

use crate::commands::serve::Endpoint;
use crate::config::file::Config;
use crate::config::{Setting, Settings, Source, keys};
use crate::error::{CliError, Exit};
use crate::link::dial::{Plan, Target};
use crate::link::tls::{Tls, TlsArgs};
use crate::output::messages::{Messages, Trace};
use crate::output::{Column, Shape};
use crate::tool::args::GlobalArgs;
use crate::tool::program::Program;

/// The connections of a tool, opened when they are first needed.
pub trait Link: Sized + Send {
    /// Where one server listens; shown as people write it.
    type Address: Clone + Display + Send;
    /// What a connection to one server is made from.
    type Options: Clone + Send + From<Self::Address>;
    /// An in-memory server, which runs until it is dropped.
    type Server: Send + Sync;

    /// How options are told what flags say.
    const SETTERS: Setters<Self::Options>;

    /// The longest that one request asks the server to wait before it answers.
    const WAIT: Duration = Duration::ZERO;

    /// The columns of `ping`.
    const PING: &'static Shape = &PING;

    /// Connections that this dialer makes; none is opened yet.
    fn new(dialer: Dialer<Self>) -> Self;

    /// Where connections go.
    fn dialer(&self) -> &Dialer<Self>;

    /// As [`Link::dialer`], to change it.
    fn dialer_mut(&mut self) -> &mut Dialer<Self>;

    /// Reads the servers' addresses.
    ///
    /// # Errors
    /// One cannot be an address.
    fn parse(text: &str) -> Result<Vec<Self::Address>, CliError>;

    /// The same server, spoken to in the way that [`Connect::transport`] names.
    ///
    /// # Errors
    /// There is no such way: exit 2.
    fn by(address: Self::Address, _transport: &str) -> Result<Self::Address, CliError> {
        Ok(address)
    }

    /// The same server over TLS, where there is such a thing.
    fn over_tls(address: Self::Address) -> Self::Address;

    /// Whether connections to it are over TLS.
    fn is_tls(address: &Self::Address) -> bool;

    /// Trusts and shows these certificates.
    #[cfg(feature = "tls")]
    fn with_tls(options: Self::Options, _tls: Tls) -> Self::Options {
        options
    }

    /// Starts an in-memory server, and gives the address that it is bound to.
    ///
    /// # Errors
    /// Nothing can listen there.
    fn start(listen: Endpoint, log: Option<RequestLog>) -> io::Result<(Self::Server, String)>;

    /// The faults of an in-memory server.
    fn faults(server: &Self::Server) -> Faults;

    /// Opens the connection that commands use, if it is not.
    ///
    /// # Errors
    /// No server can be reached: exit 69.
    fn connect(&mut self) -> Result<(), CliError>;

    /// Closes all connections.
    fn close(&mut self);

    /// A command has ended, and its output is out: closes what only that command needed.
    fn rest(&mut self) {}

    /// Other connections to the same servers, none yet open.
    #[must_use]
    fn sibling(&self) -> Self {
        Self::new(self.dialer().clone())
    }

    /// Other connections, none yet open: to the server at `to`, with its address, or without it to the same servers. A
    /// server that this link goes to already, whatever name it is given, is no other.
    ///
    /// # Errors
    /// Those of [`Dialer::address`].
    fn elsewhere(&mut self, to: Option<&str>) -> Result<(Self, Option<String>), CliError> {
        let mut other = self.sibling();
        let Some(to) = to else { return Ok((other, None)) };
        other.dialer_mut().retarget(to.to_owned());
        let address = other.dialer_mut().address()?;
        let own = who::places(&self.dialer_mut().address()?);
        match who::places(&address).is_disjoint(&own) {
            true => Ok((other, Some(address))),
            false => Ok((self.sibling(), None)),
        }
    }

    /// A link to each server alone, none yet connected, with its address.
    ///
    /// # Errors
    /// Those of [`Dialer::address`].
    fn each(&mut self) -> Result<Vec<(String, Self)>, CliError> {
        let each = self.dialer_mut().each()?;
        Ok(each.into_iter().map(|(address, dialer)| (address, Self::new(dialer))).collect())
    }

    /// A round trip to the server, the `n`th.
    ///
    /// # Errors
    /// The failure of the connection.
    fn ping(&mut self, n: u64) -> Result<Pong, CliError>;
}

/// Is told each request to an in-memory server, with the number of its connection.
pub type RequestLog = Box<dyn FnMut(u64, &str) + Send>;

/// What a ping has shown.
#[derive(Debug, Clone)]
pub struct Pong {
    /// From the request to its answer.
    pub took: Duration,
    /// A further column: its key, and what it has.
    pub more: Option<(&'static str, &'static str)>,
}

/// How what a connection is made from is told what flags say: its methods.
#[derive(Debug, Clone, Copy)]
pub struct Setters<O> {
    /// Bounds connecting.
    pub connect_timeout: fn(O, Duration) -> O,
    /// Bounds the sending of a request.
    pub write_timeout: fn(O, Duration) -> O,
    /// Bounds the wait for an answer.
    pub reply_timeout: fn(O, Duration) -> O,
    /// Bounds a whole call, if there is a bound.
    pub total_timeout: fn(O, Option<Duration>) -> O,
    /// Tries again so often.
    pub retry: fn(O, u32) -> O,
}

/// How a server is connected to by this plan.
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
    if let Some(times) = plan.retry {
        options = (set.retry)(options, times);
    }
    #[cfg(feature = "tls")]
    if let Some(tls) = tls {
        options = L::with_tls(options, tls.clone());
    }
    #[cfg(not(feature = "tls"))]
    let _ = tls;
    options
}

/// How long the clients try to connect when nobody says.
const USUAL_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What an attempt to connect has to do.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// The server has to answer, too.
    pub asks: bool,
    /// What is left of `--timeout`, if there is one.
    pub left: Option<Duration>,
}

impl Attempt {
    /// Options whose calls take no longer than what is left.
    #[must_use]
    pub fn bound<L: Link>(&self, options: &L::Options) -> L::Options {
        let options = options.clone();
        if self.left.is_some() { (L::SETTERS.total_timeout)(options, self.left) } else { options }
    }
}

static PING: Shape = Shape::rows(
    "address",
    &[
        Column::new("address", "SERVER"),
        Column::new("n", "N"),
        Column::new("ms", "MS"),
        Column::on_request("error", "ERROR"),
    ],
);

/// The flags that say which servers.
pub trait Connect {
    /// The addresses that they give, with commas between them.
    fn addresses(&self) -> Option<String>;

    /// How servers are spoken to, whatever their addresses say.
    fn transport(&self) -> Option<String> {
        None
    }
}

/// How servers are spoken to, where something says it.
fn transport(flag: Option<String>, settings: &Settings) -> Result<Option<String>, CliError> {
    let flag = ("--transport", flag);
    let setting = settings.setting(keys::TRANSPORT, flag, |text| Ok(text.to_owned()))?;
    Ok(setting.map(|setting| setting.value))
}

/// How long the first answer may take before it is asked who is there.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// A server, and how it is connected to.
type Way<L> = (<L as Link>::Address, <L as Link>::Options);

/// Where connections go and how they are made, by flags and environment. Clones go to the same servers.
pub struct Dialer<L: Link> {
    target: Target<L::Server>,
    plan: Plan,
    tls: TlsArgs,
    transport: Option<String>,
    program: Program,
    settings: Settings,
    globals: GlobalArgs,
    messages: Messages,
    made: Option<Vec<Way<L>>>,
    /// Whether it is settled who answers, for all clones.
    known: Arc<AtomicBool>,
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
        }
    }
}

impl<L: Link> Dialer<L> {
    /// From flags and settings; nothing is started or opened yet.
    ///
    /// # Errors
    /// Flags that exclude each other, or a wrong variable: exit 2.
    pub fn new(
        program: &Program,
        (connect, embedded): (&impl Connect, bool),
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
            Target::embedded()
        } else {
            let flag = (servers.flag, given);
            let setting = settings.setting(keys::ADDRESS, flag, |text| Ok(text.to_owned()))?;
            Target::Named(setting.unwrap_or_else(|| Setting::default(servers.default.to_owned())))
        };
        Ok(Self {
            target,
            plan: Plan::new(globals, &settings)?,
            tls: tls.clone(),
            transport: transport(connect.transport(), &settings)?,
            program: *program,
            settings,
            globals: globals.clone(),
            messages: messages.clone(),
            made: None,
            known: Arc::new(AtomicBool::new(embedded)),
        })
    }

    /// The servers' addresses as people write them, with commas; for `--embedded` this starts the server.
    ///
    /// # Errors
    /// An address is wrong: exit 2; the in-memory server cannot be started: exit 69.
    pub fn address(&mut self) -> Result<String, CliError> {
        let all: Vec<String> =
            self.made()?.iter().map(|(address, _)| address.to_string()).collect();
        Ok(all.join(","))
    }

    /// A dialer for each server alone, with its address. What is known of one server is not known of the others.
    ///
    /// # Errors
    /// As [`Dialer::address`].
    pub fn each(&mut self) -> Result<Vec<(String, Self)>, CliError> {
        let ways = self.made()?.to_vec();
        let is_known = ways.len() == 1 && self.known.load(Ordering::Relaxed);
        let alone = |way: Way<L>| {
            let (address, known) = (way.0.to_string(), Arc::new(AtomicBool::new(is_known)));
            (address, Self { made: Some(vec![way]), known, ..self.clone() })
        };
        Ok(ways.into_iter().map(alone).collect())
    }

    /// The options of every server.
    ///
    /// # Errors
    /// As [`Dialer::address`]; TLS files that cannot be used.
    pub fn options(&mut self) -> Result<Vec<L::Options>, CliError> {
        Ok(self.made()?.iter().map(|(_, options)| options.clone()).collect())
    }

    /// The options of the first server.
    ///
    /// # Errors
    /// As [`Dialer::options`].
    pub fn first(&mut self) -> Result<L::Options, CliError> {
        let first = self.made()?.first().map(|(_, options)| options.clone());
        first.ok_or_else(|| CliError::usage("no server given"))
    }

    /// The options of the server, for what only one can be asked.
    ///
    /// # Errors
    /// There are several: exit 2. As [`Dialer::options`].
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

    /// Where the address came from.
    #[must_use]
    pub fn source(&self) -> String {
        self.target.source()
    }

    /// How long and how often; to put it back after a line of a session.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Goes by this plan from the next connection on.
    pub fn set_plan(&mut self, plan: Plan) {
        self.plan = plan;
        self.made = None;
    }

    /// The bound of `--timeout`, if there is one.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.plan.timeout
    }

    /// The bound of a whole call, if there is one.
    #[must_use]
    pub fn call_bound(&self) -> Option<Duration> {
        self.plan.call_bound(L::WAIT)
    }

    /// Bounds answers by this, if there is something; connections that are made later have it too.
    pub fn bound(&mut self, timeout: Option<Duration>) {
        self.plan.timeout = timeout.or(self.plan.timeout);
    }

    /// Bounds connecting and answering, where the flags say nothing: `ping` and `check` are impatient.
    pub fn default_timeout(&mut self, bound: Duration) {
        self.plan.default_timeout(bound);
        self.made = None;
    }

    /// Goes to other servers from now on, which are those of no context.
    pub fn retarget(&mut self, addresses: String) {
        self.settings.leave();
        self.go_to(Target::told(addresses), None);
    }

    /// Goes to the servers of another context from now on, with its settings.
    ///
    /// # Errors
    /// There is no such context, or it names no server: exit 78.
    pub fn enter(&mut self, context: &str) -> Result<(), CliError> {
        let mut settings = self.settings.clone();
        settings.enter(context)?;
        let address = settings.setting(keys::ADDRESS, ("", None), |text| Ok(text.to_owned()))?;
        let default = || Setting::default(self.program.servers.default.to_owned());
        let plan = Plan::new(&self.globals, &settings)?;
        let transport = transport(None, &settings)?;
        self.settings = settings;
        self.plan = plan;
        self.go_to(Target::Named(address.unwrap_or_else(default)), transport);
        Ok(())
    }

    /// The configuration file says this now.
    pub fn reread(&mut self, config: &Config) {
        self.settings.reread(config);
    }

    /// Says that a variable of the environment counts more than the context whose servers somebody may expect.
    pub fn say_override(&self) {
        if let Target::Named(setting) = &self.target
            && let (Source::Environment(_), Some(Source::Context(_))) =
                (&setting.source, &setting.over)
        {
            self.messages.note(format!("address {} from {}", setting.value, setting.origin()));
        }
    }

    fn go_to(&mut self, target: Target<L::Server>, transport: Option<String>) {
        self.target = target;
        self.transport = transport;
        self.made = None;
        self.known = Arc::default();
    }

    /// The protected context that one of these servers is of, if there is one; addresses have commas between them.
    #[must_use]
    pub fn protected(&self, addresses: &str) -> Option<&str> {
        let theirs = who::places(addresses);
        let is_theirs = |text: &String| {
            L::parse(text).is_ok_and(|all| {
                all.iter().any(|address| !who::places(&address.to_string()).is_disjoint(&theirs))
            })
        };
        self.settings.config().contexts.iter().find_map(|(name, fields)| {
            let is_protected = fields.get(keys::PROTECTED).is_some_and(|text| text == "true");
            let holds = is_protected && fields.get(keys::ADDRESS).is_some_and(is_theirs);
            holds.then_some(&**name)
        })
    }

    /// What environment, context and configuration file say.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Speaks to the servers in this way from the next connection on, as [`Connect::transport`] does.
    pub fn speak(&mut self, transport: String) {
        self.transport = Some(transport);
        self.made = None;
    }

    /// The way to stderr.
    #[must_use]
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Shows lines of the protocol.
    #[must_use]
    pub fn trace(&self) -> Trace {
        self.messages.trace(self.program.name)
    }

    /// Connects, as often as `--retry` and `--wait-for-server` allow; each attempt has what is left of `--timeout`. The
    /// first connection asks the server something before it is used: nothing is sent to a server of another kind, and who
    /// answers instead is told within about a second.
    ///
    /// # Errors
    /// That of the last attempt.
    pub fn open<T>(
        &mut self,
        mut attempt: impl FnMut(Attempt) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let is_known = self.known.load(Ordering::Relaxed);
        let (address, source) = (self.address()?, self.source());
        let addresses: Vec<String> = address.split(',').map(str::to_owned).collect();
        let asks = self.plan.wait_for_server.is_some();
        let place = (&*address, &*source);
        let attempt = |left: Option<Duration>| {
            if is_known {
                return attempt(Attempt { asks, left });
            }
            let started = Instant::now();
            let rest = || left.map(|left| left.saturating_sub(started.elapsed()));
            let bound = Some(left.map_or(FIRST_ANSWER, |left| left.min(FIRST_ANSWER)));
            let opened = attempt(Attempt { asks: true, left: bound }).or_else(|error| {
                let is_late = error.exit == Exit::Timeout || error.code == "CONNECT_TIMEOUT";
                let error = who::explain(error, &self.program, &addresses, rest());
                let is_over = rest().is_some_and(|rest| rest.is_zero());
                if !is_late || is_over || error.code == who::WRONG_SERVER {
                    return Err(error);
                }
                // A slow server, which nobody has to be asked about again.
                self.known.store(true, Ordering::Relaxed);
                self.messages.note(format!("{address} has not answered within 1 s: waiting on"));
                attempt(Attempt { asks: true, left: rest() })
            });
            let opened =
                opened.map_err(|error| CliError { message: error.at(&address), ..error })?;
            self.known.store(true, Ordering::Relaxed);
            Ok(opened)
        };
        self.plan.open(place, self.program.name, &self.messages, attempt)
    }

    /// A failure with who answers instead, unless a server has answered as it should before.
    pub fn explained(&mut self, error: CliError) -> CliError {
        let has_time = error.exit != Exit::Timeout || self.plan.timeout.is_none();
        if self.known.load(Ordering::Relaxed) || !has_time {
            return error;
        }
        let addresses = self.each().unwrap_or_default();
        let addresses: Vec<String> = addresses.into_iter().map(|(address, _)| address).collect();
        who::explain(error, &self.program, &addresses, None)
    }

    /// Whether a server is reached over TLS.
    pub(crate) fn uses_tls(&mut self) -> bool {
        self.made().is_ok_and(|ways| ways.iter().any(|(address, _)| L::is_tls(address)))
    }

    fn made(&mut self) -> Result<&[Way<L>], CliError> {
        let made = match self.made.take() {
            Some(made) => made,
            None => self.make()?,
        };
        Ok(self.made.insert(made))
    }

    fn make(&self) -> Result<Vec<Way<L>>, CliError> {
        let local = || Endpoint::Tcp(([127, 0, 0, 1], 0).into());
        let text = self.target.address(&self.messages, || L::start(local(), None))?;
        let addresses = L::parse(&text).map_err(|error| {
            let source = format!("the address came from: {}", self.source());
            CliError::setting(error.message).hint(source)
        })?;
        let is_over_tls = self.settings.is_on(keys::TLS, self.tls.tls);
        let over_tls = |address| if is_over_tls { L::over_tls(address) } else { address };
        let spoken_to = |address| match &self.transport {
            Some(transport) => L::by(address, transport),
            None => Ok(address),
        };
        let addresses = addresses.into_iter().map(over_tls).map(spoken_to);
        let addresses = addresses.collect::<Result<Vec<L::Address>, CliError>>()?;
        let names = (self.program.name, &self.program.tls);
        let any_tls = addresses.iter().any(L::is_tls);
        let tls = self.tls.read(any_tls, names, &self.settings, &self.messages)?;
        let with_options = |address: L::Address| {
            let options = options::<L>(address.clone(), &self.plan, tls.as_ref());
            (address, options)
        };
        Ok(addresses.into_iter().map(with_options).collect())
    }
}
