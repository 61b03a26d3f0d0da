//! Cheat sheets for `examples`. A test runs every line against an in-memory server.

use ctl_core::program::sheet::{Example, Sheet};

/// The sheets.
pub const SHEETS: &[Sheet] = &[
    Sheet {
        topic: "push",
        about: "Push messages",
        examples: &[
            Example::new("Create a queue", "adfctl queue create /mail"),
            Example::new("Push a message and print its id", "adfctl push /mail hello"),
            Example::new(
                "The same, and create the queue if it is missing",
                "adfctl push /sms --create hello",
            ),
            Example::new(
                "Push a message in front of the others",
                "adfctl push /mail --left urgent",
            ),
            Example::new("Push the contents of a file", "adfctl push /mail @letter.txt"),
            Example::new("Push the output of a program", "date | adfctl push /mail -"),
            Example::new("One message per line", "adfctl push /mail --lines < names.txt"),
            Example::new(
                "One message per file name, whatever is in the names",
                "find . -name '*.txt' -print0 | adfctl push /files --create -0",
            ),
        ],
    },
    Sheet {
        topic: "take",
        about: "Take messages",
        examples: &[
            Example::new("Messages to take", "adfctl push /mail --create --lines < names.txt"),
            Example::new(
                "Take one message: print its body, then delete it",
                "adfctl pop /mail -o raw",
            ),
            Example::new("Look at the next message, then give it back", "adfctl pull /mail"),
            Example::new(
                "Delete it if a command succeeds, else give it back",
                "adfctl pull /mail --exec ./send",
            ),
            Example::new(
                "Take up to 100 messages, each into a file",
                "adfctl pop /mail -c 100 --dump letters",
            ),
            Example::new("There is none", "adfctl pop /mail").exits(1),
            Example::new("Wait for a message, but only briefly", "adfctl pop /mail --wait 1s")
                .exits(124),
        ],
    },
    Sheet {
        topic: "work",
        about: "Run a command for every message",
        examples: &[
            Example::new(
                "Messages to work on",
                "adfctl push /mail --create --lines < names.txt && adfctl queue create /sms",
            ),
            Example::new(
                "A worker: the command reads the body, and its exit code decides",
                "adfctl work -Q /sms -- ./send {id}",
            )
            .until_stopped(),
            Example::new(
                "Four messages at a time, until the queue is empty",
                "adfctl work -Q /mail -j 4 --exit-when-empty -- ./send {id}",
            ),
            Example::new(
                "One message that fails",
                "adfctl push /mail hello && adfctl queue create /dead",
            ),
            Example::new(
                "Move failed messages to another queue, and log each outcome as JSON",
                "adfctl work -Q /mail --max-duplications 1 --dead-letter /dead --max-jobs 1 --log-jobs ndjson -- false",
            ),
            Example::new(
                "A shell pipeline, at most a minute for each message",
                "adfctl work -Q /dead --max-runtime 1m --exit-when-empty --shell 'tr a-z A-Z | ./send'",
            ),
            Example::new(
                "Stop when no message has arrived for a second",
                "adfctl work -Q /mail --max-idle 1s -- ./send",
            ),
        ],
    },
    Sheet {
        topic: "inspect",
        about: "Look around",
        examples: &[
            Example::new("Messages to look at", "adfctl push /mail --create --lines < names.txt"),
            Example::new("All queues and their messages", "adfctl queues"),
            Example::new("Queues whose names match", "adfctl queues '/mail*'"),
            Example::new("Changes per second", "adfctl queues --rates"),
            Example::new("How many messages are ready?", "adfctl count /mail"),
            Example::new("Read the messages, and leave them there", "adfctl export /mail"),
            Example::new("Those that fit", "adfctl export /mail --filter 'body~=^a'"),
        ],
    },
    Sheet {
        topic: "bulk",
        about: "Save, delete and move many messages",
        examples: &[
            Example::new("Messages to move", "adfctl push /mail --create --lines < names.txt"),
            Example::new(
                "Save the messages of a queue, and leave them there",
                "adfctl export /mail > mail.ndjson",
            ),
            Example::new(
                "Push saved messages into another queue",
                "adfctl import mail.ndjson --queue /mail-copy --create",
            ),
            Example::new(
                "Move messages to another queue",
                "adfctl move --from /mail-copy --to /mail-old --create --yes",
            ),
            Example::new(
                "Copy those that match",
                "adfctl copy --from /mail --to /mail-old --filter 'body~=^b'",
            ),
            Example::new(
                "Write messages to a file, and delete them",
                "adfctl drain /mail-old --to old.ndjson --yes",
            ),
            Example::new("How many would be deleted?", "adfctl clear /mail --dry-run"),
            Example::new("Delete all messages of a queue", "adfctl clear /mail --yes"),
            Example::new("Delete the queue", "adfctl queue delete /mail --yes"),
        ],
    },
    Sheet {
        topic: "http",
        about: "Over HTTP: pull now, settle later",
        examples: &[
            Example::new("A message", "adfctl push /mail --create hello"),
            Example::new(
                "Pull it; it stays pulled, and the request id is printed",
                "adfctl --transport http-bin pull /mail -o json",
            ),
            Example::new("Which pull holds it?", "adfctl queues -o json"),
            Example::new(
                "Pull, and put back at the right end by the request id",
                "adfctl push /mail again && id=$(adfctl --transport http-bin pull /mail -o ndjson --columns requestid | cut -d'\"' -f4) && adfctl --transport http-bin rcancel /mail \"$id\"",
            ),
        ],
    },
    Sheet {
        topic: "servers",
        about: "Several servers",
        examples: &[
            Example::new(
                "Push to both, in turn",
                "adfctl -s queue1,queue2 queue create /mail && adfctl -s queue1,queue2 push /mail --lines < names.txt",
            ),
            Example::new("The queues of all servers", "adfctl -s queue1,queue2 queues"),
            Example::new(
                "One worker for both",
                "adfctl -s queue1,queue2 work -Q /sms -j 2 -- ./send",
            )
            .until_stopped(),
            Example::new(
                "Move the messages of a queue from one to the other",
                "adfctl -s queue1 move --from /mail --to-server queue2 --yes",
            ),
            Example::new(
                "The same with a pipe",
                "adfctl -s queue2 drain /mail --yes | adfctl -s queue1 import -",
            ),
            Example::new(
                "A name for servers and their settings",
                "adfctl context add prod -s queue1,queue2 timeout=5s",
            ),
            Example::new("Use it once", "adfctl --context prod ping"),
            Example::new("Use it from now on", "adfctl context select prod"),
            Example::new("Where does each setting come from?", "adfctl context show"),
            Example::new("Is everything as it should be?", "adfctl doctor"),
        ],
    },
    Sheet {
        topic: "ci",
        about: "In CI: a server for tests, and checks that fail a build",
        examples: &[
            Example::new(
                "A server for one command, which finds it in ADFCTL_SERVER",
                "adfctl serve -- ./test.sh",
            ),
            Example::new(
                "The same with messages in it",
                "adfctl push /mail --create hello && adfctl export /mail > mail.ndjson && adfctl serve --seed-file mail.ndjson -- ./test.sh",
            ),
            Example::new("Wait until a server answers", "adfctl wait --for server --timeout 30s"),
            Example::new("Does the round trip of a message work?", "adfctl smoke"),
            Example::new("The same with nothing but this program", "adfctl --embedded smoke"),
            Example::new(
                "Fail unless exactly one message is ready",
                "adfctl repl -e \"expect 'ready==1' queues /mail\"",
            ),
            Example::new(
                "Fail if messages pile up",
                "adfctl check queues '*' -c ready=10 --zero-workers ok --format junit > report.xml",
            ),
            Example::new(
                "Wait until the workers are done, but only briefly",
                "adfctl wait --for empty /mail --timeout 1s",
            )
            .exits(124),
        ],
    },
    Sheet {
        topic: "serve",
        about: "Run the in-memory server",
        examples: &[
            Example::new("On a port of your choice", "adfctl serve --port 6230").until_stopped(),
            Example::new(
                "Answers take 5 ms, and every tenth push is refused",
                "adfctl serve --port 6230 --latency 5ms --fail 'rpush:every=10:reply=not today.'",
            )
            .until_stopped(),
            Example::new(
                "For a command, which finds it in ADFCTL_SERVER",
                "adfctl serve -- ./test.sh",
            ),
            Example::new(
                "For one command of this tool",
                "adfctl --embedded push /mail --create hello",
            ),
            Example::new(
                "For a session",
                "adfctl --embedded repl -e 'push /mail --create hello' -e queues",
            ),
        ],
    },
    Sheet {
        topic: "monitor",
        about: "Monitor servers",
        examples: &[
            Example::new("A message that nobody takes", "adfctl push /mail --create hello"),
            Example::new("A live view; in a pipe, one snapshot", "adfctl top").until_stopped(),
            Example::new("A web page", "adfctl web --listen 127.0.0.1:8030").until_stopped(),
            Example::new(
                "Metrics for Prometheus, on /metrics",
                "adfctl exporter --listen 127.0.0.1:9419",
            )
            .until_stopped(),
            Example::new("Metrics for the node exporter", "adfctl exporter --once > adfqueue.prom"),
            Example::new(
                "A monitoring plugin: no consumers are critical",
                "adfctl check queue /mail -w ready=100 -c ready=1000",
            )
            .exits(2),
            Example::new(
                "Does the server store and return messages?",
                "adfctl check roundtrip -c rtt=5s --timeout 10s",
            ),
            Example::new(
                "Follow the changing counts of a queue",
                "adfctl watch -i 1s -c 2 --diff -- queues /mail",
            ),
            Example::new("How long do round trips take?", "adfctl latency -i 10ms --every 1s -c 2"),
        ],
    },
    Sheet {
        topic: "repl",
        about: "Work in a session",
        examples: &[
            Example::new("Start one; help lists what can be typed", "adfctl repl"),
            Example::new("Try everything with a server of its own", "adfctl --embedded repl"),
            Example::new(
                "Run lines from a shell",
                "adfctl repl -e 'push /mail --create hello' -e 'pull /mail 0' -e rcancel",
            ),
            Example::new(
                "A script: it stops at the first failure, with its exit code",
                "adfctl repl --var queue=/sms <<'END'\npush ${queue} --create <<LETTER\nDear Joe,\nall is well.\nLETTER\nexpect 'ready==1' queues ${queue}\npull ${queue} 0\ndelete\nEND",
            ),
            Example::new(
                "Go on after failures",
                "adfctl repl --keep-going -e 'count /none' -e queues",
            )
            .exits(3),
        ],
    },
    Sheet {
        topic: "tap",
        about: "Show the traffic between applications and their server",
        examples: &[
            Example::new(
                "Relay to the server, show actions and replies, and record them",
                "adfctl tap --listen 127.0.0.1:6231 --record session.txt",
            )
            .until_stopped(),
            Example::new(
                "Have the application connect to it",
                "adfctl -s 127.0.0.1:6231 push /mail --create hello",
            ),
            Example::new(
                "Only what took longer than 50 ms, as JSON",
                "adfctl tap --listen 127.0.0.1:6232 --slow 50ms -o ndjson",
            )
            .until_stopped(),
            Example::new(
                "Only pushes, with more of their bodies",
                "adfctl tap --listen 127.0.0.1:6233 --filter 'verb==rpush' --body 200",
            )
            .until_stopped(),
            Example::new("What would be played back?", "adfctl tap --replay session.txt --dry-run"),
            Example::new(
                "Play a recording back to a server of its own",
                "adfctl --embedded tap --replay session.txt",
            ),
        ],
    },
    Sheet {
        topic: "bench",
        about: "Measure a server",
        examples: &[
            Example::new(
                "Four clients push messages for a second",
                "adfctl bench push -j 4 --duration 1s",
            ),
            Example::new(
                "Push, pull and delete at a fixed rate, kept for comparison",
                "adfctl bench cycle --rate 200 --duration 1s -o json > base.json",
            ),
            Example::new(
                "Compare, and fail if half of them take longer than 2 s",
                "adfctl bench cycle --rate 200 --duration 1s --compare base.json --fail-if 'p50>2s'",
            ),
            Example::new(
                "How long does a round trip take?",
                "adfctl ping --count 3 --interval 100ms",
            ),
        ],
    },
];
