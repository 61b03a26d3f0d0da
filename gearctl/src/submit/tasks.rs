//! Jobs to submit, from arguments, files and stdin.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use ctl_core::bulk::ItemArgs;
use ctl_core::error::CliError;
use ctl_core::input::intake::{self, Cut};
use ctl_core::input::named::{self, Leading};
use ctl_core::input::own::OwnFirst;
use ctl_core::input::{Argument, Framing, Input};
use ctl_core::output::Record;
use ctl_core::output::messages::Messages;
use ctl_core::output::records::{self, Body};
use ctl_core::text::encoding::from_base64;
use ctl_core::text::escape;
use gearman_client::{FunctionName, Priority, SubmitOptions, UniqueId};
use serde::Deserialize;

use crate::error::cli_error;
use crate::link::{Link, status_of};
use crate::names::{self, Function, show_function};
use crate::submit::merged::{Guard, Submitted};

/// Arguments shared by `run` and `submit`.
#[derive(Debug, Clone, Args)]
pub struct TaskArgs {
    #[command(flatten)]
    function: Leading<Function>,

    /// Workloads, one per job: text, @FILE or - for stdin [default: stdin]
    #[arg(value_name = "BODY|@FILE|-")]
    bodies: Vec<OsString>,

    /// high, normal or low
    #[arg(short, long, alias = "pri", value_name = "PRIORITY", default_value = "normal")]
    pub priority: Priority,

    /// Unique id; the server merges jobs with the same one, and skips them all if the last client that waits for one
    /// leaves before it runs. - derives it from the workload; a record's own id comes first [default: a random id]
    #[arg(hide_short_help = true, short, long, value_name = "ID|-")]
    pub unique: Option<String>,

    /// Submit without unique ids: gearmand stays fast with a deep queue, but one with a persistent queue loses such
    /// jobs on a restart [default: a random id for each job]
    #[arg(hide_short_help = true, long, conflicts_with = "unique")]
    pub no_unique: bool,

    /// One job per line of a file or stdin, without its end (LF or CRLF); an empty line is an empty job
    #[arg(long, group = "framing")]
    pub lines: bool,

    /// One job per NUL-terminated record; each result is followed by NUL
    #[arg(hide_short_help = true, short = '0', long, group = "framing")]
    pub null: bool,

    /// One JSON record per line, with "body" or "body_base64" and optionally "function", "unique", "priority"; the
    /// options are for what a record does not say
    #[arg(hide_short_help = true, long, group = "framing")]
    pub ndjson: bool,

    /// Function that merges the results of the job's parts; the worker splits the job
    #[arg(hide_short_help = true, long, value_name = "FUNCTION", conflicts_with = "priority")]
    pub reduce: Option<String>,

    #[command(flatten)]
    pub(crate) pace: PaceArgs,
}

/// How many jobs a command takes or submits, and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Bulk options")]
pub struct PaceArgs {
    /// Those for each job.
    #[command(flatten)]
    pub items: ItemArgs,

    /// Number of concurrent jobs, each on its own connection
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
}

/// A job to submit.
#[derive(Debug, Clone)]
pub struct Task {
    /// How messages refer to it, such as `stdin record 7`; empty if there is only one.
    pub label: String,
    /// The function.
    pub function: FunctionName,
    /// The workload.
    pub workload: Vec<u8>,
    /// Priority and time limit.
    pub options: SubmitOptions,
    /// The function that merges the results of the parts.
    pub reducer: Option<FunctionName>,
    /// Its unique id, if it is not a random one.
    pub id: Option<UniqueId>,
    /// The handle in its record, of the job that the record is from.
    pub former: Option<String>,
}

impl Task {
    /// Its options, with its id.
    pub fn options(&self) -> SubmitOptions {
        self.id.map_or(self.options, |id| self.options.unique(id))
    }

    /// What the server may merge with another job.
    pub fn chosen(&self) -> Option<Submitted<'_>> {
        let (function, former) = (&self.function, self.former.as_deref());
        self.id.map(|id| Submitted { id, function, former })
    }
}

/// Jobs one after the other; an invalid one is an error with its label.
pub type Tasks = Box<dyn Iterator<Item = Result<Task, (String, CliError)>> + Send>;

/// The unique id that stands for one derived from the workload, as in the protocol.
const HASH: &str = "-";

/// The largest workload that can be sent: the client's limit for a packet.
const MAX_WORKLOAD: u64 = 64 << 20;

/// The version of the record that `drain` writes.
pub const VERSION: u64 = 1;

/// A job as a record that `submit --ndjson` and `import` read.
pub fn record(handle: &str, function: &FunctionName, unique: &[u8], body: &[u8]) -> Record {
    let shown = Some(escape::name(unique)).filter(|unique| !unique.is_empty());
    Record::new()
        .with("v", VERSION)
        .with("handle", handle)
        .with("function", show_function(function))
        .with("unique", shown)
        .with_body(body.to_vec())
}

/// The fields of a record. Others are ignored, so that the tool's own records can be read.
#[derive(Deserialize)]
struct Described {
    v: Option<u64>,
    handle: Option<serde_json::Value>,
    function: Option<String>,
    unique: Option<String>,
    unique_base64: Option<String>,
    priority: Option<String>,
    #[serde(flatten)]
    body: Body,
}

impl TaskArgs {
    /// Tells the function from the workloads. Records may name their own functions, so then it is optional.
    ///
    /// # Errors
    /// No function is named, or all jobs would be merged: exit 2. The name is illegal: exit 65.
    pub fn read(self) -> Result<Wanted, CliError> {
        let (function, bodies) = self.function.split_for(self.ndjson, &self.bodies)?;
        let wanted = Wanted { args: self, function, bodies };
        let by_name = wanted.args.unique.as_deref().is_some_and(|id| id != HASH);
        if by_name && !wanted.is_single() {
            return Err(CliError::usage(
                "-u gives a single id, so all of them would be merged into one job",
            )
            .hint("-u -, or --ndjson with an id in each record"));
        }
        Ok(wanted)
    }
}

/// The jobs that a line wants.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The line.
    pub args: TaskArgs,
    /// For records, that of those that name none.
    function: Option<FunctionName>,
    bodies: Vec<OsString>,
}

impl Wanted {
    /// The function of all jobs; none if they are records, which may name their own.
    pub fn common_function(&self) -> Option<&FunctionName> {
        self.function.as_ref().filter(|_| !self.args.ndjson)
    }

    /// Where the jobs go, for people.
    pub fn place(&self) -> String {
        match self.common_function() {
            Some(function) => show_function(function),
            None => "the functions of their records".to_owned(),
        }
    }

    /// Reports that the first workload is the name of a function, if the flag named another one.
    pub fn note_first_body(&self, link: &mut Link, messages: &Messages) {
        if self.args.function.is_by_flag() {
            let exists = |function: &FunctionName| matches!(status_of(link, function), Ok(Some(_)));
            named::note_first_body::<Function>(messages, &self.bodies, exists);
        }
    }

    /// The id that the line gives.
    fn id(&self) -> Result<Option<UniqueId>, CliError> {
        let id = self.args.unique.as_deref().filter(|id| *id != HASH);
        id.map(names::unique).transpose()
    }

    /// Refuses the id that the line gives, if another job has it; see [`Guard::require_free`].
    ///
    /// # Errors
    /// As [`Guard::require_free`].
    pub fn require_free(&self, guard: &Guard) -> Result<(), CliError> {
        match (self.id()?, self.common_function()) {
            (Some(id), Some(function)) => {
                guard.require_free(Submitted { id, function, former: None })
            }
            _ => Ok(()),
        }
    }

    /// Whether there is exactly one job.
    pub fn is_single(&self) -> bool {
        let args = &self.args;
        self.bodies.len() <= 1 && !(args.lines || args.null || args.ndjson)
    }

    /// The jobs. Each may take `timeout`.
    ///
    /// # Errors
    /// An illegal name (65), a file that is missing (66).
    pub fn tasks(
        &self,
        (input, messages): (&mut Input, &Messages),
        timeout: Option<Duration>,
    ) -> Result<Tasks, CliError> {
        let Self { args, function, bodies } = self;
        let mut options = SubmitOptions::default().priority(args.priority);
        if let Some(timeout) = timeout {
            options = options.timeout(timeout);
        }
        let (hash, id) = (args.unique.as_deref() == Some(HASH), self.id()?);
        if args.no_unique {
            options = options.without_id();
        }
        let reducer = args.reduce.as_deref().map(names::function).transpose()?;
        let (ndjson, own) = (args.ndjson, OwnFirst::new(messages));
        let function = function.clone();
        let form = Form { function, options, id, reducer, hash, ndjson, own };
        let framing = Framing::of(args.lines, args.null);
        let cut = if ndjson { Cut::Ndjson } else { Cut::Bodies(framing) };
        let make = move |label: &str, bytes| form.task(label.to_owned(), bytes);
        let sources = intake::sources(bodies, input, messages);
        let (mut tasks, _) = intake::chain(sources, cut, MAX_WORKLOAD, (input, messages), make)?;
        if self.is_single() {
            let unlabelled = |task| Task { label: String::new(), ..task };
            let failed = |(_, error)| (String::new(), error);
            tasks = Box::new(tasks.map(move |task| task.map(unlabelled).map_err(failed)));
        }
        Ok(intake::take(tasks, args.pace.items.count))
    }
}

/// The jobs of records in a file or on stdin; `function` overrides that of a record.
///
/// # Errors
/// The file is missing: exit 66.
pub fn records(
    from: OsString,
    function: Option<FunctionName>,
    priority: Priority,
    input: (&mut Input, &Messages),
) -> Result<Tasks, CliError> {
    let options = SubmitOptions::default().priority(priority);
    let no_function =
        || CliError::bad_data("job record without `function`").hint("--function FUNCTION");
    let make = move |label: &str, line: Vec<u8>| {
        let record = Described::read(&line)?;
        let own = record.function()?;
        let function = function.clone().or(own).ok_or_else(no_function)?;
        record.task(label.to_owned(), function, options)
    };
    let from = vec![Argument::Read(from)];
    intake::chain(from, Cut::Ndjson, MAX_WORKLOAD, input, make).map(|(tasks, _)| tasks)
}

/// How to turn bytes into a job.
#[derive(Clone)]
struct Form {
    /// The function; for records, of those that name none.
    function: Option<FunctionName>,
    options: SubmitOptions,
    id: Option<UniqueId>,
    reducer: Option<FunctionName>,
    hash: bool,
    ndjson: bool,
    own: OwnFirst,
}

impl Form {
    fn task(&self, label: String, bytes: Vec<u8>) -> Result<Task, CliError> {
        let function = |own| self.own.name::<Function>(&label, own, self.function.clone());
        let options = self.options;
        let mut task = if self.ndjson {
            let record = Described::read(&bytes)?;
            let function = function(record.function()?)?;
            record.task(label, function, options)?
        } else {
            let (function, workload) = (function(None)?, bytes);
            Task { label, function, workload, options, reducer: None, id: self.id, former: None }
        };
        task.reducer.clone_from(&self.reducer);
        if self.hash && task.id.is_none() {
            task.id = Some(UniqueId::of_payload(&task.workload));
        }
        Ok(task)
    }
}

impl Described {
    fn read(line: &[u8]) -> Result<Self, CliError> {
        records::parse(line, ("job", VERSION), |record: &Self| record.v)
    }

    fn function(&self) -> Result<Option<FunctionName>, CliError> {
        self.function.as_deref().map(names::function).transpose()
    }

    /// The job of this function.
    fn task(
        self,
        label: String,
        function: FunctionName,
        mut options: SubmitOptions,
    ) -> Result<Task, CliError> {
        let workload = self.body.bytes("job")?;
        if let Some(priority) = &self.priority {
            options = options.priority(priority.parse().map_err(cli_error)?);
        }
        let id = match (&self.unique_base64, &self.unique) {
            (Some(unique), _) => {
                let unique = from_base64(unique).map_err(CliError::bad_data)?;
                Some(UniqueId::try_from(&*unique).map_err(cli_error)?)
            }
            (None, unique) => unique.as_deref().map(names::unique).transpose()?,
        };
        let former = self.handle.as_ref().and_then(|handle| handle.as_str()).map(str::to_owned);
        Ok(Task { label, function, workload, options, reducer: None, id, former })
    }
}
