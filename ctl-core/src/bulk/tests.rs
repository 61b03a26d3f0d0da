use queue_core::Fate;

use super::*;
use crate::error::Change;
use crate::output::messages::ProgressWhen;
use crate::output::{Format, Memory, Style};

fn bulk(on_error: OnError, interrupts: Interrupts) -> Bulk {
    bulk_into(Memory::default(), on_error, interrupts)
}

fn bulk_into(sink: Memory, on_error: OnError, interrupts: Interrupts) -> Bulk {
    let action = Action { past: "deleted", noun: "job", place: String::new() };
    let messages = Messages::to(Box::new(sink), "tool", false, false);
    Bulk::start(action, on_error, None, interrupts, &messages)
}

fn report(bulk: Bulk) -> (Result<Exit, CliError>, String) {
    let sink = Memory::default();
    let style = Style { format: Format::Json, ..Style::default() };
    let exit = bulk.finish(&mut Output::to(Box::new(sink.clone()), style));
    let bytes = sink.bytes();
    (exit, String::from_utf8(bytes).unwrap())
}

#[test]
fn partial_success_is_3_and_lists_failures() {
    let mut bulk = bulk(OnError::Continue, Interrupts::none());
    bulk.success();
    bulk.failure("job 7", CliError::not_found("gone")).unwrap();
    bulk.skip();
    assert!(bulk.gate().is_open());
    let (exit, json) = report(bulk);
    assert_eq!(exit.unwrap().code(), 3);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["attempted"], 3);
    assert_eq!(value["failures"][0]["item"], "job 7");
    assert_eq!(value["failures"][0]["code"], "NOT_FOUND");
}

#[test]
fn the_first_failure_is_the_result_if_all_failed() {
    let mut bulk = bulk(OnError::Continue, Interrupts::none());
    bulk.failure("job 7", CliError::not_found("gone")).unwrap();
    bulk.failure("job 8", CliError::not_found("gone")).unwrap();
    let (exit, json) = report(bulk);
    let error = exit.unwrap_err();
    assert_eq!((error.exit.code(), error.message.as_str()), (1, "job 7: gone (and 1 more)"));
    assert_eq!(json, "");
}

/// Three failures, then a success or none: the output on stderr, and the error.
fn said(succeeds: bool) -> (String, Option<CliError>) {
    let sink = Memory::default();
    let mut bulk = bulk_into(sink.clone(), OnError::Continue, Interrupts::none());
    for n in 1..=3 {
        bulk.failure(format!("job {n}"), CliError::not_found("gone")).unwrap();
    }
    if succeeds {
        bulk.success();
    }
    let error = bulk.finish_quietly().err();
    let bytes = sink.bytes();
    (String::from_utf8(bytes).unwrap(), error)
}

#[test]
fn reports_each_failure_once() {
    let (text, error) = said(true);
    assert!(error.is_none());
    for n in 1..=3 {
        assert_eq!(text.matches(&format!("job {n}:")).count(), 1, "{text}");
    }
    let (text, error) = said(false);
    assert_eq!(error.unwrap().message, "job 1: gone (and 2 more)");
    assert_eq!(text.matches("job 1:").count(), 0, "{text}");
    assert_eq!(text.matches("job 2:").count(), 1, "{text}");
}

#[test]
fn on_error_stop_closes_the_gate() {
    let mut bulk = bulk(OnError::Stop, Interrupts::none());
    bulk.failure("job 7", CliError::not_found("gone")).unwrap();
    assert!(!bulk.gate().is_open());
}

#[test]
fn a_lost_connection_stops_the_run() {
    let mut bulk = bulk(OnError::Continue, Interrupts::none());
    assert!(bulk.failure("job 7", CliError::unavailable("lost")).is_err());
    assert!(!bulk.gate().is_open());
}

#[test]
fn counts_unfinished_items_by_fate() {
    for (total, left) in [(None, 3), (Some(9), 5)] {
        let mut bulk = bulk(OnError::Continue, Interrupts::none());
        bulk.total = total;
        bulk.success();
        bulk.unsent("job 2", CliError::not_found("gone"));
        assert!(bulk.gate().is_open());
        let change = Change { may: "it may be gone", look: "tool jobs" };
        let lost = |fate| CliError::unavailable("lost").fated(fate, Some(change));
        bulk.unsent("job 3", lost(Fate::Unknown));
        assert!(!bulk.gate().is_open());
        // Unsent items went over the next connection.
        bulk.success();
        for job in 5..8 {
            bulk.unsent(format!("job {job}"), lost(Fate::NotSent));
        }
        assert!(bulk.is_broken());
        let sentence = bulk.sentence();
        assert!(sentence.contains("deleted 2 jobs, 1 failed, 1 of unknown fate, 3 "), "{sentence}");
        let (error, report) = report(bulk);
        let error: serde_json::Value = serde_json::from_str(&error.unwrap_err().to_json()).unwrap();
        let counts =
            json!({"succeeded": 2, "failed": 1, "skipped": 0, "unknown": 1, "not_sent": left});
        assert_eq!((&error["error"]["counts"], &error["error"]["exit"]), (&counts, &json!(4)));
        assert_eq!(report, "", "stdout is for those that did what they were to do");
    }
}

#[test]
fn reports_progress_before_a_failure_for_several_items_only() {
    for (total, succeeded, told) in
        [(Some(1), 0, None), (None, 0, None), (Some(2), 0, Some(0)), (None, 1, Some(1))]
    {
        let sink = Memory::default();
        let messages = Messages::to(Box::new(sink.clone()), "tool", false, false);
        let action = Action { past: "put", noun: "job", place: String::new() };
        let interrupts = Interrupts::none();
        let mut bulk = Bulk::start(action, OnError::Continue, total, interrupts, &messages);
        (0..succeeded).for_each(|_| bulk.success());
        let error = bulk.failure("job", CliError::unavailable("lost")).unwrap_err();
        let _ = bulk.abort(error);
        let said = String::from_utf8(sink.bytes()).unwrap();
        match told {
            None => assert_eq!(said, ""),
            Some(1) => assert!(said.contains("before that: put 1 job, 1 failed"), "{said}"),
            Some(_) => assert!(said.contains("before that: put 0 jobs, 1 failed"), "{said}"),
        }
    }
}

#[test]
fn reports_progress_before_a_signal() {
    for (format, told) in [(Format::Plain, true), (Format::Json, true), (Format::Table, false)] {
        let (sink, interrupts) = (Memory::default(), Interrupts::none());
        let mut bulk = bulk_into(sink.clone(), OnError::Continue, interrupts.clone());
        bulk.success();
        interrupts.raise();
        let style = Style { format, ..Style::default() };
        let exit = bulk.finish(&mut Output::to(Box::new(std::io::sink()), style)).unwrap();
        assert_eq!(exit.code(), 130);
        let said = String::from_utf8(sink.bytes()).unwrap();
        assert_eq!(said.starts_with("interrupted: deleted 1 job in "), told, "{format:?}: {said}");
    }
}

#[test]
fn a_signal_closes_the_gate_and_decides_the_exit() {
    let interrupts = Interrupts::none();
    let mut bulk = bulk(OnError::Continue, interrupts.clone());
    bulk.success();
    interrupts.raise();
    assert!(!bulk.gate().is_open());
    let (exit, json) = report(bulk);
    assert_eq!(exit.unwrap().code(), 130);
    assert!(json.contains("\"succeeded\": 1"), "{json}");
}

#[test]
fn elapsed_time_includes_the_search() {
    let mut bulk = bulk(OnError::Continue, Interrupts::none()).including(Duration::from_secs(60));
    bulk.success();
    assert!(bulk.sentence().ends_with(" in 1m"), "{}", bulk.sentence());
    let (_, json) = report(bulk);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(value["duration_ms"].as_u64().unwrap() >= 60_000, "{value}");
}

#[test]
fn shows_progress_while_waiting() {
    let sink = Memory::default();
    let messages = Messages::to(Box::new(sink.clone()), "tool", false, false)
        .with_progress(ProgressWhen::Json);
    let action = Action { past: "moved", noun: "job", place: String::new() };
    let mut bulk = Bulk::start(action, OnError::Stop, Some(3), Interrupts::none(), &messages);
    while !sink.text().contains("moved jobs") {
        bulk.see();
    }
    assert!(sink.text().contains("\"done\":0,\"total\":3"), "{}", sink.text());
}

#[test]
fn shows_progress_while_rate_limited() {
    let (sink, interrupts) = (Memory::default(), Interrupts::none());
    let action = Action { past: "deleted", noun: "job", place: String::new() };
    let messages = Messages::to(Box::new(sink.clone()), "tool", false, false)
        .with_progress(ProgressWhen::Json);
    let manner = Manner { on_error: OnError::Continue, rate: Some("30/m".parse().unwrap()) };
    let mut bulk = Bulk::start(action, manner, Some(2), interrupts, &messages);
    let gate = bulk.gate();
    assert!(gate.turn(1));
    bulk.success();
    assert_eq!(sink.text(), "", "it has only begun");
    assert!(gate.turn(1));
    let text = sink.text();
    let object: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&object["done"], &object["total"]), (&1.into(), &2.into()));
    drop(bulk);
    assert!(gate.turn(1), "a gate may outlive its command");
}
