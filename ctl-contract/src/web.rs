//! `web`, used by a browser and by other clients.

use std::borrow::BorrowMut;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use ctl_core::context::Tool;
use serde_json::{Value, json};

use crate::Case;
use crate::browser::Browser;
use crate::program::{Program, Running, hears};

/// The token of the pages that tests start.
pub const TOKEN: &str = "0123456789abcdef";

/// A running page.
pub struct Web {
    child: Running,
    /// Its address.
    pub address: String,
}

impl Web {
    /// Starts the page of a program for these servers.
    #[must_use]
    pub fn start(program: &Program, servers: &str, flags: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", program, servers, flags)
    }

    fn start_at(place: &str, program: &Program, servers: &str, flags: &[&str]) -> Self {
        let servers = if servers.is_empty() { &[][..] } else { &[program.flag, servers] };
        let line = [servers, &["web", "--listen", place], flags].concat();
        let command = program.command(&line);
        if flags.contains(&"--token-file") { Self::started(command) } else { Self::of(command) }
    }

    /// Starts the page that a command serves; its token is [`TOKEN`].
    #[must_use]
    pub fn of(mut command: Command) -> Self {
        // The program may run as another user.
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(&token, TOKEN).unwrap();
        Self::started(command.arg("--token-file").arg(token))
    }

    /// It has read its token when it prints its address.
    fn started(mut command: impl BorrowMut<Command>) -> Self {
        let command = command.borrow_mut();
        let mut child = Running::of(command.spawn().unwrap());
        let address = child.first_line();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// The status, the head and the body of the answer.
    fn ask(&self, request: &str) -> (u16, String, String) {
        let mut stream = self.connect();
        // A server that refuses may not read all of it.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_default(), head.to_ascii_lowercase(), body.to_owned())
    }

    fn get(&self, path: &str) -> (u16, String, String) {
        let host = &self.address;
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{}\r\n", authorization(TOKEN)))
    }

    /// Opens it in a browser as the printed link does, and then this place in it.
    pub fn show(&self, browser: &mut Browser, place: &str) {
        browser.open(&format!("http://{}/#token={TOKEN}", self.address));
        if !place.is_empty() {
            browser.open(&format!("http://{}/{place}", self.address));
        }
    }

    /// The initial data of the page.
    #[must_use]
    pub fn title(&self) -> Value {
        serde_json::from_str(&self.get("/title").2).unwrap()
    }

    /// Sends a request of the page, with these headers in addition to `Host`.
    fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n");
        let (status, _, body) = self.ask(&format!("{head}{body}"));
        (status, body)
    }

    /// Performs an action as the page does.
    pub fn does(&self, path: &str, asked: &Value) -> (u16, Value) {
        let (own, token) = (format!("http://{}", self.address), format!("Bearer {TOKEN}"));
        let headers = [("Host", &*self.address), ("Origin", &*own), ("Authorization", &*token)];
        let (status, body) = self.post(path, &headers, &asked.to_string());
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    /// The first snapshot of a stream, and the stream.
    fn picture(&self) -> (Value, TcpStream) {
        let mut stream = self.connect();
        let host = &self.address;
        let token = authorization(TOKEN);
        write!(stream, "GET /live HTTP/1.1\r\nHost: {host}\r\n{token}\r\n").unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut events =
            lines.filter_map(|line| line.unwrap().strip_prefix("data: ").map(str::to_owned));
        (serde_json::from_str(&events.next().unwrap()).unwrap(), stream)
    }

    /// Stops it with a signal.
    pub fn end(self) {
        self.child.terminated();
    }
}

fn authorization(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// The page loads nothing from elsewhere, and the stream has the queues.
pub fn web_shows_the_backlog<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let web = Web::start(&case.program, &format!("{address},127.0.0.1:1"), &[]);
    for path in ["/", "/page.js", "/page.css"] {
        let (status, head, body) = web.get(path);
        assert_eq!(status, 200, "{path}");
        assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
        assert!(!head.contains("unsafe-inline") && head.contains("nosniff"), "{head}");
        assert!(head.contains("x-frame-options: deny"), "{head}");
        // Nothing that the policy would block, and no third party.
        for forbidden in [" style=", " onclick=", "<script>", "innerHTML", "https://", "eval("] {
            assert!(!body.contains(forbidden), "{path}: {forbidden}");
        }
    }
    let (picture, _stream) = web.picture();
    let servers = picture["servers"].as_array().unwrap();
    assert_eq!(servers.iter().filter(|server| server["up"] == true).count(), 1, "{picture}");
    let queues = picture["queues"].as_array().unwrap();
    let is_mail = |queue: &Value| queue["queue"].as_str().unwrap().ends_with("mail");
    assert!(queues.iter().any(is_mail), "{picture}");
    // The number of streams is bounded, and one that ends frees its slot.
    let streams: Vec<TcpStream> = (1..16).map(|_| web.picture().1).collect();
    assert_eq!(web.get("/live").0, 503);
    drop(streams);
    web.end();
}

/// Requests that a page of another origin could send are refused, as are oversized ones.
pub fn web_rejects_cross_origin<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let web = Web::start(&case.program, &address, &["--write"]);
    let host = web.address.as_str();
    let (own, token, wrong) = (format!("http://{host}"), format!("Bearer {TOKEN}"), "Bearer 0");
    let action = &web.title()["site"]["actions"][0]["name"];
    let asked = json!({ "server": address, "name": action, "queue": "mail", "values": { "body": "x" }, "confirm": "" });
    let asked = asked.to_string();
    let evil = "evil.example:80";
    for (headers, status) in [
        (&[("Host", evil), ("Origin", &own), ("Authorization", &token)][..], 421),
        (&[("Host", host), ("Origin", "http://evil.example"), ("Authorization", &token)], 403),
        (&[("Host", host), ("Authorization", &token)], 403),
        (&[("Host", host), ("Origin", &own), ("Authorization", wrong)], 401),
    ] {
        for path in ["/act", "/view"] {
            assert_eq!(web.post(path, headers, &asked).0, status, "{path} {headers:?}");
        }
    }
    assert_eq!((case.jobs)(&server), 0);
    assert_eq!(web.ask(&format!("GET /title HTTP/1.1\r\nHost: {evil}\r\n\r\n")).0, 421);
    let by = |method: &str| {
        web.ask(&format!("{method} / HTTP/1.1\r\nHost: {host}\r\n{}\r\n", authorization(TOKEN)))
    };
    assert_eq!(by("DELETE").0, 405);
    let (status, _, body) = by("HEAD");
    assert_eq!((status, &*body), (200, ""));
    assert_eq!(web.get("/nothing").0, 404);
    let headers = [("Host", host), ("Origin", &*own), ("Authorization", &*token)];
    assert_eq!(web.post("/act", &headers, &"x".repeat(300 << 10)).0, 413);
    assert_eq!(web.post("/act", &headers, "{}").0, 400);
    web.end();
}

/// The page does what a command does, but only with `--write`.
pub fn web_writes_only_when_enabled<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let add: Vec<&str> = case.add.split(' ').chain(["body"]).collect();
    case.program.at(&address, &add).exits(0);
    let names = ["put", "submit", "push"];
    let asked = |name: &str, server: &str| {
        let mail = if case.noun == "queue" { "/mail" } else { "mail" };
        let queue = if case.add.contains(" mail") && case.noun == "queue" { "mail" } else { mail };
        json!({ "server": server, "name": name, "queue": queue, "values": { "body": "@x" }, "confirm": "" })
    };
    let web = Web::start(&case.program, &address, &[]);
    assert_eq!(web.title()["site"]["actions"], json!([]));
    let server_name = web.picture().0["servers"][0]["server"].as_str().unwrap().to_owned();
    for name in names {
        let (status, refused) = web.does("/act", &asked(name, &server_name));
        assert_eq!(status, 422);
        assert!(refused["error"]["message"].as_str().unwrap().contains("read-only"), "{refused}");
    }
    web.end();
    let web = Web::start(&case.program, &address, &["--write"]);
    let name = web.title()["site"]["actions"][0]["name"].as_str().unwrap().to_owned();
    let (status, done) = web.does("/act", &asked(&name, &server_name));
    assert_eq!((status, &done["done"]), (200, &true.into()), "{done}");
    assert_eq!((case.jobs)(&server), 2);
    let (status, refused) = web.does("/act", &asked("shutdown", &server_name));
    assert_eq!(status, 422, "{refused}");
    let (status, refused) = web.does("/act", &asked(&name, "127.0.0.1:1"));
    assert_eq!(status, 422, "{refused}");
    for view in web.title()["site"]["views"].as_array().unwrap() {
        let mut asked = asked(view["name"].as_str().unwrap(), &server_name);
        asked["values"] = json!({});
        let (status, shown) = web.does("/view", &asked);
        assert_eq!(status, 200, "{shown}");
        assert!(shown["result"].is_array() || shown["result"].is_object(), "{shown}");
    }
    web.end();
}

/// The preview shows what the command would do; nothing changes.
pub fn web_previews_every_action<T: Tool>(case: &Case<T>) {
    let (server, address) = case.filled();
    let web = Web::start(&case.program, &address, &["--write"]);
    let picture = web.picture().0;
    let queues = picture["queues"].as_array().unwrap();
    let mut names = queues.iter().map(|queue| queue["queue"].as_str().unwrap());
    let mail = names.find(|name| name.ends_with("mail")).unwrap();
    for action in web.title()["site"]["actions"].as_array().unwrap() {
        let value = |field: &Value| match field["kind"].as_str().unwrap() {
            "name" => json!(format!("{mail}-other")),
            "number" => json!("1"),
            "word" => field["words"][0].clone(),
            _ => field["default"].clone(),
        };
        let fields = action["fields"].as_array().unwrap().iter();
        let values: serde_json::Map<_, _> = fields
            .map(|field| (field["name"].as_str().unwrap().to_owned(), value(field)))
            .collect();
        let asked = json!({
            "server": picture["servers"][0]["server"], "name": action["name"], "queue": mail, "values": values,
        });
        if action["asks"] == true {
            let (status, said) = web.does("/act", &asked);
            // The command may have nothing to do, but it exists.
            assert!(status == 200 || said["error"]["exit"] == 1, "{asked}: {said}");
        }
    }
    assert_eq!((case.jobs)(&server), 1);
    web.end();
}

/// Neither users of this machine nor those of others, whether or not the page is encrypted.
pub fn web_requires_the_token<T: Tool>(case: &Case<T>) {
    let refused = |flags: &[&str], why: &str| {
        let line = [&[case.program.flag, "127.0.0.1:1", "web"], flags].concat();
        let ran = case.program.bare(&line).exits(2);
        assert!(ran.err.contains(why), "{flags:?}: {}", ran.err);
    };
    refused(&["--listen", "0.0.0.0:0"], "without --allow-remote");
    refused(&["-q"], "-q would hide the link");
    refused(&["--interval", "1ms"], "100ms");
    let (_server, address) = Case::<T>::server();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "short\n").unwrap();
    refused(&["--token-file", file.to_str().unwrap()], "too short");
    std::fs::write(&file, "fedcba9876543210\n").unwrap();
    let web = Web::start(&case.program, &address, &["--token-file", file.to_str().unwrap()]);
    let asked = |web: &Web, path: &str, authorization: &str| {
        let host = &web.address;
        web.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{authorization}\r\n")).0
    };
    for path in ["/title", "/live", "/picture"] {
        assert_eq!(asked(&web, path, ""), 401, "{path}");
        assert_eq!(asked(&web, path, &authorization(TOKEN)), 401, "{path}");
    }
    let basic = ctl_core::text::encoding::base64(b"ann:fedcba9876543210");
    assert_eq!(asked(&web, "/title", &format!("Authorization: Basic {basic}\r\n")), 200);
    web.end();
    // A random one is in the link.
    let line = [case.program.flag, &address, "web", "--listen", "127.0.0.1:0"];
    let child = case.program.command(&line).spawn().unwrap();
    let mut child = Running::of(child);
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let address = child.first_line();
    let web = Web { child, address };
    let said = hears(&mut told, "#token=");
    let token: String = said
        .split_once("#token=")
        .map(|(_, rest)| rest.chars().take_while(char::is_ascii_hexdigit).collect())
        .unwrap();
    assert_eq!(token.len(), 32, "{said}");
    assert_eq!(asked(&web, "/title", &authorization(&token)), 200);
    assert_eq!((asked(&web, "/title", ""), asked(&web, "/", "")), (401, 200));
    web.end();
}

/// The log of the server shows who changed what.
pub fn web_logs_changes<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let add: Vec<&str> = case.add.split(' ').chain(["body"]).collect();
    case.program.at(&address, &add).exits(0);
    let mut web = Web::start(&case.program, &address, &["--write"]);
    let mut told = BufReader::new(web.child.stderr.take().unwrap());
    let picture = web.picture().0;
    let queues = picture["queues"].as_array().unwrap();
    let mut names = queues.iter().map(|queue| queue["queue"].as_str().unwrap());
    let asked = json!({
        "server": picture["servers"][0]["server"], "name": web.title()["site"]["actions"][0]["name"],
        "queue": names.find(|name| name.ends_with("mail")), "values": { "body": "secret" }, "confirm": "",
    });
    let (status, done) = web.does("/act", &asked);
    assert_eq!((status, (case.jobs)(&server)), (200, 2), "{done}");
    let said = hears(&mut told, " ran at ");
    let line = said.lines().last().unwrap();
    let verb = case.add.split(' ').next().unwrap();
    assert!(line.contains(" 127.0.0.1:") && line.contains(verb), "{line}");
    assert!(line.contains("mail") && line.contains("6 bytes"), "{line}");
    assert!(!line.contains("secret"), "{line}");
    web.end();
}

/// In a real browser: the page names the server it changes.
pub fn web_shows_its_context<T: Tool>(case: &Case<T>) {
    let Some(mut browser) = Browser::start() else { return };
    let (_server, address) = Case::<T>::server();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let context = |name: &str| format!("[contexts.{name}]\nserver = \"{address}\"\n");
    let text = format!(
        "{}prompt-color = \"green\"\n{}protected = true\n",
        context("dev"),
        context("prod")
    );
    std::fs::write(&file, text).unwrap();
    let tool = case.program.name;
    for (name, shown, color) in [("dev", "dev", "green"), ("prod", "prod: protected", "red")] {
        let flags = ["--config", file.to_str().unwrap(), "--context", name, "--write"];
        let web = Web::start(&case.program, "", &flags);
        web.show(&mut browser, "");
        assert_eq!(browser.text("#context"), shown);
        assert_eq!(browser.value("document.title"), format!("{shown} – {tool}"));
        assert_eq!(browser.value("document.body.dataset.color"), color);
        web.end();
    }
}

/// In a real browser: on a desk and on a phone.
pub fn web_lists_every_problem_first<T: Tool>(case: &Case<T>) {
    let Some(mut browser) = Browser::start() else { return };
    let (_server, address) = case.filled();
    let web = Web::start(&case.program, &address, &["-i", "100ms"]);
    web.show(&mut browser, "");
    for (width, height) in [(1280, 800), (390, 800)] {
        browser.resize(width, height);
        browser.wait("document.querySelector('#queues tr.problem td.bad')?.textContent");
        let last = "document.querySelector('#queues td.bad').getBoundingClientRect().right";
        assert_eq!(browser.value(&format!("{last} <= innerWidth")), true, "{width}");
        let rows = "[...document.querySelectorAll('#queues tbody tr')].map((row) => row.className)";
        let order = browser.value(&format!("{rows}.join()"));
        assert!(order.as_str().unwrap().starts_with("problem"), "{order}");
    }
    browser.press("#queues tr.problem a", "");
    browser.wait("document.getElementById('problem').textContent");
    // A mistyped address.
    browser.value("location.hash = '#/%/x'");
    browser.wait("!document.getElementById('list').hidden");
    assert_eq!(browser.errors(), "");
    web.end();
}

/// In a real browser: selects the queue, starts its first action, fills it in and confirms.
pub fn web_adds_a_job<T: Tool>(case: &Case<T>) {
    let Some(mut browser) = Browser::start() else { return };
    let (server, address) = case.filled();
    let web = Web::start(&case.program, &address, &["--write"]);
    web.show(&mut browser, "");
    browser.press("#queues a", "mail");
    browser.press("#actions button", web.title()["site"]["actions"][0]["name"].as_str().unwrap());
    browser.fill("#fields textarea", "<b>from a page</b>");
    browser.press("#go", "");
    browser.wait("document.getElementById('result').textContent !== ''");
    assert_eq!((case.jobs)(&server), 2);
    assert_eq!(browser.errors(), "");
    web.end();
}

/// In a real browser: the page says what does not answer, recovers by itself, and its actions still work then.
pub fn web_recovers_from_restarts<T: Tool>(case: &Case<T>) {
    let Some(mut browser) = Browser::start() else { return };
    let server_port = fixtures::Port::take().unwrap();
    let (server, address) = Case::<T>::server_at(&server_port);
    case.adds(&address, "body");
    let web = Web::start(&case.program, &address, &["--write", "-i", "100ms"]);
    let place = web.address.clone();
    web.show(&mut browser, "");
    browser.press("#queues a", "mail");
    let is =
        |text: &str| format!("document.getElementById('state').textContent.includes('{text}')");
    drop(server);
    browser.wait(&is("the server does not answer"));
    browser.wait("document.getElementById('figures').innerText.includes('unknown')");
    let _again = Case::<T>::server_at(&server_port);
    case.adds(&address, "body");
    browser.wait(&is("live"));
    web.end();
    browser.wait(&is("the tool does not answer"));
    browser.press("#actions button", "");
    browser.fill("#fields textarea", "from a page");
    browser.press("#go", "");
    browser.wait("document.getElementById('question').textContent.includes('unknown whether')");
    let web = Web::start_at(&place, &case.program, &address, &["--write", "-i", "100ms"]);
    browser.wait(&is("live"));
    browser.wait(
        "!document.getElementById('dialog').open || (document.getElementById('go').click(), false)",
    );
    let two = format!("{}=2:2", case.waiting);
    case.run(&address, case.check, &["-c", &two]).exits(0);
    assert_eq!(browser.errors(), "");
    web.end();
}
