//! The connections to the servers: opened when they are first needed, with what the flags say about time and
//! retries. Jobs go over one, the text commands of administration over another.

use std::time::{Duration, Instant};

use ctl_core::args::GlobalArgs;
use ctl_core::config::{Environment, Setting};
use ctl_core::dial::{Plan, Target};
use ctl_core::error::{CliError, Exit};
use ctl_core::messages::{Level, Messages};
use fixtures::gearmand::Server;
use gearman_client::blocking::{Admin, Client, Packets};
use gearman_client::protocol::{AdminCommand, AdminReply, Echo, PacketType, Request};
use gearman_client::{Address, ConnectOptions, Error, Listing, RetryPolicy, Row, Servers};

use crate::error::{CONNECTION_LOST, TIMEOUT, UNSUPPORTED, cli_error};
use crate::tls::TlsArgs;
use crate::tool::PREFIX;

/// The connections that commands use.
pub struct Link {
    target: Target<Server>,
    options: Option<Vec<ConnectOptions>>,
    plan: Plan,
    tls: TlsArgs,
    environment: Environment,
    client: Option<Client>,
    admin: Option<Admin>,
    /// For [`Link::probe`].
    prober: Option<Admin>,
    /// Whether `ECHO_REQ` is worth asking: these servers have not left it unanswered yet.
    echoes: bool,
    messages: Messages,
}

/// What a ping has shown.
pub struct Pong {
    /// The request that was answered.
    pub asked: PacketType,
    /// From the request to its answer, on a connection that was there.
    pub took: Duration,
}

/// What becomes of a question that not every server answers.
pub enum Answer<T> {
    /// The answer.
    Came(T),
    /// The server says that it has no such command.
    Unsupported(CliError),
    /// Nothing came in time, or the server hung up.
    Silent(CliError),
}

impl<T> Answer<T> {
    /// The answer, if one came.
    #[must_use]
    pub fn came(self) -> Option<T> {
        match self {
            Self::Came(answer) => Some(answer),
            Self::Unsupported(_) | Self::Silent(_) => None,
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// Why there is none.
    pub fn required(self) -> Result<T, CliError> {
        match self {
            Self::Came(answer) => Ok(answer),
            Self::Unsupported(error) | Self::Silent(error) => Err(error),
        }
    }

    /// The same about what is made of the answer.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn and_then<U>(
        self,
        make: impl FnOnce(T) -> Result<U, CliError>,
    ) -> Result<Answer<U>, CliError> {
        Ok(match self {
            Self::Came(answer) => Answer::Came(make(answer)?),
            Self::Unsupported(error) => Answer::Unsupported(error),
            Self::Silent(error) => Answer::Silent(error),
        })
    }
}

/// `GET_STATUS` of a job that there is not: geard leaves `ECHO_REQ` unanswered.
fn round_trip(client: &mut Client) -> Result<(), CliError> {
    client.status("H:gearctl:0").map(drop).map_err(cli_error)
}

/// Options whose calls take no longer than what is left.
fn within(options: &ConnectOptions, left: Option<Duration>) -> ConnectOptions {
    let options = options.clone();
    if left.is_some() { options.total_timeout(left) } else { options }
}

/// How long an answer is waited for that may never come, where `--timeout` says nothing.
pub const PROBE: Duration = Duration::from_secs(2);

/// How long the client tries to connect when nobody says.
const USUAL_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the client waits for an answer when nobody says.
const USUAL_REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages of protocol lines come from here, for `GEARCTL_LOG`.
pub const PROTOCOL: &str = "gearctl::protocol";

impl Link {
    /// From flags and environment; nothing is opened yet.
    ///
    /// # Errors
    /// Flags that exclude each other: exit 2; a wrong variable: exit 78.
    pub fn new(
        (servers, embedded): (&[String], bool),
        tls: &TlsArgs,
        globals: &GlobalArgs,
        environment: &Environment,
        messages: &Messages,
    ) -> Result<Self, CliError> {
        if embedded && (!servers.is_empty() || tls.is_given()) {
            let other = if servers.is_empty() { "TLS" } else { "--server" };
            return Err(CliError::usage(format!("--embedded cannot be combined with {other}"))
                .hint("either of them"));
        }
        let target = if embedded {
            Target::embedded()
        } else {
            let given = (!servers.is_empty()).then(|| servers.join(","));
            let names = ["GEARCTL_SERVER", "GEARMAN_SERVER", "GEARMAN_SERVERS"];
            let setting =
                environment.setting(("--server", given), &names, |text| Ok(text.to_owned()))?;
            let default = || Setting::default(Address::default().to_string());
            Target::Named(setting.unwrap_or_else(default))
        };
        let plan = Plan::new(globals, environment, PREFIX)?;
        Ok(Self {
            target,
            options: None,
            plan,
            tls: tls.clone(),
            environment: environment.clone(),
            client: None,
            admin: None,
            prober: None,
            echoes: true,
            messages: messages.clone(),
        })
    }

    /// The servers' addresses as people write them; for `--embedded` this starts the server.
    ///
    /// # Errors
    /// An address is wrong: exit 65; the in-memory server cannot be started: exit 69.
    pub fn address(&mut self) -> Result<String, CliError> {
        let all: Vec<String> = self.options()?.iter().map(|o| o.address().to_string()).collect();
        Ok(all.join(","))
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

    /// The bound of `--timeout`, if there is one.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.plan.timeout
    }

    /// The plan in force, to put it back after a line of a session; until then `timeout` bounds what the line does.
    pub fn plan(&mut self, timeout: Option<Duration>) -> Plan {
        let usual = self.plan.clone();
        self.plan.timeout = timeout.or(usual.timeout);
        usual
    }

    /// Puts a plan back.
    pub fn set_plan(&mut self, plan: Plan) {
        self.plan = plan;
        self.options = None;
    }

    /// The client, if it was opened; it may have lost its connections since.
    #[must_use]
    pub fn opened(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// As [`Link::opened`], to look after it.
    pub fn opened_mut(&mut self) -> Option<&mut Client> {
        self.client.as_mut()
    }

    /// The client, connected now if it was not. Its calls are bounded as the present line says.
    ///
    /// # Errors
    /// No server can be reached: exit 69.
    pub fn client(&mut self) -> Result<&mut Client, CliError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.open_client()?,
        };
        client.set_reply_timeout(self.plan.timeout.unwrap_or(USUAL_REPLY_TIMEOUT));
        client.set_total_timeout(self.plan.call_bound(Duration::ZERO));
        Ok(self.client.insert(client))
    }

    /// A client of its own, for a thread.
    ///
    /// # Errors
    /// No server can be reached: exit 69.
    pub fn open_client(&mut self) -> Result<Client, CliError> {
        let options = self.options()?.to_vec();
        self.open(|link, left| {
            let options = options.iter().map(|options| within(options, left));
            let servers = Servers::new(options).map_err(cli_error)?;
            let mut client = Client::connect(servers).map_err(cli_error)?;
            if link.plan.wait_for_server.is_some() {
                round_trip(&mut client)?;
            }
            client.set_total_timeout(link.plan.call_bound(Duration::ZERO));
            Ok(client)
        })
    }

    /// Whether a connection for jobs is open, as far as is known.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.as_ref().is_some_and(Client::is_connected)
    }

    /// Closes the connections.
    pub fn close(&mut self) {
        self.client = None;
        self.admin = None;
        self.prober = None;
    }

    /// Points a session at other servers; the connections are closed.
    pub fn retarget(&mut self, servers: String) {
        self.close();
        self.options = None;
        self.echoes = true;
        self.target = Target::told(servers);
    }

    /// Another link to the same servers, not yet open.
    #[must_use]
    pub fn sibling(&self) -> Link {
        Link {
            target: self.target.clone(),
            options: self.options.clone(),
            plan: self.plan.clone(),
            tls: self.tls.clone(),
            environment: self.environment.clone(),
            client: None,
            admin: None,
            prober: None,
            echoes: self.echoes,
            messages: self.messages.clone(),
        }
    }

    /// The options of every server.
    ///
    /// # Errors
    /// An address is wrong: exit 65.
    pub fn options(&mut self) -> Result<&[ConnectOptions], CliError> {
        let options = match self.options.take() {
            Some(options) => options,
            None => self.build_options()?,
        };
        Ok(self.options.insert(options))
    }

    /// One request and its answer.
    ///
    /// # Errors
    /// The server's refusal, or the failure of the connection.
    pub fn call<R: Request>(&mut self, request: &R) -> Result<R::Reply, CliError> {
        self.trace(format_args!("> {}", request.packet_type()));
        let reply = self.client()?.call(request).map_err(cli_error)?;
        self.trace(format_args!("< {}", request.answered_by()));
        Ok(reply)
    }

    /// A round trip to the server, of a kind that every server answers.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn round_trip(&mut self) -> Result<Duration, CliError> {
        self.client()?;
        let start = Instant::now();
        round_trip(self.client()?)?;
        Ok(start.elapsed())
    }

    /// A round trip with `ECHO_REQ`, or with `GET_STATUS` where half of the bound brings no answer to that: geard has
    /// none. Which of them is remembered.
    ///
    /// # Errors
    /// The failure of the connection; neither is answered in time; other bytes come back than were sent: exit 76.
    pub fn ping(&mut self, data: &[u8]) -> Result<Pong, CliError> {
        if !self.echoes {
            return self.round_trip().map(|took| Pong { asked: PacketType::GetStatus, took });
        }
        let bound = self.plan.timeout.unwrap_or(USUAL_REPLY_TIMEOUT);
        let client = self.client()?;
        let start = Instant::now();
        client.set_reply_timeout(bound / 2);
        match client.call(&Echo(data)).map_err(cli_error) {
            Ok(back) if back == data => {
                return Ok(Pong { asked: PacketType::EchoReq, took: start.elapsed() });
            }
            Ok(_) => {
                let text = "the server sent back other bytes than it was sent";
                return Err(CliError::new(Exit::Protocol, "PROTOCOL", text));
            }
            Err(error) if error.code != TIMEOUT => return Err(error),
            Err(_) => {}
        }
        let client = self.client()?;
        client.set_total_timeout(Some(bound.saturating_sub(start.elapsed())));
        client.reconnect().map_err(cli_error)?;
        let left = bound.saturating_sub(start.elapsed());
        client.set_total_timeout(Some(left));
        let asked = Instant::now();
        round_trip(client)?;
        self.echoes = false;
        self.messages
            .note("the server leaves ECHO_REQ unanswered, as geard does: asked with GET_STATUS");
        Ok(Pong { asked: PacketType::GetStatus, took: asked.elapsed() })
    }

    /// One text command, on the first server.
    ///
    /// # Errors
    /// The server's refusal, or the failure of the connection.
    pub fn admin(&mut self, command: &AdminCommand) -> Result<AdminReply, CliError> {
        let mut admin = match self.admin.take() {
            Some(admin) => admin,
            None => self.open_admin(None)?,
        };
        let reply = self.exchange(&mut admin, command);
        self.admin = Some(admin);
        reply
    }

    /// One text command that not every server answers, on the first server. An answer is waited for as long as
    /// `--timeout` says, or [`PROBE`].
    ///
    /// # Errors
    /// Another refusal, or no connection.
    pub fn probe(&mut self, command: &AdminCommand) -> Result<Answer<AdminReply>, CliError> {
        let mut admin = match self.prober.take() {
            Some(admin) => admin,
            None => self.open_admin(Some(PROBE))?,
        };
        let reply = self.exchange(&mut admin, command);
        self.prober = Some(admin);
        match reply {
            Ok(reply) => Ok(Answer::Came(reply)),
            Err(error) if error.code == UNSUPPORTED => Ok(Answer::Unsupported(error)),
            Err(error) if matches!(error.code, TIMEOUT | CONNECTION_LOST) => {
                Ok(Answer::Silent(error))
            }
            Err(error) => Err(error),
        }
    }

    fn exchange(&self, admin: &mut Admin, command: &AdminCommand) -> Result<AdminReply, CliError> {
        let name = command.name();
        self.trace(format_args!("> {name}"));
        let reply = admin.call(command).map_err(cli_error).map_err(|error| {
            let everywhere = matches!(command, AdminCommand::Status | AdminCommand::Workers);
            if everywhere || error.code != TIMEOUT {
                return error;
            }
            error.hint(format!(
                "not every server has `{name}`, and some keep silent then: gearctl server shows what this one answers"
            ))
        })?;
        match &reply {
            AdminReply::Line(line) => {
                self.trace(format_args!("< {}", String::from_utf8_lossy(line)));
            }
            AdminReply::List { lines, .. } => self.trace(format_args!("< {} lines", lines.len())),
        }
        Ok(reply)
    }

    /// A text command whose reply is a list. Names that forge rows are warned about.
    ///
    /// # Errors
    /// The server's refusal, or the failure of the connection.
    pub fn listing<T: Row>(&mut self, command: &AdminCommand) -> Result<Listing<T>, CliError> {
        let reply = self.admin(command)?;
        self.rows(command, reply)
    }

    /// As [`Link::listing`], of a list that not every server has; bounded as [`Link::probe`].
    ///
    /// # Errors
    /// As [`Link::probe`].
    pub fn probe_listing<T: Row>(
        &mut self,
        command: &AdminCommand,
    ) -> Result<Answer<Listing<T>>, CliError> {
        self.probe(command)?.and_then(|reply| self.rows(command, reply))
    }

    /// The rows of a reply. Names that forge rows are warned about.
    ///
    /// # Errors
    /// The reply is no list.
    pub fn rows<T: Row>(
        &self,
        command: &AdminCommand,
        reply: AdminReply,
    ) -> Result<Listing<T>, CliError> {
        let listing = Listing::parse(reply).map_err(cli_error)?;
        if listing.is_untrusted() {
            let name = command.name();
            self.messages.warn(format!(
                "a name holds line ends or other bytes that forge the rows of `{name}`: some rows may be wrong or missing"
            ));
        }
        Ok(listing)
    }

    /// A connection to the first server for single packets, and its address.
    ///
    /// # Errors
    /// The server cannot be reached: exit 69.
    pub fn open_packets(&mut self) -> Result<(Packets, String), CliError> {
        let Some(first) = self.options()?.first().cloned() else {
            return Err(CliError::usage("no server is given"));
        };
        let address = first.address().to_string();
        let packets =
            self.open(|_, left| Packets::connect(within(&first, left)).map_err(cli_error))?;
        Ok((packets, address))
    }

    /// Connects to the first server for text; `patience` bounds its answers where `--timeout` says nothing.
    fn open_admin(&mut self, patience: Option<Duration>) -> Result<Admin, CliError> {
        let options = self.options()?.to_vec();
        let Some(mut first) = options.first().cloned() else {
            return Err(CliError::usage("no server is given"));
        };
        if let (Some(bound), None) = (patience, self.plan.timeout) {
            first = first.reply_timeout(bound);
        }
        if options.len() > 1 {
            self.messages
                .decision(format!("of several servers, {} is administered", first.address()));
        }
        self.open(|link, left| {
            let mut admin = Admin::connect(within(&first, left)).map_err(cli_error)?;
            if link.plan.wait_for_server.is_some() {
                // The command that every server answers.
                admin.status().map_err(cli_error)?;
            }
            admin.set_total_timeout(link.plan.call_bound(Duration::ZERO));
            Ok(admin)
        })
    }

    fn build_options(&self) -> Result<Vec<ConnectOptions>, CliError> {
        let start = || Server::builder().log_capacity(0).start();
        let address = |server: &Server| server.address().to_owned();
        let text = self.target.address(&self.messages, start, address)?;
        let servers: Servers = text.parse().map_err(|error: Error| {
            cli_error(error).hint(format!("the address came from: {}", self.source()))
        })?;
        let options = servers.addresses().cloned().map(|address| {
            let mut options = ConnectOptions::from(self.tls.address(address));
            if let Some(bound) = self.plan.connect_bound(USUAL_CONNECT_TIMEOUT) {
                options = options.connect_timeout(bound);
            }
            if let Some(bound) = self.plan.timeout {
                options = options.write_timeout(bound).reply_timeout(bound);
            }
            options = options.total_timeout(self.plan.call_bound(Duration::ZERO));
            match self.plan.retry {
                Some(times) => options.retry(RetryPolicy::new(times)),
                None => options,
            }
        });
        self.tls.apply(options.collect(), &self.environment, &self.messages)
    }

    /// Connects, as often as `--retry` and `--wait-for-server` allow; each attempt has what is left of `--timeout`.
    fn open<T>(
        &mut self,
        attempt: impl Fn(&Self, Option<Duration>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let address = self.address()?;
        let source = self.source();
        let place = (&*address, &*source);
        self.plan.open(place, "gearctl", &self.messages, |left| attempt(self, left))
    }

    fn trace(&self, text: std::fmt::Arguments<'_>) {
        if self.messages.shows(Level::Trace, PROTOCOL) {
            self.messages.log(Level::Trace, PROTOCOL, &text.to_string());
        }
    }
}
