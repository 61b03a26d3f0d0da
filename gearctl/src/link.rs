//! The connections to the servers: opened when first needed, with the time limits that the flags set. Jobs use
//! one, the text commands of administration another.

mod absent;
mod answer;
mod status;

use std::time::{Duration, Instant};

use ctl_core::error::{CliError, Exit};
use ctl_core::link::{Dialer, Link as _, Pong};
use ctl_core::output::{Column, Shape};
use ctl_core::system::at_once::at_once;
use ctl_core::text::units;
use gearman_client::blocking::{Admin, Client, GrabbedJob, Packets, Worker};
use gearman_client::protocol::{AdminCommand, AdminReply, Echo, PacketType, Request};
use gearman_client::{ConnectOptions, FunctionName, Grab, Listing, Row, Servers, WorkerOptions};

use self::absent::Absent;
pub use self::answer::Answer;
pub use self::status::{counts, or_near, status_of, statuses};
use crate::error::{TIMEOUT, cli_error};

/// The connections that commands use.
pub struct Link {
    /// How they are made.
    pub dialer: Dialer<Self>,
    client: Option<Client>,
    admin: Option<Admin>,
    /// For [`Link::probe`].
    prober: Option<Admin>,
    /// Whether `ECHO_REQ` is worth sending: these servers have not left it unanswered yet.
    echoes: bool,
    absent: Absent,
    /// See [`Link::is_gearmand`].
    is_gearmand: Option<bool>,
}

/// A worker that serves a function.
///
/// # Errors
/// The server cannot be reached.
pub fn worker(options: WorkerOptions, function: &FunctionName) -> Result<Worker, CliError> {
    let mut worker = Worker::connect(options).map_err(cli_error)?;
    worker.can_do(function.clone(), None).map_err(cli_error)?;
    Ok(worker)
}

/// How long a command that takes jobs waits for one before it checks whether to stop.
const SLICE: Duration = Duration::from_millis(100);

/// The worker's next job; none once its server has said that there is none, or if `is_over`.
///
/// # Errors
/// The connection failed; the server has said nothing for this long: exit 124.
pub fn next_job(
    worker: &mut Worker,
    patience: Duration,
    mut is_over: impl FnMut() -> bool,
) -> Result<Option<GrabbedJob>, CliError> {
    let (handle, start) = (worker.handle(), Instant::now());
    loop {
        let is_over = is_over();
        let job = worker.next_job(SLICE).map_err(cli_error)?;
        if job.is_some() || is_over || handle.is_asleep() {
            return Ok(job);
        }
        if start.elapsed() >= patience {
            let patience = units::show_duration(patience);
            let text = format!("the server has not said within {patience} whether it has a job");
            return Err(CliError::timeout(text).hint("a longer --timeout gives it more time"));
        }
    }
}

/// `GET_STATUS` of a job that does not exist, because geard leaves `ECHO_REQ` unanswered.
fn round_trip(client: &mut Client) -> Result<(), CliError> {
    client.status("H:gearctl:0").map(drop).map_err(cli_error)
}

/// The hint for a request that was not answered, although the server is there.
pub fn not_everywhere(name: &str) -> String {
    format!(
        "not every server supports {name}, and some then stay silent: gearctl server shows what this one supports"
    )
}

/// How long to look for servers that do not answer, after a time limit has expired.
pub const LOOK: Duration = Duration::from_millis(500);

/// How long to wait for an answer that may never arrive, without `--timeout`.
pub const PROBE: Duration = Duration::from_secs(2);

/// How long the client waits for an answer by default.
const USUAL_REPLY_TIMEOUT: Duration = Duration::from_secs(10);

impl ctl_core::link::Link for Link {
    ctl_core::link_of_sdk!(gearman_client, fixtures::gearmand, text, cli_error);

    const PING: &'static Shape = &PING;

    fn new(dialer: Dialer<Self>) -> Self {
        Self {
            dialer,
            client: None,
            admin: None,
            prober: None,
            echoes: true,
            absent: Absent::default(),
            is_gearmand: None,
        }
    }

    fn close(&mut self) {
        *self = self.sibling();
    }

    /// With `ECHO_REQ`, or with `GET_STATUS` if that is not answered within half of the time limit, as with geard.
    /// Remembers which of them works.
    fn ping(&mut self, n: u64) -> Result<Pong, CliError> {
        if !self.echoes {
            return self.round_trip().map(|took| pong(PacketType::GetStatus, took));
        }
        let data = format!("gearctl {n}");
        let bound = self.patience();
        let client = self.client()?;
        let start = Instant::now();
        client.set_reply_timeout(bound / 2);
        match client.call(&Echo(data.as_bytes())).map_err(cli_error) {
            Ok(back) if back == data => return Ok(pong(PacketType::EchoReq, start.elapsed())),
            Ok(_) => {
                let text = "the server returned different bytes than it was sent";
                return Err(CliError::new(Exit::Protocol, "PROTOCOL", text));
            }
            Err(error) if error.code != TIMEOUT => return Err(error),
            Err(_) => {}
        }
        let client = self.client()?;
        client.set_total_timeout(Some(bound.saturating_sub(start.elapsed())));
        client.reconnect().map_err(cli_error)?;
        client.set_total_timeout(Some(bound.saturating_sub(start.elapsed())));
        let asked = Instant::now();
        round_trip(client)?;
        self.echoes = false;
        self.dialer
            .messages()
            .note("the server does not answer ECHO_REQ, like geard: using GET_STATUS");
        Ok(pong(PacketType::GetStatus, asked.elapsed()))
    }
}

static PING: Shape = Shape::rows(
    "server",
    &[
        Column::new("server", "SERVER"),
        Column::new("n", "N"),
        Column::new("duration_ms", "MS"),
        Column::on_request("packet", "PACKET"),
        Column::on_request("error", "ERROR"),
    ],
);

/// The request that was answered, and when.
fn pong(asked: PacketType, took: Duration) -> Pong {
    Pong { took, more: Some(("packet", asked.name())) }
}

impl Link {
    /// The client, if it has been opened; it may have lost its connections since.
    pub fn opened_mut(&mut self) -> Option<&mut Client> {
        self.client.as_mut()
    }

    /// The client, connected if it was not. The current line sets the time limit of its calls.
    ///
    /// # Errors
    /// No server can be reached: exit 69.
    pub fn client(&mut self) -> Result<&mut Client, CliError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.open_client()?,
        };
        client.set_reply_timeout(self.patience());
        client.set_total_timeout(self.dialer.call_bound());
        Ok(self.client.insert(client))
    }

    /// Its own client, for a thread.
    ///
    /// # Errors
    /// No server can be reached: exit 69.
    pub fn open_client(&mut self) -> Result<Client, CliError> {
        let options = self.dialer.options()?;
        let (bound, messages) = (self.dialer.call_bound(), self.dialer.messages().clone());
        let Self { dialer, absent, .. } = self;
        dialer.open(|attempt| {
            let bounded = options.iter().map(|options| attempt.bound::<Self>(options));
            let mut bounded: Vec<ConnectOptions> = bounded.collect();
            if attempt.asks && bounded.len() > 1 {
                absent.ask_each(&bounded, &messages)?;
            }
            bounded.retain(|server| !absent.useless.contains(server.address()));
            let is_single = bounded.len() == 1;
            let servers = Servers::new(bounded).map_err(cli_error)?;
            let mut client = Client::connect(servers).map_err(cli_error)?;
            if attempt.asks && is_single {
                round_trip(&mut client)?;
            }
            client.set_total_timeout(bound);
            Ok(client)
        })
    }

    /// Whether there are several servers, so that a handle needs its server.
    pub fn is_several(&mut self) -> bool {
        self.dialer.options().is_ok_and(|all| all.len() > 1)
    }

    /// Whether the server did not answer at the start, so that no job goes there.
    pub fn is_useless(&self, address: &str) -> bool {
        self.absent.is_useless(address)
    }

    /// Adds to an expired time which of several servers do not answer, because the client does not say which of them
    /// had the job.
    pub fn naming_silent(&mut self, error: CliError) -> CliError {
        let several = self.each().ok().filter(|each| error.is_late() && each.len() > 1);
        let Some(mut each) = several else { return error };
        // No job is there, and the user knows of them.
        each.retain(|(address, _)| !self.is_useless(address));
        let silent = at_once(each, |(address, link)| {
            link.dialer.bound(Some(LOOK));
            link.connect().is_err().then(|| address.clone())
        });
        let silent: Vec<String> = silent.into_iter().flatten().collect();
        let verb = if silent.len() == 1 { "does" } else { "do" };
        match silent.is_empty() {
            true => error,
            false => error.remark(format!("({} {verb} not answer)", silent.join(", "))),
        }
    }

    /// How long to wait for an answer.
    pub fn patience(&self) -> Duration {
        self.dialer.timeout().unwrap_or(USUAL_REPLY_TIMEOUT)
    }

    /// Options for workers of the single server, with one slot each.
    ///
    /// # Errors
    /// There are several, or an address is wrong: exit 2.
    pub fn worker_options(&mut self) -> Result<WorkerOptions, CliError> {
        // What every server answers: geard ignores GRAB_JOB_ALL, and g2 closes the connection.
        let only = Servers::from(self.dialer.only()?);
        let options = WorkerOptions::from(only).slots(1).grab(Grab::Uniq);
        // They look at jobs, or move them.
        Ok(options.fail_oversized(false))
    }

    /// Whether a connection for jobs is open, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.client.as_ref().is_some_and(Client::is_connected)
    }

    /// One request and its answer.
    ///
    /// # Errors
    /// The server's refusal, or the failure of the connection.
    pub fn call<R: Request>(&mut self, request: &R) -> Result<R::Reply, CliError> {
        let trace = self.dialer.trace();
        trace.sent(request.packet_type());
        let reply = self.client()?.call(request).map_err(cli_error)?;
        trace.came(request.answered_by());
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

    /// One text command, which requires a single server.
    ///
    /// # Errors
    /// There are several: exit 2. The server's refusal, or the failure of the connection.
    pub fn admin(&mut self, command: &AdminCommand) -> Result<AdminReply, CliError> {
        self.exchange(None, command)
    }

    /// Like [`Link::admin`], for a command that not every server answers. Waits for an answer for `--timeout`, or
    /// [`PROBE`] by default.
    ///
    /// # Errors
    /// There are several servers: exit 2. Another refusal, or no connection.
    pub fn probe(&mut self, command: &AdminCommand) -> Result<Answer<AdminReply>, CliError> {
        Answer::of(self.exchange(Some(PROBE), command))
    }

    /// Commands with a time limit of their own have a connection of their own.
    fn exchange(
        &mut self,
        patience: Option<Duration>,
        command: &AdminCommand,
    ) -> Result<AdminReply, CliError> {
        let kept = if patience.is_some() { &mut self.prober } else { &mut self.admin };
        let mut admin = match kept.take() {
            Some(admin) => admin,
            None => self.open_admin(patience)?,
        };
        let (name, trace) = (command.name(), self.dialer.trace());
        trace.sent(name);
        let reply = admin.call(command).map_err(cli_error);
        *if patience.is_some() { &mut self.prober } else { &mut self.admin } = Some(admin);
        let reply = reply.map_err(|error| {
            let everywhere = matches!(command, AdminCommand::Status | AdminCommand::Workers);
            if everywhere || error.code != TIMEOUT {
                return error;
            }
            error.hint(not_everywhere(&format!("`{name}`")))
        })?;
        match &reply {
            AdminReply::Line(line) => trace.came(String::from_utf8_lossy(line)),
            AdminReply::List { lines, .. } => trace.came(format_args!("{} lines", lines.len())),
        }
        Ok(reply)
    }

    /// A text command whose reply is a list. Warns about names that forge rows.
    ///
    /// # Errors
    /// The server's refusal, or the failure of the connection.
    pub fn listing<T: Row>(&mut self, command: &AdminCommand) -> Result<Listing<T>, CliError> {
        let reply = self.admin(command)?;
        self.rows(command, reply)
    }

    /// Like [`Link::listing`], for a list that not every server has; with the time limit of [`Link::probe`].
    ///
    /// # Errors
    /// As [`Link::probe`].
    pub fn probe_listing<T: Row>(
        &mut self,
        command: &AdminCommand,
    ) -> Result<Answer<Listing<T>>, CliError> {
        self.probe(command)?.and_then(|reply| self.rows(command, reply))
    }

    /// The rows of a reply. Warns about names that forge rows.
    ///
    /// # Errors
    /// The reply is not a list.
    pub fn rows<T: Row>(
        &self,
        command: &AdminCommand,
        reply: AdminReply,
    ) -> Result<Listing<T>, CliError> {
        let listing = Listing::parse(reply).map_err(cli_error)?;
        if listing.is_untrusted() {
            let name = command.name();
            self.dialer.messages().warn(format!(
                "a name has line endings or other bytes that corrupt the rows of `{name}`: some rows may be wrong or missing"
            ));
        }
        Ok(listing)
    }

    /// Whether the single server is gearmand: no other one has `getpid`.
    ///
    /// # Errors
    /// As [`Link::probe`].
    pub fn is_gearmand(&mut self) -> Result<bool, CliError> {
        if let Some(is_gearmand) = self.is_gearmand {
            return Ok(is_gearmand);
        }
        let is_gearmand = self.probe(&AdminCommand::GetPid)?.came().is_some();
        Ok(*self.is_gearmand.insert(is_gearmand))
    }

    /// A connection to the server for single packets, and its address.
    ///
    /// # Errors
    /// There are several servers: exit 2. The server cannot be reached: exit 69.
    pub fn open_packets(&mut self) -> Result<(Packets, String), CliError> {
        let only = self.dialer.only()?;
        let packets = self
            .dialer
            .open(|attempt| Packets::connect(attempt.bound::<Self>(&only)).map_err(cli_error))?;
        Ok((packets, only.address().to_string()))
    }

    /// Connects to the server for text; `patience` is the time limit of its answers without `--timeout`.
    fn open_admin(&mut self, patience: Option<Duration>) -> Result<Admin, CliError> {
        let mut only = self.dialer.only()?;
        if let (Some(bound), None) = (patience, self.dialer.timeout()) {
            only = only.reply_timeout(bound);
        }
        let bound = self.dialer.call_bound();
        self.dialer.open(|attempt| {
            let mut admin = Admin::connect(attempt.bound::<Self>(&only)).map_err(cli_error)?;
            if attempt.asks {
                // The command that every server answers.
                admin.status().map_err(cli_error)?;
            }
            admin.set_total_timeout(bound);
            Ok(admin)
        })
    }
}
