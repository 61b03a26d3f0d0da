//! `delete`, `kick`, `bury`, `release`, `pause`, `resume`.

use std::time::Duration;

use beanstalk_client::{JobId, PutOptions};
use fixtures::beanstalkd::{Server, Version};
use fixtures::fault::Fault;

use crate::harness::*;

#[test]
fn delete_distinguishes_missing_from_reserved_jobs() {
    on_both(|address| {
        let ready = put(address, "t", "").to_string();
        let delayed = put_delayed(address, "t", "").to_string();
        let buried = put_buried(address, "t", "").to_string();
        bsctl(address, &["delete", &ready, &delayed, &buried]).exits(0);
        assert_eq!(client(address).stats().unwrap().current_jobs_ready, 0);

        let held = put(address, "t", "");
        let mut other = client(address);
        other.reserve_job(held).unwrap().unwrap();
        let ran = bsctl(address, &["delete", &held.to_string(), "-o", "json"]).exits(1);
        let message = ran.error()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("reserved by another connection"), "{message}");
        let ran = bsctl(address, &["delete", "999"]).exits(1);
        assert!(ran.err.contains("does not exist"), "{}", ran.err);
        assert_eq!(ran.err.matches("999").count(), 1, "said once: {}", ran.err);
    });
}

#[test]
fn edit_replaces_the_job_and_keeps_state_and_options() {
    on_both(|address| {
        let options = PutOptions::default().priority(7u32).ttr(Duration::from_secs(9));
        let later = options.delay(Duration::from_secs(3600));
        let buried = put_with(address, "buried", "old", options);
        let mut holder = client(address);
        let job = holder.reserve_job(buried).unwrap().unwrap();
        holder.bury(&job, 7).unwrap();
        for (id, state) in [
            (put_with(address, "ready", "old", options), "ready"),
            (put_with(address, "delayed", "old", later), "delayed"),
            (buried, "buried"),
        ] {
            let line = ["edit", &id.to_string(), "-", "-o", "json"];
            let ran = bsctl_with(address, &line, b"new\n").exits(0).json();
            let new = JobId::from(ran["id"].as_u64().unwrap());
            assert_eq!(ran["replaced"], id.get());
            assert!(stats(address, id).is_none(), "{state}");
            let stats = stats(address, new).unwrap();
            let is = (stats.state.as_str(), stats.tube.as_str(), stats.pri.get(), stats.ttr);
            assert_eq!(is, (state, state, 7, 9));
            assert!(state != "delayed" || (1..=3600).contains(&stats.time_left), "{stats:?}");
            let body = client(address).peek(new).unwrap().unwrap().body;
            assert_eq!(body, b"new\n"[..], "{state}");
        }
        assert_eq!(all(address).len(), 3);
    });
}

#[test]
fn edit_opens_the_editor_and_skips_unchanged_jobs() {
    let server = Server::start().unwrap();
    let address = server.address();
    let id = put(address, "t", "one").to_string();
    let run = |editor: &str, code: i32| {
        let mut command = command(&["-s", address, "edit", &id, "-o", "json"]);
        command.env("EDITOR", editor).env_remove("VISUAL");
        ctl_contract::program::fed(command, b"").exits(code)
    };
    assert_eq!(run("true", 0).json()["replaced"], false);
    run("false", 1);
    // Many editors end the last line.
    assert_eq!(run("echo >>", 0).json()["replaced"], false);
    assert_eq!(places(address), ["one t ready"]);
    run("truncate -s 0", 1);
    assert_eq!(places(address), ["one t ready"]);
    server.faults().add(Fault::nth(1).of("put").reply("DRAINING"));
    let ran = run("sed -i s/one/edited/", 75);
    let (_, kept) = ran.err.split_once("the edited body is in ").unwrap();
    let kept = kept.lines().next().unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "edited");
    std::fs::remove_file(kept).unwrap();
    run("sed -i s/one/two/", 0);
    assert_eq!(places(address), ["two t ready"]);
    run("true", 1);
}

/// For example on a full disk, or here beyond the limit of a file's size.
#[cfg(unix)]
#[test]
fn edit_states_why_a_job_was_not_replaced_if_its_body_cannot_be_kept_either() {
    let server = Server::start().unwrap();
    let address = server.address();
    let id = put(address, "t", "one").to_string();
    server.faults().add(Fault::nth(1).of("put").reply("DRAINING"));
    let tool = command(&["-s", address, "edit", &id]);
    let script = "trap '' XFSZ; ulimit -S -f 1; exec \"$@\"";
    let mut limited = ctl_contract::program::by_shell(script, &tool);
    let editor = "ulimit -S -f unlimited; head -c 5000 /dev/zero | tr '\\0' x >";
    limited.env("EDITOR", editor).env_remove("VISUAL");
    let ran = ended(limited.spawn().unwrap()).exits(75);
    assert!(ran.err.contains("DRAINING"), "{}", ran.err);
    assert!(ran.err.contains("the edited body"), "{}", ran.err);
    assert_eq!(places(address), ["one t ready"]);
}

/// As after a restart of the server.
#[test]
fn a_job_that_has_got_the_id_meanwhile_is_not_replaced() {
    let server = Server::start().unwrap();
    let address = server.address();
    let id = put(address, "t", "one").to_string();
    server.faults().add(Fault::nth(1).of("peek").reply_bytes(*b"FOUND 1 3\r\nold\r\n"));
    let mut command = command(&["-s", address, "edit", &id]);
    command.env("EDITOR", "sed -i s/old/new/").env_remove("VISUAL");
    let ran = ctl_contract::program::fed(command, b"").exits(1);
    assert!(ran.err.contains("is another one than the job that was edited"), "{}", ran.err);
    assert_eq!(places(address), ["one t ready"]);
}

#[test]
fn edit_refuses_jobs_reserved_by_others() {
    let server = Server::start().unwrap();
    let address = server.address();
    let (held, taken) = (put(address, "t", "held"), put_buried(address, "t", "taken"));
    let mut other = client(address);
    other.reserve_job(held).unwrap().unwrap();
    let ran = bsctl(address, &["edit", &held.to_string(), "new"]).exits(1);
    assert!(ran.err.contains("is reserved"), "{}", ran.err);
    bsctl(address, &["edit", "999", "new"]).exits(1);
    server.faults().add(Fault::nth(1).of("delete").reply("NOT_FOUND"));
    let ran = bsctl(address, &["edit", &taken.to_string(), "new"]).exits(1);
    assert!(ran.err.contains("stays as it was"), "{}", ran.err);
    assert_eq!(places(address), ["held t reserved", "taken t buried"], "its copy was taken back");
    server.faults().add(Fault::nth(1).of("put").cut_after(0));
    let ran = bsctl(address, &["edit", &taken.to_string(), "new"]).exits(4);
    assert!(ran.err.contains("may now exist both"), "{}", ran.err);
}

#[test]
fn ids_from_stdin() {
    let server = Server::start().unwrap();
    for _ in 0..3 {
        put(server.address(), "t", "");
    }
    let ids = bsctl(server.address(), &["jobs", "-t", "t", "-o", "id"]).exits(0);
    let ran = bsctl_with(server.address(), &["delete", "-", "-o", "json"], &ids.bytes).exits(0);
    assert_eq!(ran.json()["succeeded"], 3);
    bsctl_with(server.address(), &["delete", "-"], b"1\nx\n").exits(65);
    bsctl(server.address(), &["delete", "x"]).exits(2);
}

#[test]
fn a_dry_run_deletes_nothing() {
    let server = Server::start().unwrap();
    let id = put(server.address(), "t", "").to_string();
    let ran = bsctl(server.address(), &["delete", &id, "-n", "-o", "json"]).exits(0);
    assert_eq!(ran.json()["dry_run"], true);
    let changes = |line: &[u8]| {
        [&b"delete"[..], b"reserve", b"put", b"kick"].iter().any(|verb| line.starts_with(verb))
    };
    server.clear_requests();
    for line in [
        &["delete", &id][..],
        &["kick", "-t", "t", "--all"],
        &["kick", "--job", &id],
        &["bury", &id],
        &["release", &id],
        &["clear", "t"],
        &["drain", "t"],
        &["put", "x"],
        &["pause", "t", "1s"],
        &["import", "-"],
        &["raw", "delete 1"],
    ] {
        bsctl(server.address(), &[&["--dry-run"], line].concat()).exits(0);
    }
    let sent = server.requests();
    assert!(!sent.iter().any(|request| changes(&request.line)), "{sent:?}");
}

/// A5: kicking buried jobs never kicks a delayed one, whatever the counts.
#[test]
fn kicking_buried_jobs_never_kicks_a_delayed_one() {
    on_both(|address| {
        let delayed: Vec<_> = (0..3).map(|_| put_delayed(address, "t", "")).collect();
        let buried: Vec<_> = (0..3).map(|_| put_buried(address, "t", "")).collect();
        let line = ["kick", "-t", "t", "--state", "buried", "--all", "-o", "json"];
        assert_eq!(bsctl(address, &line).exits(0).json()["succeeded"], 3);
        assert!(buried.iter().all(|id| state(address, *id) == "ready"));
        assert!(delayed.iter().all(|id| state(address, *id) == "delayed"));
        // None left: the server's own kick would now take the delayed ones.
        assert_eq!(bsctl(address, &line).exits(0).json()["succeeded"], 0);
        let line = ["kick", "-t", "t", "--state", "buried", "-c", "5"];
        bsctl(address, &line).exits(0);
        assert!(delayed.iter().all(|id| state(address, *id) == "delayed"));
    });
}

#[test]
fn kicking_delayed_jobs_never_kicks_a_buried_one() {
    on_both(|address| {
        let delayed: Vec<_> = (0..3).map(|_| put_delayed(address, "t", "")).collect();
        let buried = put_buried(address, "t", "");
        let line = ["kick", "-t", "t", "--state", "delayed", "-c", "2", "-o", "json"];
        assert_eq!(bsctl(address, &line).exits(0).json()["succeeded"], 2);
        assert_eq!(state(address, buried), "buried");
        assert_eq!(delayed.iter().filter(|id| state(address, **id) == "ready").count(), 2);
    });
}

#[test]
fn kick_by_id_count_and_limit() {
    on_both(|address| {
        let jobs: Vec<_> = (0..6).map(|_| put_buried(address, "t", "").to_string()).collect();
        // Logs of scripts need words; programs read JSON.
        let ran = bsctl(address, &["kick", "-t", "t"]).exits(0);
        assert!(ran.out().is_empty() && ran.err.contains("kicked 1 job"), "{ran:?}");
        assert_eq!(bsctl(address, &["-q", "kick", "-t", "t"]).exits(0).err, "");
        assert_eq!(
            bsctl(address, &["kick", "-t", "t", "-o", "json"]).exits(0).json()["succeeded"],
            1
        );
        bsctl(address, &["kick", "--job", &jobs[5]]).exits(0);
        assert_eq!(state(address, jobs[5].parse().unwrap()), "ready");
        bsctl(address, &["kick", "--job", &jobs[5]]).exits(1);
        let line = ["kick", "-t", "t", "--all", "-c", "1"];
        assert!(bsctl(address, &line).exits(0).err.contains("kicked 1 job"));
        bsctl(address, &["kick", "-t", "none"]).exits(1);
        let number = bsctl(address, &["kick", &jobs[4]]).exits(1);
        assert!(number.err.contains(&format!("--job {}", jobs[4])), "{}", number.err);
        assert!(bsctl(address, &["kick", "1", "2"]).exits(2).err.contains("bsctl kick --job"));
    });
}

#[test]
fn kick_asks_before_kicking_many() {
    let server = Server::start().unwrap();
    let line = ["-a", server.address(), "kick", "-t", "t", "--all"];
    put_buried(server.address(), "t", "");
    put_buried(server.address(), "t", "");
    let mut command = command(&line);
    let ran = ended(command.env("BSCTL_CONFIRM_ABOVE", "1").spawn().unwrap()).exits(2);
    assert!(ran.err.contains("kick 2 jobs") && ran.err.contains("--yes"), "{}", ran.err);
    assert_eq!(client(server.address()).stats().unwrap().current_jobs_buried, 2);
    bsctl(server.address(), &["kick", "-t", "t", "--all"]).exits(0);
}

#[test]
fn bury_and_release_keep_the_priority_by_default() {
    on_both(|address| {
        let options = beanstalk_client::PutOptions::default().priority(7);
        let id = put_with(address, "t", "", options);
        let text = id.to_string();
        bsctl(address, &["bury", &text]).exits(0);
        let after = stats(address, id).unwrap();
        assert_eq!((after.state.as_str(), after.pri.get(), after.buries), ("buried", 7, 1));
        bsctl(address, &["release", &text, "-d", "1h"]).exits(0);
        let after = stats(address, id).unwrap();
        assert_eq!((after.state.as_str(), after.pri.get(), after.delay), ("delayed", 7, 3600));
        bsctl(address, &["release", &text, "-p", "1"]).exits(0);
        let after = stats(address, id).unwrap();
        assert_eq!((after.state.as_str(), after.pri.get(), after.releases), ("ready", 1, 2));
        bsctl(address, &["bury", "999"]).exits(1);
    });
}

#[test]
fn bury_by_id_is_unsupported_before_1_12() {
    let old = Server::builder().version(Version::V1_11).start().unwrap();
    let id = put(old.address(), "t", "").to_string();
    for verb in ["bury", "release"] {
        let ran = bsctl(old.address(), &[verb, &id]);
        assert_ne!(ran.code, Some(0));
        assert!(ran.err.contains("1.12"), "{}", ran.err);
    }
    assert_eq!(state(old.address(), id.parse().unwrap()), "ready");
}

#[test]
fn pause_and_resume() {
    on_both(|address| {
        put(address, "t", "");
        bsctl(address, &["pause", "t", "1h"]).exits(0);
        assert_eq!(client(address).stats_tube("t").unwrap().unwrap().pause, 3600);
        bsctl(address, &["pop", "-t", "t"]).exits(1);
        bsctl(address, &["resume", "t"]).exits(0);
        bsctl(address, &["pop", "-t", "t"]).exits(0);
        bsctl(address, &["pause", "none", "1s"]).exits(1);
        bsctl(address, &["pause", "t", "99999999999"]).exits(65);
    });
}

/// Otherwise its jobs would seem to be missing.
#[test]
fn names_a_paused_tube_when_no_job_arrives() {
    on_both(|address| {
        put(address, "t", "");
        put(address, "other", "");
        bsctl(address, &["pause", "t", "1h"]).exits(0);
        let told = |ran: Ran| {
            let text = format!("{}{}", ran.out(), ran.err);
            assert!(text.contains("t is paused for 59m "), "{text}");
            assert!(text.contains("(1 ready job)"), "{text}");
            assert!(!text.contains("other is paused"), "{text}");
        };
        told(bsctl(address, &["reserve", "-t", "t"]).exits(1));
        let ran = bsctl(address, &["pop", "-t", "t", "--wait", "1ms"]).exits(124);
        assert!(ran.err.contains("bsctl resume t"), "{}", ran.err);
        told(ran);
        told(
            bsctl(address, &["repl", "-e", "watch t", "-e", "ignore default", "-e", "reserve 0s"])
                .exits(1),
        );
        told(bsctl(address, &["work", "-t", "t", "--max-idle", "0", "--exec", "true"]).exits(0));
        told(bsctl(address, &["tubes", "-o", "table"]).exits(0));
        told(bsctl(address, &["doctor"]).exits(0));
        let check = ["check", "tube", "t", "-c", "workers=0:"];
        let ran = bsctl(address, &check).exits(1);
        assert!(ran.out().contains("WARNING - t: paused"), "{}", ran.out());
        assert!(ran.out().contains("'t_pause-left'=35"), "{}", ran.out());
        bsctl(address, &["resume", "t"]).exits(0);
        let ran = bsctl(address, &["tubes", "-o", "table"]).exits(0);
        assert!(!ran.err.contains("paused"), "{}", ran.err);
        assert!(!bsctl(address, &check).exits(0).out().contains("pause-left"));
    });
}

/// A mistyped name would look like an empty tube.
#[test]
fn distinguishes_missing_from_empty_tubes() {
    on_both(|address| {
        for line in [&["jobs", "none"][..], &["export", "none"]] {
            let ran = bsctl(address, line).exits(0);
            assert!(ran.err.contains("tube none does not exist"), "{}", ran.err);
        }
        let ran = bsctl(address, &["peek", "-t", "none"]).exits(1);
        assert!(ran.err.contains("tube none does not exist"), "{}", ran.err);
        put(address, "t", "");
        assert!(!bsctl(address, &["jobs", "t"]).exits(0).err.contains("exist"));
        let ran = bsctl(address, &["peek", "--state", "buried", "-t", "t"]).exits(1);
        assert!(ran.err.contains("tube t has no buried job"), "{}", ran.err);
        let ran = bsctl(address, &["peek", "t"]).exits(2);
        assert!(ran.err.contains("bsctl peek -t t"), "{}", ran.err);
        let ran = bsctl(address, &["requeue", "t", "--yes"]).exits(0);
        assert!(ran.err.contains("no buried jobs in tube t (see --state"), "{}", ran.err);
    });
}

/// As many as requested, which the server reports in one number.
#[test]
fn a_huge_kicked_count_does_not_loop() {
    let server = Server::start().unwrap();
    let most = u32::MAX.to_string();
    server.faults().add(Fault::nth(1).of("kick").reply(&format!("KICKED {most}")));
    let line = ["kick", "-c", &most, "-o", "json"];
    let ran = bsctl(server.address(), &line).exits(0);
    assert_eq!(ran.json()["succeeded"], u32::MAX);
    server.faults().add(Fault::nth(1).of("kick").reply("KICKED 18446744073709551615"));
    bsctl(server.address(), &["kick"]).exits(4);
}

#[test]
fn advice_about_an_unanswered_kick_names_the_tube_or_the_job() {
    let server = Server::start().unwrap();
    let id = put_buried(server.address(), "t", "");
    put_delayed(server.address(), "t", "");
    let hint = |verb: &str, line: &[&str]| {
        server.faults().add(Fault::nth(1).of(verb).cut_after(0));
        let line = [&["kick", "-t", "t", "-o", "json"], line].concat();
        bsctl(server.address(), &line).exits(4).error()["hints"][0].clone()
    };
    let by_id = ["--state", "buried"];
    assert_eq!(hint("kick-job", &by_id), format!("bsctl job {id}, to see its state"));
    assert_eq!(hint("kick", &[]), "bsctl tubes t, to see how many are buried");
}

#[test]
fn kick_reports_an_empty_tube() {
    let server = Server::start().unwrap();
    let ran = bsctl(server.address(), &["kick", "-t", "default"]).exits(0);
    let said = "nothing to kick: there are neither buried nor delayed jobs in tube default";
    assert!(ran.err.contains(said), "{}", ran.err);
    let ran =
        bsctl(server.address(), &["kick", "-t", "default", "--state", "buried", "-q"]).exits(0);
    assert_eq!(ran.err, "");
}

#[test]
fn release_reports_a_job_the_server_buried() {
    let server = Server::start().unwrap();
    let id = put(server.address(), "t", "x").to_string();
    server.faults().add(Fault::always().of("release").reply("BURIED"));
    let ran = bsctl(server.address(), &["release", &id, "-o", "json"]).exits(75);
    assert_eq!(ran.error_alone()["code"], "BURIED");
    let said = ran.error_alone()["message"].to_string();
    assert!(said.contains(&format!("buried job {id} instead")), "{said}");
}
