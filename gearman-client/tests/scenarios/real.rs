//! Starts the real server, where it is installed.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A gearmand on a free port of 127.0.0.1, killed on drop.
pub(crate) struct Gearmand {
    child: Child,
    port: u16,
    address: String,
}

impl Gearmand {
    /// `None` where it is not installed, unless `CI=true` asks for it.
    pub(crate) fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let Some(child) = spawn(port) else {
            assert!(std::env::var("CI").is_err(), "gearmand is not installed");
            return None;
        };
        let server = Gearmand { child, port, address: format!("127.0.0.1:{port}") };
        server.wait();
        Some(server)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.port).unwrap();
        self.wait();
    }

    fn wait(&self) {
        let start = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            assert!(start.elapsed() < Duration::from_secs(10), "gearmand does not answer");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn spawn(port: u16) -> Option<Child> {
    let port = port.to_string();
    let pid_file = std::env::temp_dir().join(format!("gearman-client-{port}.pid"));
    Command::new("/usr/sbin/gearmand")
        .args(["-l", "none", "-L", "127.0.0.1", "-p", &port, "-P"])
        .arg(pid_file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}

impl Drop for Gearmand {
    fn drop(&mut self) {
        self.kill();
    }
}
