//! A service manager, such as systemd, that wants to know how this process does: `sd_notify(3)`.

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, Instant};

/// The variables that it sets; children do not inherit them.
pub(crate) const MANAGER_VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// The manager, or none.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    socket: Option<system::Socket>,
    /// How often it wants a sign of life, if at all: twice in its time limit.
    every: Option<Duration>,
    last: Option<Instant>,
    /// The state that it knows.
    told: Option<&'static str>,
}

impl Manager {
    /// That of this process.
    pub(crate) fn from_env() -> Self {
        let [address, limit, process] = MANAGER_VARIABLES.map(std::env::var_os);
        let is_meant =
            process.is_none_or(|pid| pid.to_str() == Some(&std::process::id().to_string()));
        Self::at(address.as_deref(), limit.as_deref().filter(|_| is_meant))
    }

    fn at(address: Option<&OsStr>, limit: Option<&OsStr>) -> Self {
        let limit = limit.and_then(|limit| limit.to_str()?.parse().ok()).filter(|limit| *limit > 0);
        let every = limit.map(|limit| Duration::from_micros(limit) / 2);
        Self { socket: address.and_then(system::connect), every, last: None, told: None }
    }

    /// Tells it a state, such as `READY=1`, once. It may be gone; if it has no room, the next call tries again.
    pub(crate) fn tell(&mut self, state: &'static str) {
        if self.told != Some(state) && self.send(state) {
            self.told = Some(state);
        }
    }

    /// A sign of life, when it is due.
    pub(crate) fn keep_alive(&mut self, now: Instant) {
        let Some(every) = self.every else { return };
        if self.last.is_none_or(|last| now.saturating_duration_since(last) >= every) {
            self.last = Some(now);
            self.send("WATCHDOG=1");
        }
    }

    /// Whether it had room.
    fn send(&self, message: &str) -> bool {
        let sent = self.socket.as_ref().map(|socket| socket.send(message.as_bytes()));
        !matches!(sent, Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

#[cfg(unix)]
mod system {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    pub(super) type Socket = UnixDatagram;

    pub(super) fn connect(address: &OsStr) -> Option<UnixDatagram> {
        let address = match address.as_bytes().strip_prefix(b"@") {
            Some(name) => in_namespace(name)?,
            None => SocketAddr::from_pathname(address).ok()?,
        };
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        socket.connect_addr(&address).ok()?;
        Some(socket)
    }

    #[cfg(target_os = "linux")]
    fn in_namespace(name: &[u8]) -> Option<SocketAddr> {
        use std::os::linux::net::SocketAddrExt as _;
        SocketAddr::from_abstract_name(name).ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn in_namespace(_: &[u8]) -> Option<SocketAddr> {
        None
    }
}

#[cfg(not(unix))]
mod system {
    pub(super) type Socket = std::net::UdpSocket;

    pub(super) fn connect(_: &std::ffi::OsStr) -> Option<Socket> {
        None
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn notifies_a_path_and_an_abstract_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("ctl-core-{}", std::process::id());
        let named = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, address) in [
            (UnixDatagram::bind(&path), path.as_os_str()),
            (UnixDatagram::bind_addr(&named), OsStr::new(&format!("@{name}"))),
        ] {
            let mut manager = Manager::at(Some(address), Some(OsStr::new("10000000")));
            manager.tell("READY=1");
            let start = Instant::now();
            for second in [0, 4, 6, 10, 11] {
                manager.keep_alive(start + Duration::from_secs(second));
            }
            manager.tell("STOPPING=1");
            let socket = socket.unwrap();
            let all = [(); 5].map(|()| heard(&socket));
            assert_eq!(all, ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "STOPPING=1"]);
        }
    }

    #[test]
    fn a_state_reaches_a_manager_that_had_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let other = UnixDatagram::unbound().unwrap();
        other.set_nonblocking(true).unwrap();
        let kept = (0..).take_while(|_| other.send_to(b"x", &path).is_ok()).count();
        let mut manager = Manager::at(Some(path.as_os_str()), None);
        manager.tell("READY=1");
        for _ in 0..kept {
            assert_eq!(heard(&socket), "x");
        }
        manager.tell("READY=1");
        manager.tell("READY=1");
        manager.tell("STOPPING=1");
        assert_eq!([heard(&socket), heard(&socket)], ["READY=1", "STOPPING=1"]);
    }

    #[test]
    fn sends_nothing_without_a_manager() {
        for (address, limit) in
            [(None, None), (Some("/no/such/socket"), Some("x")), (Some("@"), Some("0"))]
        {
            let mut manager = Manager::at(address.map(OsStr::new), limit.map(OsStr::new));
            manager.tell("READY=1");
            manager.keep_alive(Instant::now());
            assert!(manager.every.is_none());
        }
    }
}
