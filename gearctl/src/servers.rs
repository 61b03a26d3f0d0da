//! The servers that this tool talks to, and where it gets their addresses.

use ctl_core::program::Servers;

/// The servers of this tool.
pub const SERVERS: Servers = Servers {
    kind: "gearmand",
    port: 4730,
    schemes: &["tcp://", "gearman://"],
    flag: "--server",
    short: "-s",
    variables: &["GEARCTL_SERVER", "GEARMAN_SERVER", "GEARMAN_SERVERS"],
    default: "127.0.0.1:4730",
    forms: "host, host:port, [::1]:4730, unix:/path",
    pings: false,
};
