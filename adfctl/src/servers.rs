//! The servers that this tool talks to, and where it gets their addresses.

use ctl_core::program::Servers;

/// The servers of this tool.
pub const SERVERS: Servers = Servers {
    kind: "Adf.QueueServer",
    port: 6230,
    schemes: &["tcp://", "adf://"],
    flag: "--server",
    short: "-s",
    variables: &["ADFCTL_SERVER"],
    default: "127.0.0.1:6230",
    forms: "host, host:port, adf://, adf+json://, http://, http+json://, unix:/path",
    pings: true,
};
