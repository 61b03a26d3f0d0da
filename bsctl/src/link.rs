//! The connection to the server: opened when first needed, with the time limits that the flags set.

use std::time::{Duration, Instant};

use beanstalk_client::blocking::Client;
use beanstalk_client::{
    Epoch,
    protocol::{Command, Effect, ListTubeUsed, ReserveJob, Response, ServerWait, Stats},
};
use beanstalk_client::{Error, JobId, JobRef, ServerStats, TubeName, TubeStats};
use bytes::BytesMut;
use ctl_core::error::CliError;
use ctl_core::link::parameters::Parameters;
use ctl_core::link::{Dialer, Link as _, Pong};
use ctl_core::output::messages::Trace;

use crate::error::cli_error;
use crate::names;

/// The replies to two commands.
pub type PairReplies<A, B> =
    (Result<<A as Command>::Reply, CliError>, Result<<B as Command>::Reply, CliError>);

/// The connection that commands use.
pub struct Link {
    /// How it is made.
    pub dialer: Dialer<Self>,
    client: Option<Client>,
    /// A second connection, for commands that must not disturb the session's own.
    side: Option<Box<Link>>,
    /// Whether this is a session's own connection.
    in_session: bool,
    /// The session's own connection, beside which this is a second one.
    beside: Own,
}

/// What the tool's own connections add to a server's figures. No figure that a command shows counts the tool itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own {
    connections: u64,
    /// Those that watch and use `default`, as all do from the start. Other tubes are those of a session's commands.
    watching: u64,
    using: u64,
}

impl Own {
    fn of(client: Option<&Client>) -> Self {
        let Some(client) = client.filter(|client| client.is_connected()) else {
            return Self::default();
        };
        let default = TubeName::default();
        Self {
            connections: 1,
            watching: u64::from(client.watched_tubes().contains(&default)),
            using: u64::from(*client.used_tube() == default),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            connections: self.connections + other.connections,
            watching: self.watching + other.watching,
            using: self.using + other.using,
        }
    }

    /// The statistics of a server without the tool's connections.
    pub fn left_out_of_server(self, mut stats: ServerStats) -> ServerStats {
        stats.current_connections = stats.current_connections.saturating_sub(self.connections);
        stats
    }

    /// The statistics of a tube without the tool's connections.
    pub fn left_out_of_tube(self, mut stats: TubeStats) -> TubeStats {
        if stats.name == TubeName::default() {
            stats.current_watching = stats.current_watching.saturating_sub(self.watching);
            stats.current_using = stats.current_using.saturating_sub(self.using);
        }
        stats
    }
}

/// The used tube and the watch list, so that they can be restored; those of a new connection unless others are known.
pub struct Place {
    /// The used tube.
    pub used: TubeName,
    /// The watch list.
    pub watched: Vec<TubeName>,
}

impl Default for Place {
    fn default() -> Self {
        Self { used: TubeName::default(), watched: vec![TubeName::default()] }
    }
}

impl ctl_core::link::Link for Link {
    ctl_core::link_of_sdk!(beanstalk_client, fixtures::beanstalkd, text, cli_error);
    const WAIT: Duration = SLICE;
    // As Symfony's Messenger writes them; the others are for its own worker.
    const PARAMETERS: Parameters = Parameters {
        queue: &["tube_name", "tube"],
        ignored: &["timeout", "ttr", "bury_on_reject"],
    };

    fn new(dialer: Dialer<Self>) -> Self {
        Self { dialer, client: None, side: None, in_session: false, beside: Own::default() }
    }

    /// Its reserved jobs go back to ready with unchanged counters.
    fn close(&mut self) {
        self.client = None;
        self.rest();
    }

    fn rest(&mut self) {
        self.side = None;
    }

    fn ping(&mut self, _: u64) -> Result<Pong, CliError> {
        let start = Instant::now();
        self.call(ListTubeUsed)?;
        Ok(Pong { took: start.elapsed(), more: None })
    }
}

impl Link {
    /// The client, connected if it was not.
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
    pub fn is_connected(&self) -> bool {
        self.client.as_ref().is_some_and(Client::is_connected)
    }

    /// Checks, without waiting, whether this connection has ended, and with it what was reserved over it.
    pub fn has_lost(&mut self, epoch: Epoch) -> bool {
        let is_same = |client: &mut Client| client.check_connection() && client.epoch() == epoch;
        !self.client.as_mut().is_some_and(is_same)
    }

    /// Turns this link into a session's own connection: [`Link::side`] is a second one from now on.
    pub fn enter_session(&mut self) {
        self.in_session = true;
    }

    /// The connection for commands that reserve jobs: a second one in a session, else this one.
    pub fn side(&mut self) -> &mut Link {
        if !self.in_session {
            return self;
        }
        let mut side = self.side.take().unwrap_or_else(|| Box::new(self.sibling()));
        side.beside = Own::of(self.client.as_ref());
        self.side.insert(side)
    }

    /// This tool's own share of the server's figures: this connection, and the other one of a session.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn own(&mut self) -> Result<Own, CliError> {
        self.client()?;
        let side = self.side.as_ref().and_then(|side| side.client.as_ref());
        Ok(Own::of(self.client.as_ref()).and(Own::of(side)).and(self.beside))
    }

    /// The server's statistics without the tool's own connections.
    ///
    /// # Errors
    /// As [`Link::call`].
    pub fn server_stats(&mut self) -> Result<ServerStats, CliError> {
        let own = self.own()?;
        Ok(own.left_out_of_server(self.call(Stats)?))
    }

    /// One command and its reply.
    ///
    /// # Errors
    /// The server's refusal, or the failure of the connection.
    pub fn call<C: Command>(&mut self, command: C) -> Result<C::Reply, CliError> {
        let command = Traced::new(command, &self.dialer.trace());
        self.client()?.call(&command).map_err(|error| failed(&command, error))
    }

    /// Many commands without waiting for each reply; replies arrive in order.
    ///
    /// # Errors
    /// The server cannot be reached. Each reply has its own result.
    pub fn pipeline<C: Command, I: IntoIterator<Item = C>>(
        &mut self,
        commands: I,
    ) -> Result<impl Iterator<Item = Result<C::Reply, CliError>> + use<'_, C, I>, CliError> {
        let trace = self.dialer.trace();
        let traced = commands.into_iter().map(move |command| Traced::new(command, &trace));
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
        let trace = self.dialer.trace();
        let (first, second) = (Traced::new(first, &trace), Traced::new(second, &trace));
        let replies = self.client()?.call_pair(&first, &second);
        let (a, b) = replies.map_err(|error| failed(&first, error))?;
        Ok((a.map_err(|error| failed(&first, error)), b.map_err(cli_error)))
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
    pub fn place(&self) -> Option<Place> {
        let client = self.client.as_ref()?;
        Some(Place { used: client.used_tube().clone(), watched: client.watched_tubes().to_vec() })
    }

    /// Restores used tube and watch list.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn restore(&mut self, place: &Place) -> Result<(), CliError> {
        self.use_tube(&place.used)?;
        self.watch_only(&place.watched)
    }

    /// Connects, as long as `--wait-for-server` says; each attempt has what remains of `--timeout`.
    fn open(&mut self) -> Result<Client, CliError> {
        let options = self.dialer.only()?;
        let trace = self.dialer.trace();
        let bound = self.dialer.call_bound();
        let usual = self.dialer.settings().queue().filter(|_| self.in_session);
        let usual = usual.map(|name| names::tube(&name)).transpose()?;
        self.dialer.open(|attempt| {
            let options = attempt.bound::<Self>(&options);
            let mut client = Client::connect(options).map_err(cli_error)?;
            if attempt.asks {
                client.call(&Traced::new(ListTubeUsed, &trace)).map_err(cli_error)?;
            }
            if let Some(tube) = &usual {
                client.use_tube(tube.clone()).map_err(cli_error)?;
                client.watch(tube.clone()).map_err(cli_error)?;
                if *tube != TubeName::default() {
                    client.ignore(TubeName::default()).map_err(cli_error)?;
                }
            }
            client.set_total_timeout(bound);
            Ok(client)
        })
    }

    /// Asks for job 0, which never exists: a server that knows the command answers NOT_FOUND.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn knows_reserve_job(&mut self) -> Result<bool, CliError> {
        match self.call(ReserveJob(JobId::from(0))) {
            Ok(_) => Ok(true),
            Err(error) if error.code == "UNSUPPORTED" => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The failure of a command, with its job in the advice.
fn failed<C: Command>(command: &C, error: Error) -> CliError {
    let id = command.job().map(|job| job.id());
    id.into_iter().fold(cli_error(error), |error, id| error.about("ID", id))
}

/// The longest wait in one command: touches can be sent in between, and signals are noticed.
pub const SLICE: Duration = Duration::from_secs(1);

/// A command that shows its line and its reply's line under `-vvv`.
struct Traced<C> {
    command: C,
    trace: Trace,
}

impl<C> Traced<C> {
    fn new(command: C, trace: &Trace) -> Self {
        Self { command, trace: trace.clone() }
    }
}

impl<C: Command> Command for Traced<C> {
    type Reply = C::Reply;
    const NAME: &'static str = C::NAME;

    fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        self.command.encode(out);
        if self.trace.is_on() {
            let sent = out.get(start..).unwrap_or_default();
            let line = sent.split(|&byte| byte == b'\r').next().unwrap_or_default();
            self.trace.sent(String::from_utf8_lossy(line));
        }
    }

    fn decode(&self, response: Response) -> Result<Self::Reply, Error> {
        if self.trace.is_on() {
            self.trace.came(reply_line(&response));
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
pub fn reply_line(response: &Response) -> String {
    let word = response.word();
    match response {
        Response::Inserted(id) | Response::Buried(Some(id)) => format!("{word} {id}"),
        Response::Using(tube) => format!("{word} {}", String::from_utf8_lossy(tube)),
        Response::Reserved(job) | Response::Found(job) => {
            format!("{word} {} {}", job.id, job.body.len())
        }
        Response::Ok(text) => format!("{word} {}", text.len()),
        Response::Watching(count) | Response::Kicked(Some(count)) => format!("{word} {count}"),
        Response::Other(other) => String::from_utf8_lossy(other).into_owned(),
        _ => word.to_owned(),
    }
}
