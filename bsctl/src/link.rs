//! The connection to the server: opened when it is first needed, with what the flags say about time and retries.

use std::fmt::Write as _;
use std::time::Duration;

use beanstalk_client::blocking::Client;
use beanstalk_client::protocol::{Command, Effect, ListTubeUsed, Response, ServerWait};
use beanstalk_client::{Address, ConnectOptions, Error, JobRef, RetryPolicy, TubeName};
use bytes::BytesMut;
use ctl_core::args::GlobalArgs;
use ctl_core::config::{Environment, Setting};
use ctl_core::dial::{Plan, Target};
use ctl_core::error::CliError;
use ctl_core::messages::{Level, Messages};
use fixtures::beanstalkd::Server;

use crate::error::cli_error;
use crate::taker;
use crate::tool::PREFIX;

/// The replies to two commands.
pub type PairReplies<A, B> =
    (Result<<A as Command>::Reply, CliError>, Result<<B as Command>::Reply, CliError>);

/// The connection that commands use.
pub struct Link {
    target: Target<Server>,
    options: Option<ConnectOptions>,
    plan: Plan,
    client: Option<Client>,
    /// A second connection, for commands that must not disturb the session's own.
    side: Option<Box<Link>>,
    /// Whether this is a session's own connection.
    in_session: bool,
    messages: Messages,
}

/// The used tube and the watch list, to put them back.
pub struct Place {
    used: TubeName,
    watched: Vec<TubeName>,
}

impl Place {
    /// The watch list.
    #[must_use]
    pub fn watched(&self) -> &[TubeName] {
        &self.watched
    }
}

impl Link {
    /// From flags and environment; nothing is opened yet.
    ///
    /// # Errors
    /// Flags that exclude each other: exit 2; a wrong variable: exit 78.
    pub fn new(
        addr: Option<String>,
        embedded: bool,
        globals: &GlobalArgs,
        environment: &Environment,
        messages: &Messages,
    ) -> Result<Self, CliError> {
        if embedded && addr.is_some() {
            return Err(
                CliError::usage("--embedded cannot be combined with --addr").hint("either of them")
            );
        }
        let target = if embedded {
            Target::embedded()
        } else {
            let read = |text: &str| Ok(text.to_owned());
            let names = ["BSCTL_ADDR", "BEANSTALKD_ADDR"];
            let setting = environment.setting(("--addr", addr), &names, read)?;
            Target::Named(
                setting.unwrap_or_else(|| Setting::default(Address::default().to_string())),
            )
        };
        let plan = Plan::new(globals, environment, PREFIX)?;
        let messages = messages.clone();
        Ok(Self {
            target,
            options: None,
            plan,
            client: None,
            side: None,
            in_session: false,
            messages,
        })
    }

    /// The server's address as people write it; for `--embedded` this starts the server.
    ///
    /// # Errors
    /// The in-memory server cannot be started.
    pub fn address(&mut self) -> Result<String, CliError> {
        Ok(self.options()?.address().to_string())
    }

    /// Where the address came from.
    #[must_use]
    pub fn source(&self) -> String {
        self.target.source()
    }

    /// Bounds connecting and answering, where the flags say nothing: `ping` and `check` are impatient.
    pub fn default_timeout(&mut self, bound: Duration) {
        self.plan.default_timeout(bound);
        self.options = None;
    }

    /// The plan in force, to put it back after a line of a session.
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.plan.clone()
    }

    /// Puts a plan back.
    pub fn set_plan(&mut self, plan: Plan) {
        self.plan = plan;
        self.options = None;
    }

    /// The bound of `--timeout`, if there is one.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.plan.timeout
    }

    /// The client, connected now if it was not.
    ///
    /// # Errors
    /// The server cannot be reached: exit 69.
    pub fn client(&mut self) -> Result<&mut Client, CliError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => self.open()?,
        };
        Ok(self.client.insert(client))
    }

    /// Whether a connection is open, as far as is known.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.as_ref().is_some_and(Client::is_connected)
    }

    /// Closes the connection: its reserved jobs go back to ready with their counters as they were.
    pub fn close(&mut self) {
        self.client = None;
        self.side = None;
    }

    /// Turns this link into a session's own connection: [`Link::side`] is a second one from now on.
    pub fn enter_session(&mut self) {
        self.in_session = true;
    }

    /// Points a session at another server; the connection is closed.
    pub fn retarget(&mut self, addr: String) {
        self.close();
        self.options = None;
        self.target = Target::told(addr);
    }

    /// The connection for commands that reserve jobs: a second one in a session, else this one.
    pub fn side(&mut self) -> &mut Link {
        if !self.in_session {
            return self;
        }
        let side = self.side.take().unwrap_or_else(|| Box::new(self.sibling()));
        self.side.insert(side)
    }

    /// Closes the second connection.
    pub fn close_side(&mut self) {
        self.side = None;
    }

    /// Another link to the same server, not yet open.
    #[must_use]
    pub fn sibling(&self) -> Link {
        Link {
            target: self.target.clone(),
            options: self.options.clone(),
            plan: self.plan.clone(),
            client: None,
            side: None,
            in_session: false,
            messages: self.messages.clone(),
        }
    }

    /// One command and its reply.
    ///
    /// # Errors
    /// The server's refusal, or the failure of the connection.
    pub fn call<C: Command>(&mut self, command: C) -> Result<C::Reply, CliError> {
        let command = Traced::new(command, &self.messages);
        self.client()?.call(&command).map_err(cli_error)
    }

    /// Many commands without waiting for each reply; replies come in order.
    ///
    /// # Errors
    /// The server cannot be reached. Each reply has its own result.
    pub fn pipeline<C: Command, I: IntoIterator<Item = C>>(
        &mut self,
        commands: I,
    ) -> Result<impl Iterator<Item = Result<C::Reply, CliError>> + use<'_, C, I>, CliError> {
        let messages = self.messages.clone();
        let traced = commands.into_iter().map(move |command| Traced::new(command, &messages));
        let replies = self.client()?.call_many(traced);
        Ok(replies.map(|reply| reply.map_err(cli_error)))
    }

    /// Two commands in one write.
    ///
    /// # Errors
    /// The failure of the connection; each reply has its own result.
    pub fn pair<A: Command, B: Command>(
        &mut self,
        first: A,
        second: B,
    ) -> Result<PairReplies<A, B>, CliError> {
        let first = Traced::new(first, &self.messages);
        let second = Traced::new(second, &self.messages);
        let (a, b) = self.client()?.call_pair(&first, &second).map_err(cli_error)?;
        Ok((a.map_err(cli_error), b.map_err(cli_error)))
    }

    /// Makes `tube` the used tube, if it is not.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn use_tube(&mut self, tube: &TubeName) -> Result<(), CliError> {
        if self.client()?.used_tube() == tube {
            return Ok(());
        }
        self.call(beanstalk_client::protocol::Use(tube.clone())).map(|_| ())
    }

    /// Makes `tubes` the watch list.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn watch_only(&mut self, tubes: &[TubeName]) -> Result<(), CliError> {
        use beanstalk_client::protocol::{Ignore, Watch};
        let before: Vec<TubeName> = self.client()?.watched_tubes().to_vec();
        for tube in tubes.iter().filter(|tube| !before.contains(tube)) {
            self.call(Watch(tube.clone()))?;
        }
        for tube in before.iter().filter(|tube| !tubes.contains(tube)) {
            self.call(Ignore(tube.clone()))?;
        }
        Ok(())
    }

    /// Used tube and watch list as they are, if there is a connection.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        let client = self.client.as_ref()?;
        Some(Place { used: client.used_tube().clone(), watched: client.watched_tubes().to_vec() })
    }

    /// Puts used tube and watch list back.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn restore(&mut self, place: &Place) -> Result<(), CliError> {
        self.use_tube(&place.used)?;
        self.watch_only(&place.watched)
    }

    /// How connections are made.
    ///
    /// # Errors
    /// The address is wrong, or the in-memory server cannot be started.
    pub fn options(&mut self) -> Result<&ConnectOptions, CliError> {
        let options = match self.options.take() {
            Some(options) => options,
            None => self.build_options()?,
        };
        Ok(self.options.insert(options))
    }

    fn build_options(&self) -> Result<ConnectOptions, CliError> {
        let start = || Server::builder().log_capacity(0).start();
        let address = |server: &Server| server.address().to_owned();
        let text = self.target.address(&self.messages, start, address)?;
        let address: Address = text.parse().map_err(|error| {
            cli_error(error).hint(format!("the address came from: {}", self.source()))
        })?;
        let mut options = ConnectOptions::from(address);
        if let Some(bound) = self.plan.connect_bound(USUAL_CONNECT_TIMEOUT) {
            options = options.connect_timeout(bound);
        }
        if let Some(bound) = self.plan.timeout {
            options = options.write_timeout(bound).reply_timeout(bound);
        }
        options = options.total_timeout(self.plan.call_bound(taker::SLICE));
        if let Some(times) = self.plan.retry {
            options = options.retry(RetryPolicy::new(times));
        }
        Ok(options)
    }

    /// Connects, as often as `--retry` and `--wait-for-server` allow; each attempt has what is left of `--timeout`.
    fn open(&mut self) -> Result<Client, CliError> {
        let options = self.options()?.clone();
        let address = options.address().to_string();
        let source = self.source();
        let place = (&*address, &*source);
        self.plan.open(place, "bsctl", &self.messages, |left| self.try_open(options.clone(), left))
    }

    fn try_open(
        &self,
        mut options: ConnectOptions,
        left: Option<Duration>,
    ) -> Result<Client, CliError> {
        if left.is_some() {
            options = options.total_timeout(left);
        }
        let mut client = Client::connect(options).map_err(cli_error)?;
        if self.plan.wait_for_server.is_some() {
            client.call(&Traced::new(ListTubeUsed, &self.messages)).map_err(cli_error)?;
        }
        client.set_total_timeout(self.plan.call_bound(taker::SLICE));
        Ok(client)
    }
}

/// How long the client tries to connect when nobody says.
const USUAL_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A command that shows its line and its reply's line under `-vvv`.
struct Traced<C> {
    command: C,
    messages: Option<Messages>,
}

/// Messages of protocol lines come from here, for `BSCTL_LOG`.
const PROTOCOL: &str = "bsctl::protocol";

impl<C> Traced<C> {
    fn new(command: C, messages: &Messages) -> Self {
        let messages = messages.shows(Level::Trace, PROTOCOL).then(|| messages.clone());
        Self { command, messages }
    }
}

impl<C: Command> Command for Traced<C> {
    type Reply = C::Reply;
    const NAME: &'static str = C::NAME;

    fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        self.command.encode(out);
        if let Some(messages) = &self.messages {
            let sent = out.get(start..).unwrap_or_default();
            let line = sent.split(|&byte| byte == b'\r').next().unwrap_or_default();
            let line = String::from_utf8_lossy(line);
            messages.log(Level::Trace, PROTOCOL, &format!("> {line}"));
        }
    }

    fn decode(&self, response: Response) -> Result<Self::Reply, Error> {
        if let Some(messages) = &self.messages {
            messages.log(Level::Trace, PROTOCOL, &format!("< {}", reply_line(&response)));
        }
        self.command.decode(response)
    }

    fn name(&self) -> &'static str {
        self.command.name()
    }

    fn effect(&self) -> Effect {
        self.command.effect()
    }

    fn server_wait(&self) -> ServerWait {
        self.command.server_wait()
    }

    fn job(&self) -> Option<JobRef> {
        self.command.job()
    }
}

/// The line of a reply as the server wrote it; bodies are not shown.
#[must_use]
pub fn reply_line(response: &Response) -> String {
    let mut line = response.word().to_owned();
    match response {
        Response::Inserted(id) | Response::Buried(Some(id)) => {
            let _ = write!(line, " {id}");
        }
        Response::Using(tube) => {
            let _ = write!(line, " {}", String::from_utf8_lossy(tube));
        }
        Response::Reserved(job) | Response::Found(job) => {
            let _ = write!(line, " {} {}", job.id, job.body.len());
        }
        Response::Ok(text) => {
            let _ = write!(line, " {}", text.len());
        }
        Response::Watching(count) | Response::Kicked(Some(count)) => {
            let _ = write!(line, " {count}");
        }
        Response::Other(other) => line = String::from_utf8_lossy(other).into_owned(),
        _ => {}
    }
    line
}
