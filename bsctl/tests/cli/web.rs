//! `web`, beyond the contract of every tool, and in a real browser.

use ctl_contract::browser::Browser;
use ctl_contract::web::Web;
use fixtures::beanstalkd::Server;
use serde_json::{Value, json};

use crate::harness::*;

#[test]
fn web_pages_jobs_and_confirms_changes() {
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

/// Names and bodies are text, whatever they contain.
#[test]
fn web_escapes_bodies_in_the_browser() {
    let Some(mut browser) = Browser::start() else { return };
    let server = Server::start().unwrap();
    let hostile = "<img id=bad src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
    put(server.address(), "mail", hostile);
    let web = Web::start(&PROGRAM, server.address(), &[]);
    let place = server.address().replace(':', "%3A");
    web.show(&mut browser, &format!("?still#/{place}/mail"));
    browser.wait("document.querySelector('td.body')");
    assert_eq!(browser.text("td.body"), hostile);
    assert!(browser.text("#detail-title").starts_with("tube mail on"));
    assert_eq!(browser.value("document.title"), "bsctl (read only)");
    assert_eq!(browser.value("document.images.length"), 0);
    assert_eq!(browser.errors(), "");
    web.end();
}

/// One long body does not hide the other jobs, and nothing of it is lost.
#[test]
fn web_folds_long_bodies() {
    let Some(mut browser) = Browser::start() else { return };
    let server = Server::start().unwrap();
    let long = format!("{}the end", "long ".repeat(10_000));
    put(server.address(), "mail", &long);
    put(server.address(), "mail", "short");
    let web = Web::start(&PROGRAM, server.address(), &[]);
    let place = server.address().replace(':', "%3A");
    web.show(&mut browser, &format!("#/{place}/mail"));
    browser.wait("document.querySelectorAll('td.body').length === 2");
    assert_eq!(browser.value("document.querySelectorAll('td.body details').length"), 1);
    assert!(browser.text("td.body summary").ends_with("… (50,007 characters)"));
    let height = "document.querySelector('td.body details').offsetHeight";
    assert_eq!(browser.value(&format!("{height} < innerHeight / 4")), true);
    browser.press("td.body summary", "");
    browser.wait(&format!("{height} > innerHeight"));
    assert_eq!(browser.text("td.body details div"), long);
    assert_eq!(browser.errors(), "");
    web.end();
}

/// A decision for each job of a filter, and the outcome of each.
#[test]
fn web_reviews_jobs_one_by_one() {
    let Some(mut browser) = Browser::start() else { return };
    let server = Server::start().unwrap();
    let body = |n: u64| json!({ "displayName": format!("App\\Mail{n}"), "job": "x", "data": {} });
    for n in 0..5 {
        put_buried(server.address(), "mail", body(n).to_string());
    }
    put(server.address(), "mail", "not chosen");
    let web = Web::start(&PROGRAM, server.address(), &["--write"]);
    let place = server.address().replace(':', "%3A");
    web.show(&mut browser, &format!("#/{place}/mail"));
    browser.wait("document.querySelectorAll('td.body').length > 0");
    browser.fill("#views input[name=filter]", "envelope.class~=Mail");
    browser.press("#views button[type=submit]", "Show");
    browser.wait("document.querySelector('#views [role=status]').textContent.startsWith('5 rows')");
    browser.press("#views button", "Review one by one…");
    let decide = |browser: &mut Browser, place: &str, decision: &str| {
        let title = json!(place);
        browser.wait(&format!("document.getElementById('review-title').textContent === {title}"));
        browser.press("#review-choices button", decision);
    };
    browser.wait("document.querySelector('#review dl')");
    assert!(browser.text("#review-rows").contains("App\\\\Mail"), "{}", browser.text("#review"));
    decide(&mut browser, "1 of 5", "delete");
    assert!(browser.text("#review-state").contains("delete: 1. Nothing is done yet"));
    // Keys do not undo a decision.
    for leave in [Browser::escape, Browser::escape, |browser: &mut Browser| {
        browser.press("#review-close", "");
    }] {
        leave(&mut browser);
        browser.wait("!document.getElementById('review-leave').hidden");
        assert_eq!(browser.value("document.getElementById('review').open"), true);
    }
    browser.press("#review-keep", "");
    decide(&mut browser, "2 of 5", "leave it");
    decide(&mut browser, "3 of 5", "kick job");
    // Another client is faster.
    decide(&mut browser, "4 of 5", "Back");
    browser.wait("document.querySelector('[aria-pressed=true]')?.textContent === 'kick job'");
    decide(&mut browser, "3 of 5", "kick job");
    browser.press("#review-all", "");
    decide(&mut browser, "4 of 5", "delete");
    browser.wait("document.getElementById('review-title').textContent === 'What would be done'");
    assert_eq!(browser.text("#review-rows").trim(), "kick job: 1\ndelete: 3\nleave: 1");
    assert_eq!(server.jobs().len(), 6, "nothing is done before it is confirmed");
    let gone = server.jobs().iter().map(|job| job.id).min().unwrap();
    bsctl(server.address(), &["delete", &gone.to_string(), "--yes"]).exits(0);
    browser.press("#review-choices button", "Do it");
    browser.wait("document.getElementById('review-state').textContent === '3 done, 1 not done'");
    let report = browser.text("#review-rows");
    assert!(report.contains(&format!("job {gone} does not exist")), "{report}");
    browser.press("#review-close", "");
    assert_eq!(browser.errors(), "");
    let states: Vec<_> = server.jobs().into_iter().map(|job| job.state).collect();
    assert_eq!(states.len(), 3, "{states:?}");
    web.end();
}

/// Both if the page polls in the meantime, and if the tool detects it on the next action.
#[test]
fn web_rejects_ids_from_before_a_restart() {
    let Some(mut browser) = Browser::start() else { return };
    let row = |body: &str| {
        let rows =
            "[...document.querySelectorAll('#views td.body')].map((cell) => cell.textContent)";
        format!("{rows}.join() === '{body}'")
    };
    for (interval, says) in [("100ms", "result"), ("1h", "question")] {
        let port = fixtures::Port::take().unwrap();
        let server = start_at(&port);
        put(server.address(), "mail", "old");
        let web = Web::start(&PROGRAM, server.address(), &["--write", "-i", interval]);
        let place = server.address().replace(':', "%3A");
        web.show(&mut browser, &format!("#/{place}/mail"));
        browser.wait(&row("old"));
        browser.press("#views td button", "delete");
        browser.press("#go", "");
        browser
            .wait("document.getElementById('question').textContent.includes('What would be done')");
        drop(server);
        let server = start_at(&port);
        put(server.address(), "mail", "new");
        if says == "question" {
            browser.press("#go", "");
        }
        let other = "ids may name other jobs now: choose again";
        browser.wait(&format!("document.getElementById('{says}').textContent.includes('{other}')"));
        let is_open = says == "question";
        assert_eq!(browser.value("document.getElementById('dialog').open"), is_open);
        assert_eq!(server.jobs().len(), 1, "{interval}");
        if is_open {
            browser.press("#cancel", "");
            browser.press("#views button[type=submit]", "Show");
        }
        browser.wait(&row("new"));
        assert_eq!(browser.errors(), "");
        web.end();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn web_reports_a_lack_of_threads() {
    use std::process::Stdio;

    use ctl_contract::shortage::limited;

    let server = Server::start().unwrap();
    // For the page, its polls, and signals.
    let (mut command, _folder) = limited(&PROGRAM, 5, Some(3));
    command.args(["-a", server.address(), "web", "--listen", "127.0.0.1:0"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let web = Web::of(command);
    let asked =
        json!({ "server": server.address(), "name": "Jobs", "queue": "mail", "values": {} });
    let (status, refused) = web.does("/view", &asked);
    assert_eq!((status, &refused["error"]["exit"]), (503, &75.into()), "{refused}");
    // Without a panic.
    web.end();
}
