use std::thread;

use clap::Parser;

use super::*;
use crate::bulk::OnError;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    load: LoadArgs,
}

fn plan(flags: &[&str], kind: Kind) -> Result<Plan, CliError> {
    let line = Line::try_parse_from([&["bench"], flags].concat()).unwrap();
    Plan::new(&line.load, (OnError::Stop, kind, true), Some(1 << 20))
}

/// Does what it was set to do for each operation.
struct Fake<F>(F);

impl<F: FnMut(u64) -> Result<(), CliError> + Send> Client for Fake<F> {
    fn perform(&mut self, bodies: &[Bytes], done: &mut Done<'_>) -> Result<(), CliError> {
        bodies.iter().for_each(|body| done((self.0)(body.len() as u64)));
        Ok(())
    }
}

fn run<C: Client>(plan: &Plan, clients: Vec<C>) -> Measured {
    let messages = Messages::to(Box::new(std::io::sink()), "tool", false, false);
    measure(plan, clients, &messages, &Interrupts::none()).unwrap()
}

#[test]
fn sizes_are_in_range_and_reproducible() {
    let sizes: Sizes = "10..1k".parse().unwrap();
    let drawn = |seed| {
        let mut bodies = Bodies::new(sizes, seed);
        (0..1000).map(|_| bodies.next().len()).collect::<Vec<_>>()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    assert!(drawn(1).iter().all(|size| (10..=1024).contains(size)));
    assert!(drawn(1).iter().any(|size| *size < 100) && drawn(1).iter().any(|size| *size > 900));
    assert_eq!(Bodies::new("128".parse().unwrap(), 0).next().len(), 128);
    for wrong in ["", "x", "2..1", "1..", "1g"] {
        assert!(super::sizes(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_closed_loop_runs_the_given_number_of_operations() {
    let plan =
        plan(&["-c", "100", "-j", "4", "--batch", "7", "--size", "3"], Kind::Passing).unwrap();
    let measured = run(&plan, (0..4).map(|_| Fake(|_| Ok(()))).collect());
    assert_eq!((measured.all.times.len(), measured.all.bytes), (100, 300));
}

/// The first operation takes long; those that were due in the meantime have waited for it, although they took no time
/// themselves.
#[test]
fn an_open_loop_measures_from_the_due_time() {
    let plan = plan(&["-c", "100", "--rate", "1000"], Kind::Passing).unwrap();
    let mut is_first = true;
    let slow = Fake(move |_| {
        if std::mem::take(&mut is_first) {
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    });
    let times = run(&plan, vec![slow]).all.times;
    let waited = times.iter_recorded().filter(|value| value.value_iterated_to() >= 50_000_000);
    let waited: u64 = waited.map(|value| value.count_at_value()).sum();
    assert!(waited >= 45, "{waited} of {} waited", times.len());
}

#[test]
fn counts_failures_by_kind_and_ends_a_client_that_only_fails() {
    let plan = plan(&["-c", "1000000"], Kind::Passing).unwrap();
    let mut number = 0;
    let failing = Fake(move |_| {
        number += 1;
        match number {
            1..=10 => Ok(()),
            number if number % 2 == 0 => Err(CliError::unavailable("gone")),
            _ => Err(CliError::internal("odd")),
        }
    });
    let measured = run(&plan, vec![failing]);
    assert_eq!(measured.all.times.len(), 10);
    let errors: Vec<u64> = measured.all.errors.values().copied().collect();
    assert_eq!(errors, [50, 50]);
}

#[test]
fn warm_up_is_not_measured() {
    let plan = plan(&["-c", "5", "--warmup", "20ms", "--rate", "1000"], Kind::Passing).unwrap();
    let (count, counted) = (std::sync::Arc::new(AtomicU64::new(0)), 5);
    let seen = std::sync::Arc::clone(&count);
    let client = Fake(move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    assert_eq!(run(&plan, vec![client]).all.times.len(), counted);
    // Those of the first 20 ms come on top.
    assert_eq!(count.load(Ordering::Relaxed), 20 + counted);
}

#[test]
fn stops_before_the_backlog_grows_too_large() {
    let room = MOST_KEPT / (128 + OF_EACH);
    assert_eq!(plan(&["--duration", "1h"], Kind::Leaving).unwrap().most, room);
    assert_eq!(plan(&["--duration", "1h"], Kind::Passing).unwrap().most, u64::MAX);
    assert_eq!(plan(&["--duration", "1h"], Kind::Taking).unwrap().most, USUAL);
    assert_eq!(plan(&[], Kind::Leaving).unwrap().most, USUAL);
    let fails = |flags: &[&str], kind| plan(flags, kind).err().unwrap().exit.code();
    assert_eq!(fails(&["-c", "100000000"], Kind::Leaving), 2);
    assert_eq!(fails(&["--size", "2m"], Kind::Passing), 65);
    assert_eq!(fails(&["--warmup", "1s"], Kind::Taking), 2);
}

#[test]
fn a_wrong_limit_names_its_rule() {
    let wrong = |text: &str| text.parse::<Limit>().unwrap_err();
    for (text, why) in [
        ("p99", "KEY OP VALUE"),
        ("p98>5ms", "there is no metric `p98`; metrics: rate, min"),
        ("p99>soon", "`soon` is not a duration"),
        ("rate>x", "`x` is not a number"),
        ("rate<10%", "`10%` is not a number"),
        ("rate~=1", "the operators for a metric are == != < <= > >="),
    ] {
        let error = wrong(text);
        assert!(error.starts_with(&format!("the limit `{text}` is not valid")), "{error}");
        assert!(error.contains(why), "{text}: {error}");
    }
    assert!("p99.9 <= 5ms".parse::<Limit>().is_ok());
}
