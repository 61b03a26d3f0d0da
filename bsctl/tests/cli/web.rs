//! `web`, beside what every tool's has to do, and in a real browser.

use std::process::{Command, Stdio};

use ctl_core::contract::web::Web;
use fixtures::beanstalkd::Server;
use serde_json::{Value, json};

use crate::harness::*;

#[test]
fn jobs_are_shown_page_by_page_and_changed_with_the_confirmations_of_the_commands() {
    on_both(|address| {
        for body in ["one", "two", "three"] {
            put(address, "mail", body);
        }
        let buried = put_buried(address, "mail", "four");
        let web = Web::start(&PROGRAM, address, &["--write"]);
        let ask = |path: &str, name: &str, values: Value, confirm: Value| {
            let asked = json!({
                "server": address, "name": name, "queue": "mail", "values": values, "confirm": confirm,
            });
            let (status, answer) = web.does(path, &asked);
            assert!([200, 422].contains(&status), "{answer}");
            answer
        };
        let page = |values: Value| ask("/view", "Jobs", values, Value::Null)["result"].clone();
        let bodies = |rows: &Value| -> Vec<String> {
            let rows = rows.as_array().unwrap().iter();
            rows.map(|row| row["body"].as_str().unwrap().to_owned()).collect()
        };
        let first = page(json!({ "limit": "2", "state": "ready" }));
        assert_eq!(bodies(&first), ["two", "three"]);
        let to = first[0]["id"].as_u64().unwrap() - 1;
        let second = page(json!({ "limit": "2", "state": "ready", "to": to.to_string() }));
        assert_eq!(bodies(&second), ["one"]);
        assert_eq!(bodies(&page(json!({ "filter": "body~=^f" }))), ["four"]);
        let id = json!({ "id": buried.get().to_string() });
        let would = ask("/act", "kick job", id.clone(), Value::Null);
        assert_eq!(would["result"]["dry_run"], true, "{would}");
        assert_eq!(state(address, buried), "buried");
        ask("/act", "kick job", id, json!(""));
        assert_eq!(state(address, buried), "ready");
        let would = ask("/act", "clear", json!({ "state": "ready" }), Value::Null);
        assert_eq!(
            client(address).stats_tube("mail").unwrap().unwrap().current_jobs_ready,
            4,
            "{would}"
        );
        ask("/act", "clear", json!({ "state": "ready" }), json!(""));
        let refused = ask("/act", "pause", json!({ "time": "--yes" }), json!(""));
        assert_eq!(refused["error"]["exit"], 2, "{refused}");
        web.end();
    });
}

/// What the browser has made of a page.
fn seen(browser: &str, url: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--virtual-time-budget=4000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.path().display())).arg(url);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Names and bodies are text, whatever they hold.
#[test]
fn a_browser_shows_the_page_and_obeys_nothing_in_it() {
    let Some(browser) =
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
            let version = Command::new(name)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            version.is_ok_and(|status| status.success())
        })
    else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "chromium is not installed");
        eprintln!("left out: chromium is not installed");
        return;
    };
    let server = Server::start().unwrap();
    let hostile = "<img id=bad src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
    put(server.address(), "mail", hostile);
    let web = Web::start(&PROGRAM, server.address(), &[]);
    let url =
        format!("http://{}/?still#/{}/mail", web.address, server.address().replace(':', "%3A"));
    let page = seen(browser, &url);
    assert!(page.contains("tube mail on"), "{page}");
    assert!(page.contains("&lt;img id=bad"), "{page}");
    assert!(page.contains("<title>bsctl (read only)</title>") && !page.contains("<img"), "{page}");
    web.end();
}
