//! Worker processes that are killed again and again: the resilient examples.

use std::{
    env,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use fixtures::history::Fate;

use crate::{body::key_of, ledger::count, rng::Rng, stage::Stage};

/// Worker processes of that example, each line of which is heard.
pub fn outsider(
    stage: &Arc<Stage>,
    name: &'static str,
    arguments: [String; 2],
    rng: Rng,
    hear: fn(&Stage, &str),
) -> impl FnOnce() + use<> {
    let stage = stage.clone();
    move || match Outsider::example(name, arguments) {
        Some(outsider) => outsider.run(&stage, rng, |line| hear(&stage, line)),
        None => eprintln!("{NO_OUTSIDERS}"),
    }
}

/// The line is the body of a job, which its worker prints before it reports its end.
pub fn body(stage: &Stage, line: &str) {
    const ACTOR: u32 = 70;
    if let Some(key) = key_of(line.as_bytes()) {
        stage.ledger.delivered(ACTOR, key);
        stage.ledger.finish(ACTOR, key);
        stage.ledger.finished(ACTOR, key, Fate::Unknown);
    }
}

/// The message if the examples were not built.
const NO_OUTSIDERS: &str = "soak: goes without worker processes that are killed: build the examples of \
    adf-queue-client, beanstalk-client and gearman-client in the same profile first";

/// How long a worker process usually lives.
const LIFE: Duration = Duration::from_secs(10);

/// A program that works until its standard input ends.
struct Outsider {
    program: PathBuf,
    arguments: [String; 2],
}

impl Outsider {
    /// The built example of that name; `None` if it was not built.
    fn example(name: &str, arguments: [String; 2]) -> Option<Outsider> {
        let mut program = env::current_exe().ok()?;
        program.set_file_name(format!("{name}{}", env::consts::EXE_SUFFIX));
        program.is_file().then_some(Outsider { program, arguments })
    }

    /// Starts it, kills it after a while, and starts it again until the calm; then one more works until everything is
    /// over, and is stopped in an orderly way. Every line that they print is read.
    fn run(&self, stage: &Stage, mut rng: Rng, hear: impl Fn(&str) + Sync) {
        let (hear, every) = (&hear, stage.at_most(LIFE));
        thread::scope(|scope| {
            loop {
                let (mut child, output) = self.start();
                let listener = scope.spawn(move || {
                    for line in BufReader::new(output).lines() {
                        // A killed process may leave half a line.
                        let Ok(line) = line else { break };
                        hear(&line);
                    }
                });
                let goes_on =
                    stage.pause(every.mul_f64(0.5) + rng.millis(every.as_millis() as u64));
                if goes_on {
                    let _ = child.kill();
                    count(&stage.ledger.counts.worker_kills);
                } else {
                    while !stage.is_over() {
                        thread::sleep(Duration::from_millis(50));
                    }
                    drop(child.stdin.take());
                }
                let status = child.wait().expect("it was started here");
                listener.join().expect("it only listens");
                if !goes_on {
                    if !status.success() {
                        stage.ledger.problem(format!("{}: {status}", self.program.display()));
                    }
                    return;
                }
            }
        });
    }

    fn start(&self) -> (Child, ChildStdout) {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the example starts");
        let output = child.stdout.take().expect("it is piped");
        (child, output)
    }
}
