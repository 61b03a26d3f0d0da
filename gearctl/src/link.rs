//! The connections to the servers: opened when they are first needed, with what the flags say about time and
//! retries. Jobs go over one, the text commands of administration over another.

use std::thread;
use std::time::{Duration, Instant};

use ctl_core::args::GlobalArgs;
use ctl_core::config::{Environment, Setting};
use ctl_core::error::CliError;
use ctl_core::messages::{Level, Messages};
use ctl_core::units;
use gearman_client::blocking::{Admin, Client};
use gearman_client::protocol::{AdminCommand, AdminReply, Request};
use gearman_client::{Address, ConnectOptions, Error, Listing, RetryPolicy, Row, Servers};

use crate::error::{UNSUPPORTED, cli_error};

/// The connections that commands use.
pub struct Link {
    servers: Setting<String>,
    options: Option<Vec<ConnectOptions>>,
    plan: Plan,
    client: Option<Client>,
    admin: Option<Admin>,
    messages: Messages,
}

/// How long and how often.
#[derive(Clone)]
struct Plan {
    connect_timeout: Option<Duration>,
    timeout: Option<Duration>,
    retry: Option<u32>,
    wait_for_server: Option<Duration>,
}

/// Messages of protocol lines come from here, for `GEARCTL_LOG`.
const PROTOCOL: &str = "gearctl::protocol";

impl Link {
    /// From flags and environment; nothing is opened yet.
    ///
    /// # Errors
    /// A wrong variable: exit 78.
    pub fn new(
        servers: &[String],
        globals: &GlobalArgs,
        environment: &Environment,
        messages: &Messages,
    ) -> Result<Self, CliError> {
        let given = (!servers.is_empty()).then(|| servers.join(","));
        let names = ["GEARCTL_SERVER", "GEARMAN_SERVER", "GEARMAN_SERVERS"];
        let setting =
            environment.setting(("--server", given), &names, |text| Ok(text.to_owned()))?;
        let timeout = environment.setting(
            ("--timeout", globals.timeout),
            &["GEARCTL_TIMEOUT"],
            units::duration,
        )?;
        let plan = Plan {
            connect_timeout: globals.connect_timeout,
            timeout: timeout.map(|setting| setting.value),
            retry: globals.retry,
            wait_for_server: globals.wait_for_server,
        };
        Ok(Self {
            servers: setting.unwrap_or_else(|| Setting::default(Address::default().to_string())),
            options: None,
            plan,
            client: None,
            admin: None,
            messages: messages.clone(),
        })
    }

    /// The servers' addresses as people write them.
    ///
    /// # Errors
    /// An address is wrong: exit 65.
    pub fn address(&mut self) -> Result<String, CliError> {
        let all: Vec<String> = self.options()?.iter().map(|o| o.address().to_string()).collect();
        Ok(all.join(","))
    }

    /// Where the address came from.
    #[must_use]
    pub fn source(&self) -> String {
        self.servers.source.to_string()
    }

    /// Bounds connecting and answering, where the flags say nothing: `ping` and `check` are impatient.
    pub fn default_timeout(&mut self, bound: Duration) {
        self.plan.connect_timeout = self.plan.connect_timeout.or(self.plan.timeout).or(Some(bound));
        self.plan.timeout = self.plan.timeout.or(Some(bound));
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
    /// No server can be reached: exit 69.
    pub fn client(&mut self) -> Result<&mut Client, CliError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => self.open_client()?,
        };
        Ok(self.client.insert(client))
    }

    /// A client of its own, for a thread.
    ///
    /// # Errors
    /// No server can be reached: exit 69.
    pub fn open_client(&mut self) -> Result<Client, CliError> {
        let servers = Servers::new(self.options()?.iter().cloned()).map_err(cli_error)?;
        self.open(|link| {
            let mut client = Client::connect(servers.clone()).map_err(cli_error)?;
            if link.plan.wait_for_server.is_some() {
                client.echo(b"").map_err(cli_error)?;
            }
            Ok(client)
        })
    }

    /// Closes the connection for jobs.
    pub fn close(&mut self) {
        self.client = None;
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

    /// One text command, on the first server.
    ///
    /// # Errors
    /// The server's refusal, or the failure of the connection.
    pub fn admin(&mut self, command: &AdminCommand) -> Result<AdminReply, CliError> {
        self.trace(format_args!("> {}", command.name()));
        let mut admin = match self.admin.take() {
            Some(admin) => admin,
            None => self.open_admin()?,
        };
        let reply = admin.call(command).map_err(cli_error);
        self.admin = Some(admin);
        let reply = reply?;
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
        let listing = Listing::parse(self.admin(command)?).map_err(cli_error)?;
        if listing.is_untrusted() {
            let name = command.name();
            self.messages.warn(format!(
                "a name holds line ends or other bytes that forge the rows of `{name}`: some rows may be wrong or missing"
            ));
        }
        Ok(listing)
    }

    /// A list that not every server has: none when this one does not.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn listing_if_known<T: Row>(
        &mut self,
        command: &AdminCommand,
    ) -> Result<Option<Listing<T>>, CliError> {
        match self.listing(command) {
            Ok(listing) => Ok(Some(listing)),
            Err(error) if error.code == UNSUPPORTED => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_admin(&mut self) -> Result<Admin, CliError> {
        let options = self.options()?.to_vec();
        let Some(first) = options.first() else {
            return Err(CliError::usage("no server is given"));
        };
        if options.len() > 1 {
            self.messages
                .decision(format!("of several servers, {} is administered", first.address()));
        }
        self.open(|link| {
            let mut admin = Admin::connect(first).map_err(cli_error)?;
            if link.plan.wait_for_server.is_some() {
                admin.version().map_err(cli_error)?;
            }
            Ok(admin)
        })
    }

    fn build_options(&self) -> Result<Vec<ConnectOptions>, CliError> {
        let servers: Servers = self.servers.value.parse().map_err(|error: Error| {
            cli_error(error).hint(format!("the address came from: {}", self.source()))
        })?;
        let options = servers.addresses().cloned().map(|address| {
            let mut options = ConnectOptions::from(address);
            if let Some(bound) = self.plan.connect_timeout {
                options = options.connect_timeout(bound);
            }
            if let Some(bound) = self.plan.timeout {
                options = options.write_timeout(bound).reply_timeout(bound);
            }
            match self.plan.retry {
                Some(times) => options.retry(RetryPolicy::new(times)),
                None => options,
            }
        });
        Ok(options.collect())
    }

    /// Connects, as often as `--retry` and `--wait-for-server` allow.
    fn open<T>(&mut self, attempt: impl Fn(&Self) -> Result<T, CliError>) -> Result<T, CliError> {
        let address = self.address()?;
        let started = Instant::now();
        let mut left = self.plan.retry.unwrap_or(0);
        let mut pause = Duration::from_millis(50);
        loop {
            let error = match attempt(self) {
                Ok(opened) => {
                    self.messages.decision(format!("connected to {address} ({})", self.source()));
                    return Ok(opened);
                }
                Err(error) => error,
            };
            let waiting =
                self.plan.wait_for_server.is_some_and(|bound| started.elapsed() + pause < bound);
            if !waiting && left == 0 {
                return Err(error.remark(format!("(address from {})", self.source())));
            }
            if !waiting {
                left -= 1;
            }
            let text = format!("{error}; trying again in {pause:?}");
            self.messages.log(Level::Debug, "gearctl", &text);
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    fn trace(&self, text: std::fmt::Arguments<'_>) {
        if self.messages.shows(Level::Trace, PROTOCOL) {
            self.messages.log(Level::Trace, PROTOCOL, &text.to_string());
        }
    }
}
