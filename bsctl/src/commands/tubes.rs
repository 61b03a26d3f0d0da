//! `tubes`: the tubes of a server with the number of jobs in each state.

use beanstalk_client::protocol::ListTubes;
use beanstalk_client::{JobState, TubeName};
use clap::Args;
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::glob::{is_wanted, tell_unmatched};
use ctl_core::input::named::{self, Several};
use ctl_core::output::{Column, Format, Record, Shape};

use crate::jobs::paused::{self, Paused};
use crate::jobs::state::{self, one_of};
use crate::names::Tube;
use crate::tool::Tool;
use crate::tube_stats::{self, Answer, record};

/// The end of `tubes --help`.
pub const HELP: &str = "\
Protocol: list-tubes, then stats-tube for each, pipelined.
A tube exists while it has jobs or a client uses or watches it; its counters start from zero each time.
--all shows all that the server tells.
Servers before 1.11 cannot report on tubes with names over 195 bytes: these are listed without counts, and the exit code
is 3.

Examples:
  bsctl tubes
  bsctl tubes 'mail*' --state buried
  bsctl tubes -o name
  bsctl stats-tube mail
  bsctl -s one:11300,two:11300 tubes";

/// Arguments of `tubes`.
#[derive(Debug, Args)]
#[command(mut_args(|arg| named::pattern(arg, "Only tubes matching one of these patterns (* and ?)")))]
pub struct TubesArgs {
    #[command(flatten)]
    patterns: Several<Tube>,

    /// Only tubes with jobs in one of these states (comma-separated)
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = one_of(state::ALL))]
    state: Vec<JobState>,

    /// Show all statistics, each on a line
    #[arg(long)]
    all: bool,
}

/// The statistics of a tube, in the server's order.
const ALL: [&str; 14] = [
    "name",
    "current-jobs-urgent",
    "current-jobs-ready",
    "current-jobs-reserved",
    "current-jobs-delayed",
    "current-jobs-buried",
    "total-jobs",
    "current-using",
    "current-watching",
    "current-waiting",
    "cmd-delete",
    "cmd-pause-tube",
    "pause",
    "pause-time-left",
];

/// Tubes with their statistics.
static TUBES: Shape = Shape::rows(
    "queue",
    &[
        Column::new("queue", "TUBE"),
        Column::on_request("name", "NAME"),
        Column::new("current-jobs-ready", "READY"),
        Column::new("current-jobs-reserved", "RESERVED"),
        Column::new("current-jobs-delayed", "DELAYED"),
        Column::new("current-jobs-buried", "BURIED"),
        Column::wide("current-jobs-urgent", "URGENT"),
        Column::wide("total-jobs", "TOTAL"),
        Column::wide("current-using", "USING"),
        Column::wide("current-watching", "WATCHING"),
        Column::wide("current-waiting", "WAITING"),
        Column::wide("cmd-delete", "DELETES"),
        Column::on_request("cmd-pause-tube", "PAUSES"),
        Column::on_request("pause", "PAUSE"),
        Column::wide("pause-time-left", "PAUSE LEFT"),
        Column::on_request("error", "ERROR"),
    ],
);

/// Runs `tubes`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: TubesArgs) -> Result<Exit, CliError> {
    let patterns = args.patterns.texts();
    let mut fleet = Fleet::of(tool)?;
    if args.all {
        // So many figures need a line each.
        let style = &mut tool.out.style;
        style.upright = true;
        if style.columns.is_none() && !style.format.is_structured() {
            let server = fleet.is_several().then_some("server");
            style.columns = Some(server.into_iter().chain(ALL).map(str::to_owned).collect());
        }
    }
    fleet.expect(&mut tool.out, &TUBES)?;
    let all = fleet.ask(&mut tool.link, |link| {
        let mut tubes = link.call(ListTubes)?;
        let names: Vec<String> = tubes.iter().map(TubeName::to_string).collect();
        tubes.retain(|tube| is_wanted(tube.as_str(), &patterns));
        tubes.sort();
        let answers = tube_stats::ask(link, &tubes)?;
        Ok((names, tubes.into_iter().zip(answers).collect::<Vec<_>>()))
    })?;
    // Other formats have the figure.
    let tells = tool.out.style.format == Format::Table && tool.out.style.columns.is_none();
    let mut all_paused = Vec::new();
    let mut list = fleet.list(&mut tool.out, &TUBES)?;
    let mut exit = fleet.exit();
    for (server, (_, tubes)) in &all {
        let server = server.as_deref();
        for (tube, answer) in tubes {
            match answer {
                Answer::Stats(stats) => {
                    if args.state.is_empty()
                        || args.state.iter().any(|one| state::count(one, stats) > 0)
                    {
                        let paused = Paused::of(stats).filter(|_| tells);
                        all_paused.extend(paused.map(|one| one.at(server)));
                        list.push(named(record(&**stats)?, tube).of_server(server))?;
                    }
                }
                Answer::Gone => {}
                Answer::Unaskable(error) => {
                    tool.messages.warn(&error.message);
                    let record =
                        Record::new().with("name", tube.as_str()).with("error", error.code);
                    list.push(named(record, tube).of_server(server))?;
                    if exit.is_done() {
                        exit = Exit::Partial;
                    }
                }
            }
        }
    }
    list.finish()?;
    let names = all.iter().flat_map(|(_, (names, _))| names.iter().map(String::as_str));
    tell_unmatched(&tool.messages, "tubes", &patterns, names);
    if let Some(told) = paused::told(&all_paused) {
        tool.messages.note(told);
    }
    Ok(exit)
}

/// A tube's record under the key that every tool has for a queue, beside the server's `name`.
fn named(record: Record, tube: &TubeName) -> Record {
    record.led_by("queue", tube.as_str())
}
