//! The connection to the server: opened when first needed, with the time limits that the flags set.

use std::fmt::Display;
use std::time::Instant;

use adf_queue_client::blocking::Client;
use adf_queue_client::protocol::{Request, Success, http};
use adf_queue_client::{
    Address, Delivery, Error, QueueName, QueueStats, RequestId, Stats, Transport,
};
use ctl_core::error::CliError;
use ctl_core::link::{Dialer, Link as _, Pong};
use ctl_core::output::messages::Trace;
use ctl_core::text::spelling::or_else;

use crate::error::{NO_QUEUE, QUEUE_EXISTS, QUEUE_NOT_FOUND, cli_error};

/// The connection that commands use.
pub struct Link {
    /// How it is made.
    pub dialer: Dialer<Self>,
    client: Option<Client>,
    /// A second connection, for commands that must not disturb the session's own.
    side: Option<Box<Link>>,
    /// Whether this is a session's own connection, which is a WebSocket whatever the address.
    in_session: bool,
}

impl ctl_core::link::Link for Link {
    ctl_core::link_of_sdk!(
        adf_queue_client,
        fixtures::adf_queue,
        to_string,
        cli_error,
        pings adf_queue_client::ConnectOptions::ping_interval
    );

    fn new(dialer: Dialer<Self>) -> Self {
        Self { dialer, client: None, side: None, in_session: false }
    }

    fn by(address: Address, transport: &str) -> Result<Address, CliError> {
        let transport = transport.parse().map_err(cli_error)?;
        Ok(address.with_transport(transport))
    }

    /// What it has pulled over WebSocket goes back to its queues, at the left end and in order.
    fn close(&mut self) {
        self.client = None;
        self.rest();
    }

    fn rest(&mut self) {
        self.side = None;
    }

    fn ping(&mut self, _: u64) -> Result<Pong, CliError> {
        let client = self.client()?;
        let start = Instant::now();
        client.ping().map_err(cli_error)?;
        Ok(Pong { took: start.elapsed(), more: None })
    }
}

/// The pull of a message, and its queue.
pub type Pull = (RequestId, QueueName);

/// The pull of this message.
pub fn pull_of(message: &Delivery) -> Pull {
    (*message.request_id(), message.queue().clone())
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

    /// The client, if it has been opened; it may have lost its connection since.
    pub fn opened(&mut self) -> Option<&mut Client> {
        self.client.as_mut()
    }

    /// Checks, without waiting, whether the connection has ended, and with it what was pulled over it.
    pub fn has_lost(&mut self) -> bool {
        !self.client.as_mut().is_some_and(Client::check_connection)
    }

    /// Turns this link into a session's own connection: [`Link::side`] is a second one from now on.
    pub fn enter_session(&mut self) {
        self.in_session = true;
    }

    /// The connection for commands that pull messages: a second one in a session, else this one.
    pub fn side(&mut self) -> &mut Link {
        if !self.in_session {
            return self;
        }
        let side = self.side.take().unwrap_or_else(|| Box::new(self.sibling()));
        self.side.insert(side)
    }

    /// The transport to the server.
    ///
    /// # Errors
    /// The address is wrong: exit 2.
    pub fn transport(&mut self) -> Result<Transport, CliError> {
        let transport = self.dialer.only()?.address().transport();
        Ok(if self.in_session { over_websocket(transport) } else { transport })
    }

    /// Whether requests are independent of a connection, so that a pulled message belongs to none.
    ///
    /// # Errors
    /// As for [`Link::transport`].
    pub fn is_http(&mut self) -> Result<bool, CliError> {
        let transport = self.transport()?;
        Ok(transport != over_websocket(transport))
    }

    /// The longest body that a push can have, in bytes.
    ///
    /// # Errors
    /// As for [`Link::transport`].
    pub fn max_body(&mut self) -> Result<u64, CliError> {
        Ok(match self.transport()? {
            Transport::WsBin => u64::from(u16::MAX),
            Transport::WsJson => MAX_MESSAGE,
            _ => http::MAX_BODY as u64,
        })
    }

    /// The answer to `call`, shown under `-vvv` as `what`: the action, its queue, and more in parentheses.
    ///
    /// # Errors
    /// The server's refusal, or the failure of the connection.
    pub fn ask<T>(
        &mut self,
        what: impl Display,
        call: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Result<T, CliError> {
        let trace = self.dialer.trace();
        trace.sent(&what);
        let answer = call(self.client()?);
        answered(&trace, answer, what)
    }

    /// The answer to a request that is built by hand.
    ///
    /// # Errors
    /// As for [`Link::ask`].
    pub fn call(&mut self, request: Request) -> Result<Success, CliError> {
        let what = format!("{} {} (id {})", request.action(), request.queue(), request.id());
        self.ask(what, |client| client.call(request))
    }

    /// The status page's data about the server and its queues.
    ///
    /// # Errors
    /// A page that is not a status page, or the failure of the connection.
    pub fn stats(&mut self) -> Result<Stats, CliError> {
        self.ask("status page", Client::stats)
    }

    /// The status page's data about a queue, if there is one of this name.
    ///
    /// # Errors
    /// As for [`Link::stats`].
    pub fn queue_stats(&mut self, queue: &QueueName) -> Result<Option<QueueStats>, CliError> {
        self.ask(format!("status page {queue}"), |client| client.queue_stats(queue.clone()))
    }

    /// Removes a pulled message for good.
    ///
    /// # Errors
    /// As for [`Link::ask`].
    pub fn delete(&mut self, message: &Delivery) -> Result<(), CliError> {
        let what = format!("delete {} (pull {})", message.queue(), message.request_id());
        self.ask(what, |client| client.delete(message))
    }

    /// Puts pulled messages back where they were: over WebSocket by closing the connection, which also wakes waiting
    /// clients; over HTTP one by one, the last one first.
    ///
    /// # Errors
    /// The failure of the connection, over HTTP.
    pub fn give_back(&mut self, messages: &[Delivery]) -> Result<(), CliError> {
        self.give_back_pulls(&messages.iter().map(pull_of).collect::<Vec<_>>())
    }

    /// The same for messages of which only the pulls are kept.
    ///
    /// # Errors
    /// As for [`Link::give_back`].
    pub fn give_back_pulls(&mut self, pulls: &[Pull]) -> Result<(), CliError> {
        if !self.is_http()? {
            self.client = None;
            return Ok(());
        }
        for (id, queue) in pulls.iter().rev() {
            self.call(Request::lcancel(*id, queue.clone()))?;
        }
        Ok(())
    }

    /// The same after an error, which then also names what could not be given back.
    pub fn give_back_after(&mut self, messages: &[Delivery], error: CliError) -> CliError {
        let Err(lost) = self.give_back(messages) else { return error };
        let ids = messages.iter().map(|message| message.request_id().as_str());
        let ids = ids.collect::<Vec<_>>().join(", ");
        let why = lost.message;
        error.hint(format!(
            "adfctl settle left, for the pulls {ids}, which could not be given back: {why}"
        ))
    }

    /// Another link to the same server, over HTTP.
    ///
    /// # Errors
    /// The address is wrong: exit 2.
    pub fn over_http(&mut self) -> Result<Link, CliError> {
        let transport = match over_websocket(self.transport()?) {
            Transport::WsJson => Transport::HttpJson,
            _ => Transport::HttpBin,
        };
        let mut link = self.sibling();
        link.dialer.speak(transport.to_string());
        Ok(link)
    }

    /// Connects, as long as `--wait-for-server` says; each attempt has what remains of `--timeout`.
    fn open(&mut self) -> Result<Client, CliError> {
        let transport = self.transport()?;
        if self.in_session && self.dialer.only()?.address().transport() != transport {
            self.dialer.speak(transport.to_string());
        }
        let options = self.dialer.only()?;
        let bound = self.dialer.call_bound();
        self.dialer.open(|attempt| {
            let options = attempt.bound::<Self>(&options);
            let mut client = Client::connect(options).map_err(cli_error)?;
            if attempt.asks {
                client.ping().map_err(cli_error)?;
            }
            client.set_total_timeout(bound);
            Ok(client)
        })
    }
}

/// The outcome of a request as the tool's own error; `trace` shows it.
///
/// # Errors
/// The client's error.
pub fn answered<T>(
    trace: &Trace,
    answer: Result<T, Error>,
    what: impl Display,
) -> Result<T, CliError> {
    let mut error = match answer {
        Ok(answer) => {
            trace.came("ok");
            return Ok(answer);
        }
        Err(error) => cli_error(error),
    };
    trace.came(&error.message);
    // The server's message names no queue.
    let what = what.to_string();
    let queue = queue_of(&what);
    match error.code {
        QUEUE_NOT_FOUND => error.message = format!("{NO_QUEUE}{queue}"),
        QUEUE_EXISTS => error.message = format!("{what}: the queue exists already"),
        _ => {}
    }
    Err(error.about("QUEUE", queue))
}

/// The queue in the description of a request: see [`Link::ask`].
fn queue_of(what: &str) -> &str {
    let queue = what.split_once(' ').map_or(what, |(_, queue)| queue);
    match queue.rsplit_once(" (") {
        Some((queue, more)) if more.ends_with(')') => queue,
        _ => queue,
    }
}

/// The WebSocket transport with the same format as this transport.
fn over_websocket(transport: Transport) -> Transport {
    match transport {
        Transport::HttpBin => Transport::WsBin,
        Transport::HttpJson => Transport::WsJson,
        websocket => websocket,
    }
}

/// The longest message that the client reads, in bytes.
const MAX_MESSAGE: u64 = 64 << 20;

/// Adds the queue of the server that is probably meant by one that it does not know.
pub fn with_near_queue(link: &mut Link, mut error: CliError) -> CliError {
    if error.code == QUEUE_NOT_FOUND
        && let Some(typed) = error.message.strip_prefix(NO_QUEUE)
    {
        let meant = or_near(link, typed);
        error.message.push_str(&meant);
    }
    error
}

/// What completes a message about a queue that does not exist: the one that is probably meant. Asks the server; whether
/// it answers is no reason for another error.
pub fn or_near(link: &mut Link, queue: &str) -> String {
    let known = link.stats().map(|stats| stats.queues).unwrap_or_default();
    or_else(queue, known.iter().map(|known| known.name.as_str()))
}
