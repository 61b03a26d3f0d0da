//! Access to the servers: their addresses, how to reach them, and what a tool does over its connections.

pub mod absence;
pub(crate) mod attention;
pub mod diagnosis;
mod dialer;
pub mod parameters;
pub mod plan;
pub mod tls;
pub mod who;

use std::fmt::Display;
use std::io;
use std::time::Duration;

use clap::{Args, Command};
use fixtures::fault::Faults;
use queue_core::blocking::Canceller;

pub use self::dialer::Dialer;
use crate::error::CliError;
use crate::link::parameters::Parameters;
#[cfg(feature = "tls")]
use crate::link::tls::Tls;
use crate::output::{Column, Shape};
use crate::program::Servers;

/// The default time limit of `ping` and `check`.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The verb that switches to other servers, and the id of its argument.
pub(crate) const CONNECT: &str = "connect";

/// The connections of a tool, opened on first use.
pub trait Link: Sized + Send {
    /// The address of one server; displayed as people write it.
    type Address: Clone + Display + Send;
    /// The options of a connection to one server.
    type Options: Clone + Send + From<Self::Address>;
    /// An in-memory server, which runs until it is dropped.
    type Server: Send + Sync + 'static;

    /// How to apply flags to options.
    const SETTERS: Setters<Self::Options>;

    /// The longest time that a request asks the server to wait before it replies.
    const WAIT: Duration = Duration::ZERO;

    /// The parameters behind an address.
    const PARAMETERS: Parameters = Parameters::NONE;

    /// The columns of `ping`.
    const PING: &'static Shape = &PING;

    /// Creates a link for this dialer, without opening a connection.
    fn new(dialer: Dialer<Self>) -> Self;

    /// The dialer of its connections.
    fn dialer(&self) -> &Dialer<Self>;

    /// The dialer, for changes.
    fn dialer_mut(&mut self) -> &mut Dialer<Self>;

    /// Parses the servers' addresses.
    ///
    /// # Errors
    /// An address is invalid.
    fn parse(text: &str) -> Result<Vec<Self::Address>, CliError>;

    /// The same server with this transport.
    ///
    /// # Errors
    /// There is no such transport: exit 2.
    fn by(address: Self::Address, _transport: &str) -> Result<Self::Address, CliError> {
        Ok(address)
    }

    /// The same server over TLS, if supported.
    fn over_tls(address: Self::Address) -> Self::Address;

    /// Whether the address uses TLS.
    fn is_tls(address: &Self::Address) -> bool;

    /// Applies TLS settings.
    #[cfg(feature = "tls")]
    fn with_tls(options: Self::Options, _tls: Tls) -> Self::Options {
        options
    }

    /// Starts an in-memory server at `HOST:PORT`, where port 0 selects a free one, or at `unix:PATH`, on systems that
    /// have such sockets, and returns its bound address.
    ///
    /// # Errors
    /// The address cannot be bound.
    fn start(listen: &str, log: Option<RequestLog>) -> io::Result<(Self::Server, String)>;

    /// The fault injection of an in-memory server.
    fn faults(server: &Self::Server) -> Faults;

    /// Opens the command connection, unless it is open.
    ///
    /// # Errors
    /// No server can be reached: exit 69.
    fn connect(&mut self) -> Result<(), CliError>;

    /// Closes all connections.
    fn close(&mut self);

    /// Closes what only the last command needed; called after its output is written.
    fn rest(&mut self) {}

    /// A new link to the same servers, without open connections.
    #[must_use]
    fn sibling(&self) -> Self {
        Self::new(self.dialer().clone())
    }

    /// As [`Link::sibling`], for requests in the background while a line is edited: their messages are not shown.
    #[must_use]
    fn behind(&self) -> Self {
        let mut dialer = self.dialer().clone();
        dialer.mute();
        Self::new(dialer)
    }

    /// A new link without open connections: to the server at `to`, with its address, or otherwise to the same servers.
    /// A server that this link already uses, under any name, is refused.
    ///
    /// # Errors
    /// The errors of [`Dialer::address`].
    fn elsewhere(&mut self, to: Option<&str>) -> Result<(Self, Option<String>), CliError> {
        let Some(to) = to else { return Ok((self.sibling(), None)) };
        let mut other = self.sibling();
        other.dialer_mut().retarget(to.to_owned());
        let address = other.dialer_mut().address()?;
        let own = who::places(&self.dialer_mut().address()?);
        match who::places(&address).is_disjoint(&own) {
            true => Ok((other, Some(address))),
            false => Ok((self.sibling(), None)),
        }
    }

    /// A new link to the server at this address, not connected: one of these, under any of its names, or another.
    ///
    /// # Errors
    /// The errors of [`Dialer::address`].
    fn to_server(&mut self, address: &str) -> Result<Self, CliError> {
        let places = who::places(address);
        let is_there = |own: &String| !who::places(own).is_disjoint(&places);
        if let Some((_, link)) = self.each()?.into_iter().find(|(own, _)| is_there(own)) {
            return Ok(link);
        }
        let mut other = self.sibling();
        other.dialer_mut().retarget(address.to_owned());
        Ok(other)
    }

    /// A separate link to each server, not connected, with its address.
    ///
    /// # Errors
    /// The errors of [`Dialer::address`].
    fn each(&mut self) -> Result<Vec<(String, Self)>, CliError> {
        let each = self.dialer_mut().each()?;
        Ok(each.into_iter().map(|(address, dialer)| (address, Self::new(dialer))).collect())
    }

    /// The `n`th round trip to the server.
    ///
    /// # Errors
    /// The failure of the connection.
    fn ping(&mut self, n: u64) -> Result<Pong, CliError>;
}

/// The items of a [`Link`](crate::link::Link) that are the same for every SDK: `$sdk` is its crate, `$fixture` the
/// module of its server, `$text` the method that shows a request, `$error` what makes an error of the SDK one of the
/// tool, and `$pings` what sets the interval of pings. The link has a field `dialer`, and a method `client` that connects.
#[macro_export]
macro_rules! link_of_sdk {
    (@pings) => {
        None
    };
    (@pings $pings:path) => {
        Some($pings)
    };
    ($sdk:ident, $($fixture:ident)::+, $text:ident, $error:path $(, pings $pings:path)?) => {
        type Address = $sdk::Address;
        type Options = $sdk::ConnectOptions;
        type Server = $($fixture)::+::Server;

        const SETTERS: $crate::link::Setters<Self::Options> = $crate::link::Setters {
            connect_timeout: $sdk::ConnectOptions::connect_timeout,
            write_timeout: $sdk::ConnectOptions::write_timeout,
            reply_timeout: $sdk::ConnectOptions::reply_timeout,
            total_timeout: $sdk::ConnectOptions::total_timeout,
            ping_interval: $crate::link_of_sdk!(@pings $($pings)?),
            canceller: $sdk::ConnectOptions::canceller,
        };

        fn dialer(&self) -> &$crate::link::Dialer<Self> {
            &self.dialer
        }

        fn dialer_mut(&mut self) -> &mut $crate::link::Dialer<Self> {
            &mut self.dialer
        }

        fn parse(text: &str) -> Result<Vec<Self::Address>, $crate::error::CliError> {
            let (addresses, _) = Self::PARAMETERS.split(text)?;
            let servers: $sdk::Servers = addresses.parse().map_err($error)?;
            Ok(servers.addresses().cloned().collect())
        }

        fn over_tls(address: Self::Address) -> Self::Address {
            address.over_tls()
        }

        fn is_tls(address: &Self::Address) -> bool {
            address.is_tls()
        }

        #[cfg(feature = "tls")]
        fn with_tls(options: Self::Options, tls: $crate::link::tls::Tls) -> Self::Options {
            options.tls(tls)
        }

        fn start(
            listen: &str,
            log: Option<$crate::link::RequestLog>,
        ) -> std::io::Result<(Self::Server, String)> {
            let listen = $($fixture)::+::Listen::parse(listen, 0)?;
            let mut builder = $($fixture)::+::Server::builder().log_capacity(0).listen(listen);
            if let Some(mut log) = log {
                builder = builder.on_request(move |request: &$($fixture)::+::Request| {
                    log(request.connection, &request.$text());
                });
            }
            let server = builder.start()?;
            let address = server.address().to_owned();
            Ok((server, address))
        }

        fn faults(server: &Self::Server) -> fixtures::fault::Faults {
            server.faults()
        }

        fn connect(&mut self) -> Result<(), $crate::error::CliError> {
            self.client().map(drop)
        }
    };
}

/// Receives each request to an in-memory server, with the number of its connection.
pub type RequestLog = Box<dyn FnMut(u64, &str) + Send>;

/// The result of a ping.
#[derive(Debug, Clone)]
pub struct Pong {
    /// From the request to its reply.
    pub took: Duration,
    /// A further column: its key and value.
    pub more: Option<(&'static str, &'static str)>,
}

/// The methods that apply flags to options.
#[derive(Debug, Clone, Copy)]
pub struct Setters<O> {
    /// Sets the time limit for connecting.
    pub connect_timeout: fn(O, Duration) -> O,
    /// Sets the time limit for sending a request.
    pub write_timeout: fn(O, Duration) -> O,
    /// Sets the time limit for a reply.
    pub reply_timeout: fn(O, Duration) -> O,
    /// Sets the time limit of a whole call, if any.
    pub total_timeout: fn(O, Option<Duration>) -> O,
    /// Sets the idle time before a ping, or that there are none; only where pings exist.
    pub ping_interval: Option<fn(O, Option<Duration>) -> O>,
    /// Sets what ends calls before their answer.
    pub canceller: fn(O, Canceller) -> O,
}

/// The parameters of an attempt to connect.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Whether the server has to reply, too.
    pub asks: bool,
    /// The rest of `--timeout`, if set.
    left: Option<Duration>,
    /// Ends the attempt once it is known to be in vain.
    canceller: Option<Canceller>,
}

impl Attempt {
    /// Options whose calls end within what is left.
    pub fn bound<L: Link>(&self, options: &L::Options) -> L::Options {
        let mut options = options.clone();
        if self.left.is_some() {
            options = (L::SETTERS.total_timeout)(options, self.left);
        }
        match &self.canceller {
            Some(canceller) => (L::SETTERS.canceller)(options, canceller.clone()),
            None => options,
        }
    }
}

static PING: Shape = Shape::rows(
    "server",
    &[
        Column::new("server", "SERVER"),
        Column::new("n", "N"),
        Column::new("duration_ms", "MS"),
        Column::on_request("error", "ERROR"),
    ],
);

/// The flag that selects the servers.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Server address
    #[arg(short, long, short_alias = 'a', alias = "addr", global = true)]
    #[arg(value_name = "ADDR", help_heading = "Global options")]
    server: Vec<String>,
}

impl ServerArgs {
    /// The addresses, separated by commas.
    pub fn addresses(&self) -> Option<String> {
        (!self.server.is_empty()).then(|| self.server.join(","))
    }
}

/// Describes the flag by a tool's servers.
pub(crate) fn with_servers(tree: Command, servers: &Servers) -> Command {
    let (forms, default) = (servers.forms.trim_start_matches("host, "), servers.default);
    tree.mut_arg("server", |arg| {
        arg.help(format!(
            "Server address: {forms}; comma-separated or repeated for several [default: {default}]"
        ))
    })
}
