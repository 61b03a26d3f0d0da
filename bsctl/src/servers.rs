//! The servers that this tool talks to, and where it gets their addresses.

use ctl_core::program::Servers;

/// The servers of this tool.
pub const SERVERS: Servers = Servers {
    kind: "beanstalkd",
    port: 11300,
    schemes: &["tcp://", "beanstalk://", "beanstalkd://"],
    flag: "--server",
    short: "-s",
    variables: &["BSCTL_SERVER", "BSCTL_ADDR", "BEANSTALKD_ADDR"],
    default: "127.0.0.1:11300",
    forms: "host, host:port, [::1]:11300, unix:/path",
    pings: false,
};
