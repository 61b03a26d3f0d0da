//! A real headless browser, driven over its debugging protocol.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket, client};

use crate::program::Running;

/// Longer than any step takes, even on a busy machine; only a hang exceeds it.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// A browser with one page.
pub struct Browser {
    _child: Running,
    socket: WebSocket<Uninterrupted>,
    last: u64,
    /// The page's.
    session: String,
    _profile: tempfile::TempDir,
}

/// A connection whose reads go on after a signal. Linux ends a read with a time limit when its process is stopped and
/// continued.
struct Uninterrupted(TcpStream);

impl Read for Uninterrupted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl Write for Uninterrupted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Browser {
    /// Starts a browser; `None` if none is installed, unless `CI=true` is set.
    #[must_use]
    pub fn start() -> Option<Self> {
        let is_there = |name: &&str| {
            let mut command = Command::new(name);
            let status =
                command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let Some(name) =
            ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there)
        else {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "chromium is not installed");
            eprintln!("left out: chromium is not installed");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(name);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.env("TMPDIR", profile.path());
        command.args(["--no-first-run", "--remote-debugging-port=0"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = Running::of(command.spawn().unwrap());
        let url = place(&profile.path().join("DevToolsActivePort"));
        let host = url.trim_start_matches("ws://").split('/').next().unwrap();
        let stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = client(url.as_str(), Uninterrupted(stream)).unwrap();
        let session = String::new();
        let mut browser = Self { _child: child, socket, last: 0, session, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        let collect = "window.failures = []; addEventListener('error', (e) => failures.push(e.message)); \
                       addEventListener('unhandledrejection', (e) => failures.push(String(e.reason)));";
        browser.call("Page.enable", &json!({}));
        browser.call("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": collect }));
        Some(browser)
    }

    /// Sends a command, and returns its result; events are ignored.
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut asked = json!({ "id": self.last, "method": method, "params": parameters });
        if !self.session.is_empty() {
            asked["sessionId"] = self.session.clone().into();
        }
        self.socket.send(Message::text(asked.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// The value of an expression of the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", &asked);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {}",
            result["exceptionDetails"]
        );
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let start = Instant::now();
        while self.value(&format!("Boolean({expression})")) != true {
            if start.elapsed() > PATIENCE {
                panic!("{expression} never was; the page: {}", self.text("body"));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sets the size of its window.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Presses and releases the Escape key.
    pub fn escape(&mut self) {
        for kind in ["keyDown", "keyUp"] {
            let key = json!({ "type": kind, "key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27 });
            self.call("Input.dispatchKeyEvent", &key);
        }
    }

    /// Opens an address, and waits until the page is complete.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
        self.wait("document.body && document.body.dataset.ready === 'true'");
    }

    /// The text of the first element that a selector finds.
    pub fn text(&mut self, selector: &str) -> String {
        let found = self.value(&format!("document.querySelector({})?.innerText", json!(selector)));
        found.as_str().unwrap_or_default().to_owned()
    }

    /// Waits for the element with this text, or for any if it is empty, and clicks it.
    pub fn press(&mut self, selector: &str, text: &str) {
        let found = format!(
            "[...document.querySelectorAll({})].find((e) => !e.disabled && e.checkVisibility() && \
             ({text} === '' || e.textContent === {text} || e.textContent === '/' + {text}))",
            json!(selector),
            text = json!(text),
        );
        self.wait(&found);
        self.value(&format!("{found}.click()"));
    }

    /// Fills in a field.
    pub fn fill(&mut self, selector: &str, text: &str) {
        let found = format!("document.querySelector({})", json!(selector));
        self.wait(&found);
        self.value(&format!("{found}.value = {}", json!(text)));
    }

    /// Errors of the page, in lines.
    pub fn errors(&mut self) -> String {
        self.value("failures.join('\\n')").as_str().unwrap_or_default().to_owned()
    }
}

/// Where the browser listens, once it has reported it.
fn place(file: &Path) -> String {
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Some((port, path)) = text.split_once('\n').filter(|(_, path)| !path.is_empty()) {
            return format!("ws://127.0.0.1:{port}{}", path.trim_end());
        }
        assert!(start.elapsed() < PATIENCE, "the browser does not listen");
        std::thread::sleep(PAUSE);
    }
}
