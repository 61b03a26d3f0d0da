//! Cheat sheets for `examples`. A test runs every line against an in-memory server.

use ctl_core::program::sheet::{Example, Sheet};

/// The sheets.
pub const SHEETS: &[Sheet] = &[
    Sheet {
        topic: "run",
        about: "Run jobs and get their results",
        examples: &[
            Example::new(
                "In another terminal: serve the function upper",
                "gearctl work -f upper -- tr a-z A-Z",
            )
            .until_stopped(),
            Example::new("Run a job and print its result", "gearctl run upper hello"),
            Example::new("Run it on the contents of a file", "gearctl run upper @letter.txt"),
            Example::new("Run it on the output of a program", "date | gearctl run upper -"),
            Example::new(
                "One job per line, four at a time, results in order",
                "gearctl run upper --lines -j 4 --ordered < names.txt",
            ),
            Example::new(
                "The same with an object for each result",
                "gearctl map upper -j 4 -o ndjson < names.txt",
            ),
            Example::new(
                "Give up after a second, as nobody serves the function",
                "gearctl run nobody hello --timeout 1s",
            )
            .exits(124),
        ],
    },
    Sheet {
        topic: "submit",
        about: "Submit background jobs",
        examples: &[
            Example::new("Submit a job and print its handle", "gearctl submit mail hello"),
            Example::new(
                "Urgent, and only once while it is queued",
                "gearctl submit mail --priority high -u order-4711 hello",
            ),
            Example::new("One job per line", "gearctl submit mail --lines < names.txt"),
            Example::new("In an hour", "gearctl submit report --in 1h now"),
            Example::new(
                "Is the job with this unique id queued or running?",
                "gearctl job --unique order-4711",
            ),
            Example::new(
                "Cancel everything that is queued",
                "gearctl jobs -o id | gearctl cancel -",
            ),
        ],
    },
    Sheet {
        topic: "work",
        about: "Serve functions: run a command for every job",
        examples: &[
            Example::new(
                "A worker: the command reads the workload and prints the result",
                "gearctl work -f count -- wc -c",
            )
            .until_stopped(),
            Example::new(
                "Several functions, four jobs at a time",
                "gearctl work -f resize -f rotate -j 4 -- ./send {function}",
            )
            .until_stopped(),
            Example::new("Jobs to work on", "gearctl submit mail --lines < names.txt"),
            Example::new(
                "Two jobs, with a shell pipeline",
                "gearctl work -f mail --max-jobs 2 --shell 'tr a-z A-Z | ./send'",
            ),
            Example::new(
                "Until no job has arrived for a second, with each job logged as JSON",
                "gearctl work -f mail --max-idle 1s --log-jobs ndjson -- ./send",
            ),
            Example::new(
                "A worker without a program, for tests",
                "gearctl work -f echo --builtin echo",
            )
            .until_stopped(),
            Example::new("Does it answer?", "gearctl run echo hello"),
        ],
    },
    Sheet {
        topic: "inspect",
        about: "Look around, without changing anything",
        examples: &[
            Example::new("Jobs to look at", "gearctl submit mail --lines < names.txt"),
            Example::new("All functions, their jobs and workers", "gearctl functions"),
            Example::new(
                "Functions whose names match, with jobs by priority",
                "gearctl functions 'mail*' -o wide",
            ),
            Example::new("Changes per second", "gearctl functions --rates"),
            Example::new("All jobs", "gearctl jobs"),
            Example::new("Their unique ids", "gearctl unique-jobs"),
            Example::new("Who is connected, and for which functions?", "gearctl workers"),
            Example::new("Who serves this function?", "gearctl workers --function mail"),
            Example::new("Version and features of the server", "gearctl server"),
        ],
    },
    Sheet {
        topic: "bulk",
        about: "Save, remove and move queued jobs",
        examples: &[
            Example::new("Jobs to move", "gearctl submit mail --lines < names.txt"),
            Example::new("How many would be removed?", "gearctl clear mail --dry-run"),
            Example::new(
                "Write the jobs to a file, and remove them",
                "gearctl drain mail --to mail.ndjson --yes",
            ),
            Example::new(
                "Submit them again, after other jobs",
                "gearctl import mail.ndjson --priority low",
            ),
            Example::new(
                "Move them to another function",
                "gearctl move --from mail --to mail-slow --yes",
            ),
            Example::new(
                "Show the next job; the server may drop it because of that",
                "gearctl peek mail-slow --yes",
            ),
            Example::new("Remove all jobs of a function", "gearctl clear mail-slow --yes"),
            Example::new(
                "Allow 1000 queued jobs of a function",
                "gearctl function create mail && gearctl function maxqueue mail 1000",
            ),
            Example::new("Forget a function", "gearctl function drop mail"),
        ],
    },
    Sheet {
        topic: "servers",
        about: "Several servers",
        examples: &[
            Example::new(
                "Submit to both; one that is down is skipped",
                "gearctl -s queue1,queue2 submit mail --lines < names.txt",
            ),
            Example::new("The functions of all servers", "gearctl -s queue1,queue2 functions"),
            Example::new("One worker for both", "gearctl -s queue1,queue2 work -f sms -- ./send")
                .until_stopped(),
            Example::new(
                "Move the jobs of a function from one to the other",
                "gearctl -s queue1 move --from mail --to-server queue2 --yes",
            ),
            Example::new(
                "The same with a pipe",
                "gearctl -s queue2 drain mail --yes | gearctl -s queue1 import -",
            ),
            Example::new(
                "A name for servers and their settings",
                "gearctl context add prod -s queue1,queue2 timeout=5s",
            ),
            Example::new("Use it once", "gearctl --context prod ping"),
            Example::new("Use it from now on", "gearctl context select prod"),
            Example::new("Where does each setting come from?", "gearctl context show"),
            Example::new("Is everything as it should be?", "gearctl doctor"),
        ],
    },
    Sheet {
        topic: "ci",
        about: "In CI: a server for tests, and checks that fail a build",
        examples: &[
            Example::new(
                "A server for one command, which finds it in GEARCTL_SERVER",
                "gearctl serve -- ./test.sh",
            ),
            Example::new("Wait until a server answers", "gearctl wait --for server --timeout 30s"),
            Example::new("Does the round trip of a job through a worker work?", "gearctl smoke"),
            Example::new("The same with nothing but this program", "gearctl --embedded smoke"),
            Example::new(
                "Wait for workers, but only briefly",
                "gearctl wait --for 'workers>=1' -f mail --timeout 1s",
            )
            .exits(124),
            Example::new(
                "Fail unless the function has no jobs",
                "gearctl repl -e \"expect 'count==0' functions mail\"",
            ),
            Example::new(
                "Fail if jobs pile up",
                "gearctl check functions '*' -c queued=10 --format junit > report.xml",
            ),
        ],
    },
    Sheet {
        topic: "serve",
        about: "Run the in-memory server",
        examples: &[
            Example::new("On a port of your choice", "gearctl serve --port 4730").until_stopped(),
            Example::new(
                "Answers take 5 ms, and every tenth submission gets none",
                "gearctl serve --port 4730 --latency 5ms --fail 'SUBMIT_JOB_BG:every=10:hang'",
            )
            .until_stopped(),
            Example::new(
                "For a command, which finds it in GEARCTL_SERVER",
                "gearctl serve -- ./test.sh",
            ),
            Example::new("For one command of this tool", "gearctl --embedded submit mail hello"),
            Example::new(
                "For a session",
                "gearctl --embedded repl -e 'submit mail hello' -e functions",
            ),
        ],
    },
    Sheet {
        topic: "monitor",
        about: "Monitor servers",
        examples: &[
            Example::new("A job that nobody takes", "gearctl submit mail hello"),
            Example::new("A live view; in a pipe, one snapshot", "gearctl top").until_stopped(),
            Example::new("A web page", "gearctl web --listen 127.0.0.1:8030").until_stopped(),
            Example::new(
                "Metrics for Prometheus, on /metrics",
                "gearctl exporter --listen 127.0.0.1:9419",
            )
            .until_stopped(),
            Example::new("Metrics for the node exporter", "gearctl exporter --once > gearman.prom"),
            Example::new(
                "A monitoring plugin: no workers are critical",
                "gearctl check function mail -w queued=100 -c queued=1000",
            )
            .exits(2),
            Example::new("In the other terminal: a worker", "gearctl work -f echo --builtin echo")
                .until_stopped(),
            Example::new(
                "Do workers answer, and correctly?",
                "gearctl check roundtrip echo --send ping --expect ping -c rtt=5s --timeout 10s",
            ),
            Example::new(
                "Follow the changing counts of a function",
                "gearctl watch -i 1s -c 2 --diff -- functions mail",
            ),
            Example::new(
                "How long do round trips take?",
                "gearctl latency -i 10ms --every 1s -c 2",
            ),
        ],
    },
    Sheet {
        topic: "repl",
        about: "Work in a session",
        examples: &[
            Example::new("Start one; help lists what can be typed", "gearctl repl"),
            Example::new("Try everything with a server of its own", "gearctl --embedded repl"),
            Example::new(
                "Run lines from a shell",
                "gearctl repl -e 'submit mail hello' -e functions",
            ),
            Example::new(
                "A script: it stops at the first failure, with its exit code",
                "gearctl repl --var function=sms <<'END'\nsubmit ${function} <<LETTER\nDear Joe,\nall is well.\nLETTER\nexpect 'total==1' functions ${function}\nEND",
            ),
            Example::new(
                "Go on after failures",
                "gearctl repl --keep-going -e 'job H:none:1' -e functions",
            )
            .exits(3),
        ],
    },
    Sheet {
        topic: "tap",
        about: "Show the traffic between applications and their server",
        examples: &[
            Example::new(
                "Relay to the server, show packets, and record them",
                "gearctl tap --listen 127.0.0.1:4731 --record session.txt",
            )
            .until_stopped(),
            Example::new(
                "Have the application connect to it",
                "gearctl -s 127.0.0.1:4731 submit mail hello",
            ),
            Example::new(
                "Only what took longer than 50 ms, as JSON",
                "gearctl tap --listen 127.0.0.1:4732 --slow 50ms -o ndjson",
            )
            .until_stopped(),
            Example::new(
                "Only results, with more of their bytes",
                "gearctl tap --listen 127.0.0.1:4733 --filter 'verb==WORK_COMPLETE' --body 200",
            )
            .until_stopped(),
            Example::new(
                "What would be played back?",
                "gearctl tap --replay session.txt --dry-run",
            ),
            Example::new(
                "Play a recording back to a server of its own",
                "gearctl --embedded tap --replay session.txt",
            ),
        ],
    },
    Sheet {
        topic: "bench",
        about: "Measure a server",
        examples: &[
            Example::new(
                "Four clients submit jobs for a second",
                "gearctl bench submit -j 4 --duration 1s",
            ),
            Example::new(
                "Jobs and their results at a fixed rate, kept for comparison",
                "gearctl bench roundtrip --rate 200 --duration 1s -o json > base.json",
            ),
            Example::new(
                "Compare, and fail if half of them take longer than 2 s",
                "gearctl bench roundtrip --rate 200 --duration 1s --compare base.json --fail-if 'p50>2s'",
            ),
            Example::new(
                "How long does a round trip take?",
                "gearctl ping --count 3 --interval 100ms",
            ),
        ],
    },
];
