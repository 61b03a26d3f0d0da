//! `top`: live figures of the queues. A live view on a terminal, successive snapshots elsewhere.

mod acts;
pub mod board;
mod frame;
mod pace;
mod screen;
mod selection;
mod snapshot;
mod view;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use clap::Args;

use self::acts::Acts;
pub(crate) use self::board::Known;
pub use self::board::{Act, Board, Figure, Row, Source, Unit, columns};
use self::pace::Pace;
use self::screen::{Happened, Screen};
use self::selection::Selection;
pub(crate) use self::snapshot::document;
use self::view::{Action, Prompt, View};
use crate::commands::exporter::{Choice, Collector, Exports, Look};
use crate::context::repeat::pause;
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::repl::guest::Interactive;

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Polling interval, at least 100ms [default: 1s]
    #[arg(short, long, value_name = "DUR", value_parser = pause)]
    interval: Option<Duration>,

    /// Take N snapshots and exit; 1 is a table without the live view, the default in a pipe without -i
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Enable keys that make changes; press ? for a list
    #[arg(long)]
    write: bool,

    /// Sort by this column
    #[arg(long, alias = "sort", value_name = "COLUMN")]
    sort_by: Option<String>,

    #[command(flatten)]
    choice: Choice,
}

impl TopArgs {
    /// The number of samples, if limited. In a pipe there is no keyboard to quit with.
    fn looks(&self, is_terminal: bool) -> Option<u64> {
        let is_once = !is_terminal && self.interval.is_none();
        self.count.or(is_once.then_some(1))
    }

    /// The polling interval.
    fn every(&self) -> Duration {
        self.interval.unwrap_or(Duration::from_secs(1))
    }
}

/// Runs `top`. Servers that do not answer are shown as such, and return when they do.
///
/// # Errors
/// Invalid flags (2); no server answers the only time that it is asked: the error of the worst, as for a failure that
/// does not pass; stdout or the terminal fails (74).
pub fn run<T: Interactive>(
    context: &mut Context<T>,
    args: &TopArgs,
    exports: &'static Exports<T>,
    board: &'static Board,
) -> Result<Exit, CliError>
where
    T::Link: Send,
{
    if args.write {
        context.refuse_dry_run("top --write", "without --write, it changes nothing")?;
    }
    let is_table = context.out.style.format.is_for_people();
    let shows =
        is_table && args.count != Some(1) && context.out.style.terminal && screen::is_possible();
    // Rejects unknown columns before anything is sent.
    context.out.expect(board.shape)?;
    let sort = board.figure(args.sort_by.as_deref());
    // The second signal must not end it before the terminal is restored.
    let interrupts = context.gentle_interrupts()?;
    let mut collector = Collector::new(context, exports, args.choice.clone())?;
    if shows {
        collector.silence();
    }
    let first = collector.looks();
    let is_only = args.looks(context.out.style.terminal && is_table) == Some(1);
    let passes = |look: &Result<Look, CliError>| {
        look.as_ref().is_err_and(|e| matches!(e.exit, Exit::Unavailable | Exit::Timeout))
    };
    if first.iter().all(Result::is_err) && (is_only || !first.iter().any(passes)) {
        let worst = first.into_iter().filter_map(Result::err).max_by_key(|e| e.exit.code());
        return Err(worst.unwrap_or_else(|| CliError::usage("no server given")));
    }
    let mut known = Known::new(board, (T::PROGRAM.name, exports.noun), collector.addresses());
    let take = |known: &mut Known, looks: Vec<_>| {
        looks.into_iter().enumerate().for_each(|(server, look)| known.take(server, look));
    };
    if shows {
        take(&mut known, first);
        let view = View::new(sort, args.every());
        let acts = Acts::<T>::of(context, args.write)?;
        let bounds = (view, args.count);
        return picture(context, collector, known, bounds, acts);
    }
    // As on the screen, the busiest come first.
    let order = args.sort_by.as_ref().map(|_| sort);
    let selection = Selection { sort: order, ..Selection::default() };
    let mut looks = Some(first);
    snapshot::all(context, args, &interrupts, (&mut known, selection), |known| {
        let looks = looks.take().unwrap_or_else(|| collector.looks());
        let worst = looks.iter().filter_map(|look| look.as_ref().err()).map(|error| error.exit);
        let worst = worst.max_by_key(|exit| exit.code());
        take(known, looks);
        worst.unwrap_or(Exit::Done)
    })
}

/// Shows the live view until the user leaves.
fn picture<T: Interactive>(
    context: &mut Context<T>,
    collector: Collector<T>,
    mut known: Known,
    (mut view, count): (View, Option<u64>),
    mut acts: Acts<T>,
) -> Result<Exit, CliError>
where
    T::Link: Send,
{
    let (interrupts, color) = (context.gentle_interrupts()?, context.out.style.color);
    let pace = Arc::new(Pace::new(view.every));
    let _ends = pace.ends();
    let looks = ask(collector, &pace);
    let mut screen = Screen::open(&context.messages)?;
    let mut is_new = true;
    loop {
        while let Ok((server, look)) = looks.try_recv() {
            known.take(server, look);
            is_new = true;
        }
        if let Some(exit) = interrupts.requested() {
            return Ok(exit);
        }
        if acts.came(&mut view) {
            if matches!(view.prompt, Prompt::Told(_)) {
                pace.set(view.every, view.paused);
            }
            is_new = true;
        }
        if view.jobs.is_none() {
            acts.stop_listing();
        }
        let (width, height) = screen.size();
        if is_new {
            view.keep_within(view.rows(&known).len(), frame::page(height, known.servers.len()));
            screen.show(&frame::frame(&known, &view, (width, height), color))?;
        }
        if count.is_some_and(|count| known.looks() >= count) {
            return Ok(Exit::Done);
        }
        is_new = match screen.wait(TICK)? {
            None => false,
            Some(Happened::Changed) => {
                screen.clear()?;
                true
            }
            Some(Happened::Key(key)) => {
                let page = frame::page(height, known.servers.len());
                let action = view.key(key, known.board.figures.len(), page);
                match action {
                    Action::Nothing | Action::Show => {}
                    Action::Look => pace.set(view.every, view.paused),
                    Action::Act(key) => {
                        let rows = view.rows(&known);
                        if let Some(prompt) = acts.prompt(key, rows.get(view.chosen), &known) {
                            view.prompt = prompt;
                        }
                    }
                    Action::Agree => view.prompt = acts.go(view.typed_name()),
                    Action::List => {
                        let rows = view.rows(&known);
                        let chosen = rows.get(view.chosen);
                        view.jobs = chosen.map(|row| acts.list(row, known.board));
                    }
                    Action::Redraw => screen.clear()?,
                    Action::Suspend => screen.suspend()?,
                    Action::Quit => return Ok(Exit::Done),
                }
                action != Action::Nothing
            }
        };
    }
}

/// How long to wait for a key before checking for answers.
const TICK: Duration = Duration::from_millis(50);

/// Queries each server in its own thread, so that a silent one does not hold up the others.
fn ask<T: Tool>(
    collector: Collector<T>,
    pace: &Arc<Pace>,
) -> mpsc::Receiver<(usize, Result<Look, CliError>)> {
    let servers = collector.addresses().len();
    let collector = Arc::new(collector);
    let (answers, looks) = mpsc::sync_channel(servers.max(1));
    for server in 0..servers {
        let (collector, pace) = (Arc::clone(&collector), Arc::clone(pace));
        let answers = answers.clone();
        thread::spawn(move || {
            let mut seen = pace.begin();
            while pace.wait(&mut seen) && answers.send((server, collector.look_at(server))).is_ok()
            {
            }
        });
    }
    looks
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::commands::exporter::{Kind, Metrics};
    use crate::output::{Column, Shape};

    const FIGURES: [Figure; 7] = [
        Figure::server(),
        Figure::name("TUBE"),
        Figure::count(Column::new("ready", "READY"), "jobs", 1).labelled(("state", "ready")),
        Figure::rate(Column::new("put_per_second", "PUT/S"), "puts", 4),
        Figure::seconds(Column::new("oldest", "OLDEST"), "age", 5),
        Figure::count(Column::new("waiting", "WAITING"), "waiting", 6),
        Figure::problem(),
    ];
    static SHAPE: Shape = Shape::rows("queue", &columns(&FIGURES));

    /// A sample board.
    pub(super) static BOARD: Board = Board {
        shape: &SHAPE,
        figures: &FIGURES,
        server: &[
            Figure::sum(Column::new("ready", "ready")),
            Figure::rate(Column::new("put_per_second", "put/s"), "all_puts", 0),
        ],
        main: "ready",
        problem: |row| {
            let is_alone = row.count("ready") > 0.0 && row.count("waiting") == 0.0;
            is_alone.then(|| "nobody waits".to_owned())
        },
        acts: &[],
        jobs: Err("jobs cannot be listed"),
    };

    fn look(at: Instant, puts: f64, queues: &[(&str, f64, f64)]) -> Look {
        let mut metrics = Metrics::default();
        metrics.add(Kind::Gauge, "server_info", "", [("version", "1.2")], 1.0);
        metrics.add(Kind::Counter, "all_puts", "", [], puts);
        for (name, ready, waiting) in queues {
            let tube = ("tube", *name);
            metrics.add(Kind::Gauge, "jobs", "", [tube, ("state", "ready")], *ready);
            metrics.add(Kind::Gauge, "jobs", "", [tube, ("state", "buried")], 99.0);
            metrics.add(Kind::Counter, "puts", "", [tube], puts);
            metrics.add(Kind::Gauge, "age", "", [tube], 720.0);
            metrics.add(Kind::Gauge, "waiting", "", [tube], *waiting);
        }
        Look { metrics, at, took: Duration::ZERO }
    }

    /// A server with three tubes, and one that is away.
    pub(super) fn known() -> Known {
        let mut known = Known::new(&BOARD, ("tool", "tube"), ["one:1", "dead:1"].into_iter());
        let queues = [("mail", 5.0, 0.0), ("sms", 5.0, 1.0), ("big", 70.0, 2.0)];
        known.take(0, Ok(look(Instant::now(), 10.0, &queues)));
        known.take(1, Err(CliError::unavailable("nobody is there")));
        known
    }

    fn rate(known: &Known, name: &str) -> Option<f64> {
        known.rows().find(|row| row.name == name)?.get("put_per_second")
    }

    #[test]
    fn rates_cover_the_time_since_the_last_poll() {
        let mut known = Known::new(&BOARD, ("tool", "tube"), std::iter::once("one:1"));
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        known.take(0, Ok(look(start, 10.0, &[("a", 1.0, 0.0)])));
        assert_eq!((rate(&known, "a"), known.servers[0].values[1]), (None, None));
        known.take(0, Ok(look(after(2), 30.0, &[("a", 1.0, 0.0), ("b", 2.0, 0.0)])));
        assert_eq!((rate(&known, "a"), rate(&known, "b")), (Some(10.0), None));
        assert_eq!(known.servers[0].values, [Some(3.0), Some(10.0)]);
        assert!(!known.servers[0].is_new());
        known.take(0, Ok(look(after(3), 1.0, &[("a", 1.0, 0.0)])));
        assert_eq!(rate(&known, "a"), None, "the counter has begun anew");
        assert!(known.servers[0].is_new());
        known.take(0, Ok(look(after(4), 1.0, &[("a", 1.0, 0.0)])));
        assert_eq!(rate(&known, "a"), Some(0.0));
        known.take(0, Ok(look(after(5), 1.0, &[])));
        let ready = known.servers[0].values[0].unwrap();
        assert_eq!(ready.to_string(), "0", "the sum of no queues is not -0");
    }

    #[test]
    fn omits_an_absent_server_from_rows_and_totals() {
        let mut known = known();
        assert_eq!(known.rows().count(), 3);
        known.take(0, Err(CliError::unavailable("gone")));
        assert_eq!((known.rows().count(), known.servers[0].values.len()), (0, 0));
        known.take(0, Ok(look(Instant::now(), 99.0, &[("mail", 1.0, 0.0)])));
        assert_eq!(rate(&known, "mail"), None);
        assert!(known.servers[0].down.is_none() && !known.servers[0].is_new());
        assert_eq!((known.looks(), known.servers[0].looks), (1, 3));
    }

    /// Its counters may have grown further than before, and it may have been away.
    #[test]
    fn a_changed_server_id_means_a_restart() {
        let mut known = Known::new(&BOARD, ("tool", "tube"), std::iter::once("one:1"));
        let mut take = |id: &str, puts: f64| {
            let mut look = look(Instant::now(), puts, &[("a", 1.0, 0.0)]);
            look.metrics.add(Kind::Gauge, "server_info", "", [("id", id)], 1.0);
            known.take(0, Ok(look));
            known.servers[0].is_new()
        };
        assert!(!take("", 1.0) && !take("a", 2.0) && !take("a", 3.0));
        assert!(take("b", 4.0));
        let mut known = self::known();
        known.servers[0].id = Some("a".to_owned());
        known.take(0, Err(CliError::unavailable("gone")));
        let mut look = look(Instant::now(), 99.0, &[]);
        look.metrics.add(Kind::Gauge, "server_info", "", [("id", "b")], 1.0);
        known.take(0, Ok(look));
        assert!(known.servers[0].is_new());
    }

    #[test]
    fn reasons_do_not_repeat_the_server() {
        let mut known = Known::new(&BOARD, ("tool", "tube"), std::iter::once("one:1"));
        for (text, shown) in [
            ("one:1: stats: not done within 1 s", "stats: not done within 1 s"),
            ("stats to one:1: not done within 1 s", "stats: not done within 1 s"),
            ("cannot connect to one:1: refused", "cannot connect: refused"),
        ] {
            known.take(0, Err(CliError::unavailable(text)));
            let (_, why) = known.servers[0].down.as_ref().unwrap();
            assert_eq!(why, shown);
        }
    }

    #[test]
    fn the_history_is_bounded() {
        let mut known = Known::new(&BOARD, ("tool", "tube"), std::iter::once("one:1"));
        for ready in 0..200 {
            known.take(0, Ok(look(Instant::now(), 0.0, &[("a", f64::from(ready), 0.0)])));
        }
        let row = known.rows().next().unwrap();
        let history = known.history(&row);
        assert_eq!((history.len(), history.last()), (60, Some(&199.0)));
    }
}
