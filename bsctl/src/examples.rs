//! Cheat sheets for `examples`. A test runs every line against an in-memory server.

use ctl_core::program::sheet::{Example, Sheet};

/// The sheets.
pub const SHEETS: &[Sheet] = &[
    Sheet {
        topic: "put",
        about: "Put jobs",
        examples: &[
            Example::new("Put a job into the tube mail and print its id", "bsctl put -t mail hello"),
            Example::new(
                "Urgent, ready in 30 seconds, with five minutes to run",
                "bsctl put -t mail --pri 10 --delay 30s --ttr 5m hello",
            ),
            Example::new("Put the contents of a file", "bsctl put -t mail @letter.txt"),
            Example::new("Put the output of a program", "date | bsctl put -t mail -"),
            Example::new("One job per line", "bsctl put -t mail --lines < names.txt"),
            Example::new(
                "One job per file name, whatever is in the names",
                "find . -name '*.txt' -print0 | bsctl put -t files -0",
            ),
            Example::new("Test data: 100 jobs of 1 to 4 KiB", "bsctl populate -t test --count 100 --size 1k..4k"),
        ],
    },
    Sheet {
        topic: "take",
        about: "Take jobs",
        examples: &[
            Example::new("Show jobs as they arrive, without taking them", "bsctl tail -t mail").until_stopped(),
            Example::new("Jobs to take", "bsctl put -t mail --lines < names.txt"),
            Example::new("Take one job: print its body, then delete it", "bsctl pop -t mail -o raw"),
            Example::new("Look at the next job, then give it back", "bsctl reserve -t mail"),
            Example::new("Take up to 100 jobs, each into a file", "bsctl pop -t mail -c 100 --dump letters"),
            Example::new("There is none", "bsctl pop -t mail").exits(1),
            Example::new("Wait for a job, but only briefly", "bsctl pop -t mail --wait 1s").exits(124),
        ],
    },
    Sheet {
        topic: "work",
        about: "Run a command for every job",
        examples: &[
            Example::new(
                "A worker: the command reads the body, and its exit code decides",
                "bsctl work -t mail -- ./send {id}",
            )
            .until_stopped(),
            Example::new("Four jobs at a time, until the tube is empty", "bsctl work -t mail -j 4 --exit-when-empty -- ./send {id}"),
            Example::new("One job that fails", "bsctl put -t sms hello"),
            Example::new(
                "Bury failed jobs, and log the fate of each job as JSON",
                "bsctl work -t sms --on-fail bury --max-jobs 1 --log-jobs ndjson -- false",
            ),
            Example::new(
                "A shell pipeline, at most a minute for each job",
                "bsctl work -t mail --max-runtime 1m --exit-when-empty --shell 'tr a-z A-Z | ./send'",
            ),
            Example::new(
                "Stop when no job has arrived for a second",
                "bsctl work -t mail --max-idle 1s -- ./send",
            ),
        ],
    },
    Sheet {
        topic: "inspect",
        about: "Look around, without changing anything",
        examples: &[
            Example::new("Jobs to look at", "bsctl put -t mail --lines < names.txt"),
            Example::new("All tubes and their jobs", "bsctl tubes"),
            Example::new("Tubes whose names match, with more columns", "bsctl tubes 'mail*' -o wide"),
            Example::new("The next job", "bsctl peek --ready -t mail"),
            Example::new("All jobs with their bodies", "bsctl jobs -t mail --with-body"),
            Example::new("Jobs that fit", "bsctl jobs -t mail --filter 'body~=^a' --filter 'age<1h'"),
            Example::new("Everything about one job", "bsctl job 1"),
            Example::new("The statistics of a tube", "bsctl stats-tube mail"),
            Example::new("The server's activity per second", "bsctl stats --rates"),
            Example::new("Version and features of the server", "bsctl server"),
        ],
    },
    Sheet {
        topic: "retry",
        about: "Bury jobs, and bring them back",
        examples: &[
            Example::new("Jobs to bury", "bsctl put -t mail --lines < names.txt"),
            Example::new("Set the next job aside", "bsctl reserve -t mail --then bury"),
            Example::new("Set a job aside by its id", "bsctl bury 2"),
            Example::new("Which tubes have buried jobs?", "bsctl tubes --state buried"),
            Example::new("Read the buried jobs", "bsctl jobs -t mail --state buried --with-body"),
            Example::new("Bring back those that match", "bsctl retry mail --filter 'body==ann'"),
            Example::new("Bring all of them back", "bsctl retry mail"),
            Example::new("Set all ready jobs aside", "bsctl bury-all mail --yes"),
            Example::new("Bring ten of them back", "bsctl kick -t mail -c 10"),
            Example::new("A delayed job", "bsctl put -t sms --delay 1h hello"),
            Example::new("Make delayed jobs ready now", "bsctl kick -t sms --state delayed --all"),
            Example::new("Delete the buried jobs", "bsctl clear mail --state buried --yes"),
        ],
    },
    Sheet {
        topic: "bulk",
        about: "Save, delete and move many jobs",
        examples: &[
            Example::new("Jobs to move", "bsctl put -t mail --lines < names.txt"),
            Example::new("Save the jobs of a tube, and leave them there", "bsctl export mail > mail.ndjson"),
            Example::new("Put saved jobs into another tube", "bsctl import mail.ndjson --tube mail-copy"),
            Example::new("Move jobs to another tube", "bsctl move --from mail-copy --to mail-old --yes"),
            Example::new("How many would be deleted?", "bsctl clear mail --filter 'body~=^b' --dry-run"),
            Example::new("Delete those that match", "bsctl clear mail --filter 'body~=^b' --yes"),
            Example::new("Delete jobs older than a week", "bsctl clear mail --older-than 7d --yes"),
            Example::new("Write jobs to a file, and delete them", "bsctl drain mail --to old.ndjson --yes"),
            Example::new("Hold back all jobs of a tube for ten minutes", "bsctl pause mail-old 10m"),
            Example::new("And release them again", "bsctl resume mail-old"),
        ],
    },
    Sheet {
        topic: "servers",
        about: "Several servers",
        examples: &[
            Example::new("Put jobs on both, in turn", "bsctl -a queue1,queue2 put -t mail --lines < names.txt"),
            Example::new("The tubes of all servers", "bsctl -a queue1,queue2 tubes"),
            Example::new("One worker for both", "bsctl -a queue1,queue2 work -t sms -j 2 -- ./send").until_stopped(),
            Example::new("Move the jobs of a tube from one to the other", "bsctl -a queue1 move --from mail --to-addr queue2 --yes"),
            Example::new("Copy everything, buried jobs as buried", "bsctl -a queue2 export | bsctl -a queue1 import - --keep-state"),
            Example::new("A name for servers and their settings", "bsctl context add prod -a queue1,queue2 timeout=5s"),
            Example::new("Use it once", "bsctl --context prod ping"),
            Example::new("Use it from now on", "bsctl context select prod"),
            Example::new("Where does each setting come from?", "bsctl context show"),
            Example::new("Is everything as it should be?", "bsctl doctor"),
        ],
    },
    Sheet {
        topic: "ci",
        about: "In CI: a server for tests, and checks that fail a build",
        examples: &[
            Example::new("A server for one command, which finds it in BSCTL_ADDR", "bsctl serve -- ./test.sh"),
            Example::new("The same with jobs in it", "bsctl put -t mail hello && bsctl export > jobs.ndjson && bsctl serve --seed-file jobs.ndjson -- ./test.sh"),
            Example::new("Wait until a server answers", "bsctl wait --for server --timeout 30s"),
            Example::new("Does the round trip of a job work?", "bsctl smoke"),
            Example::new("The same with nothing but this program", "bsctl --embedded smoke"),
            Example::new("Fail unless exactly one job is ready", "bsctl repl -e \"expect 'ready==1' stats-tube mail\""),
            Example::new("Fail if any job is buried", "bsctl check tubes '*' -c buried=0 --zero-workers ok --format junit > report.xml"),
            Example::new("Wait until the workers are done, but only briefly", "bsctl wait --for empty -t mail --timeout 1s").exits(124),
        ],
    },
    Sheet {
        topic: "serve",
        about: "Run the in-memory server",
        examples: &[
            Example::new("On a port of your choice", "bsctl serve --port 11300").until_stopped(),
            Example::new("Every tenth put is refused, and answers take 5 ms", "bsctl serve --port 11300 --fail 'put:every=10:DRAINING' --latency 5ms").until_stopped(),
            Example::new("For a command, which finds it in BSCTL_ADDR", "bsctl serve -- ./test.sh"),
            Example::new("For one command of this tool", "bsctl --embedded put hello"),
            Example::new("For a session", "bsctl --embedded repl -e 'put hello' -e 'peek 1'"),
        ],
    },
    Sheet {
        topic: "monitor",
        about: "Monitor servers",
        examples: &[
            Example::new("A live view; in a pipe, one snapshot", "bsctl top").until_stopped(),
            Example::new("A web page; with --write, it can kick and bury", "bsctl web --listen 127.0.0.1:8030").until_stopped(),
            Example::new("Metrics for Prometheus, on /metrics", "bsctl exporter --listen 127.0.0.1:9419").until_stopped(),
            Example::new("Metrics for the node exporter", "bsctl exporter --once > beanstalkd.prom"),
            Example::new("A job that nobody takes", "bsctl put -t mail hello"),
            Example::new("A monitoring plugin: no workers are critical", "bsctl check tube mail -w ready=100 -c ready=1000").exits(2),
            Example::new("A warning from ten minutes of age", "bsctl check tube mail --zero-workers ok -w oldest-age=10m"),
            Example::new("Does the server store and return jobs?", "bsctl check roundtrip -c rtt=5s --timeout 10s"),
            Example::new("Follow the changing statistics of a tube", "bsctl watch -i 1s -c 2 --diff -- stats-tube mail"),
            Example::new("How long do round trips take?", "bsctl latency -i 10ms --every 1s -c 2"),
        ],
    },
    Sheet {
        topic: "laravel",
        about: "Jobs of Laravel and Symfony",
        examples: &[
            Example::new(
                "A job as Laravel puts it",
                r#"bsctl put -t default '{"displayName":"App\\Jobs\\SendMail","job":"Illuminate\\Queue\\CallQueuedHandler@call","maxTries":3,"attempts":0,"data":{"commandName":"App\\Jobs\\SendMail","command":"O:17:\"App\\Jobs\\SendMail\":1:{s:2:\"to\";s:3:\"joe\";}"}}'"#,
            ),
            Example::new(
                "A message as Symfony Messenger puts it",
                r#"bsctl put -t messenger '{"body":"{\"to\":\"joe\"}","headers":{"type":"App\\Message\\SendMail"}}'"#,
            ),
            Example::new("Show class, attempts and arguments beside the body", "bsctl peek --ready -t default --decode auto"),
            Example::new("All jobs of a class", "bsctl jobs --filter 'envelope.class~=SendMail' --decode auto"),
            Example::new("Jobs with an argument", "bsctl jobs -t default --filter 'envelope.arguments.to==joe'"),
            Example::new("Set one aside, as a worker that gives up does", "bsctl reserve -t default --then bury"),
            Example::new("Retry failed jobs of a class", "bsctl retry default --filter 'envelope.class~=SendMail'"),
            Example::new("Delete those of another", "bsctl clear messenger --filter 'envelope.class~=SendMail' --yes"),
        ],
    },
    Sheet {
        topic: "repl",
        about: "Work in a session",
        examples: &[
            Example::new("Start one; help lists what can be typed", "bsctl repl"),
            Example::new("Try everything with a server of its own", "bsctl --embedded repl"),
            Example::new("Run lines from a shell", "bsctl repl -e 'watch mail' -e 'put -t mail hello' -e 'reserve 0' -e 'bury'"),
            Example::new(
                "A script: it stops at the first failure, with its exit code",
                "bsctl repl --var tube=mail <<'END'\nuse ${tube}\nwatch ${tube}\nput <<LETTER\nDear Joe,\nall is well.\nLETTER\nexpect 'ready==1' stats-tube ${tube}\nreserve 0\ndelete\nEND",
            ),
            Example::new("Go on after failures", "bsctl repl --keep-going -e 'peek 4711' -e 'tubes'").exits(3),
        ],
    },
    Sheet {
        topic: "tap",
        about: "Show the traffic between an application and its server",
        examples: &[
            Example::new(
                "Relay to the server, show commands and replies, and record them",
                "bsctl tap --listen 127.0.0.1:11301 --record session.txt",
            )
            .until_stopped(),
            Example::new("Have the application connect to it", "bsctl -a 127.0.0.1:11301 put -t mail hello"),
            Example::new("Only what took longer than 50 ms, as JSON", "bsctl tap --listen 127.0.0.1:11302 --slow 50ms -o ndjson").until_stopped(),
            Example::new("Only large puts, with more of the body", "bsctl tap --listen 127.0.0.1:11303 --filter 'verb==put' --filter 'size>1k' --body 200").until_stopped(),
            Example::new("What would be played back?", "bsctl tap --replay session.txt --dry-run"),
            Example::new("Play a recording back to a server of its own", "bsctl --embedded tap --replay session.txt"),
        ],
    },
    Sheet {
        topic: "bench",
        about: "Measure a server",
        examples: &[
            Example::new("Four clients put jobs for a second", "bsctl bench put -j 4 --duration 1s"),
            Example::new("Put, reserve and delete at a fixed rate, kept for comparison", "bsctl bench cycle --rate 200 --duration 1s -o json > base.json"),
            Example::new("Compare, and fail if half of them take longer than 2 s", "bsctl bench cycle --rate 200 --duration 1s --compare base.json --fail-if 'p50>2s'"),
            Example::new("How long does a round trip take?", "bsctl ping --count 3 --interval 100ms"),
        ],
    },
];
