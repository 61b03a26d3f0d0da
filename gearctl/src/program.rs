//! What this tool is called, and what its help says.

use ctl_core::cli;
use ctl_core::error::Exit;
use ctl_core::link::Link as _;
use ctl_core::program::{CommonHelp, Program, QueueKey, Servers};
use ctl_core::serve::Service;
use ctl_core::tls::TlsNames;

use crate::link::Link;
use crate::names;
use crate::tool::Gearctl;

/// What the tool is called and how its commands are grouped.
pub const PROGRAM: Program = Program {
    name: "gearctl",
    prefix: "GEARCTL",
    version: env!("CARGO_PKG_VERSION"),
    about: "Talk to Gearman job servers: submit jobs, look at them, administer servers",
    tree: cli::tree::<Gearctl>,
    groups: &[
        ("Submit", &["run", "submit", "map"]),
        ("Work", &["work"]),
        ("Jobs", &["job", "jobs", "unique-jobs", "peek", "cancel"]),
        ("Functions and workers", &["functions", "function", "workers"]),
        ("Bulk", &["drain", "move", "export", "import"]),
        (
            "Observe",
            &[
                "top", "smoke", "check", "wait", "ping", "latency", "watch", "exporter", "tap",
                "web", "bench",
            ],
        ),
        ("Server", &["server", "version", "pid", "verbose", "shutdown"]),
        ("Tool", &["repl", "raw", "serve", "context", "config", "doctor", "completions", "man"]),
    ],
    environment: &[
        (
            "GEARCTL_SERVER",
            "server addresses, when -s is not given; then GEARMAN_SERVER, GEARMAN_SERVERS",
        ),
        (
            "GEARMAND_CA_CERTIFICATE, GEARMAN_CLIENT_PEM, GEARMAN_CLIENT_KEY",
            "files for TLS, as --tls-ca, --tls-cert, --tls-key",
        ),
        ("GEARCTL_TLS_CRL", "as --tls-crl"),
        ("GEARCTL_CONFIG, GEARCTL_CONTEXT", "as --config, --context"),
        ("GEARCTL_TIMEOUT", "as --timeout"),
        ("GEARCTL_OUTPUT", "as --output"),
        ("GEARCTL_LOG", "what is logged, as RUST_LOG: debug, or gearctl::protocol=trace"),
        ("GEARCTL_LOG_FORMAT", "how lines on stderr are written: text or json"),
        ("GEARCTL_HISTFILE", "history of the REPL; empty or /dev/null for none"),
        ("GEARCTL_PAGER, PAGER", "pager of the REPL [default: less]"),
        ("VISUAL, EDITOR", "editor of the REPL [default: vi]"),
        ("NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "colours, when --color is not given"),
    ],
    servers: Servers {
        flag: "--server",
        short: "-s",
        variables: &["GEARCTL_SERVER", "GEARMAN_SERVER", "GEARMAN_SERVERS"],
        default: "127.0.0.1:4730",
        forms: "host, host:port, [::1]:4730, unix:/path; several with commas",
        check: |text| Link::parse(text).map(drop),
        transports: &[],
    },
    queue: QueueKey { key: "function", check: |text| names::function(text).map(drop) },
    tls: TlsNames {
        scheme: "gearmans",
        authorities: "GEARMAND_CA_CERTIFICATE",
        revocations: "GEARCTL_TLS_CRL",
        certificate: "GEARMAN_CLIENT_PEM",
        key: "GEARMAN_CLIENT_KEY",
    },
    service: Service { name: "gearmand", port: 4730, schemes: &["tcp://", "gearman://"] },
    seed: &["import"],
    help: CommonHelp {
        ping: ("ECHO_REQ, or GET_STATUS where that is unanswered", PING),
        watch: ("'queued==0'", WATCH),
        repl: ("Work in a session: connections that last, completion, history, scripts", REPL),
        strict: ("strict-jobs", "Exit 1 when a script ends while foreground jobs are under way"),
        serve: SERVE,
    },
    meanings: &[(Exit::Negative, "a failed job"), (Exit::TryAgain, "a full queue")],
    colors: &[],
};

const PING: &str = "\
Protocol: ECHO_REQ; the answer must be the bytes that were sent. A server that leaves it unanswered for half of the time,
as geard does, is asked with GET_STATUS; `packet` in JSON says which of them was answered.
Connecting and answering are bounded by 2 s each unless --timeout says otherwise.";

const WATCH: &str = "  \
  gearctl watch -- functions 'mail*'
  gearctl watch -i 500ms --until 'queued==0' -- functions mail
  gearctl watch -c 10 -o ndjson -- workers";

const REPL: &str = "\
The commands are those of the command line, and some that need a session: start, fg, :jobs, attach. Type help in it.
Ctrl-C during run leaves the job to itself: fg brings it back. Foreground jobs need their client: leaving the session
asks what becomes of them.

A script (stdin, -f, -e) stops at the first error with that error's exit code. # starts a comment, <<END takes the
lines up to END as a workload, `expect 'workers>=1' functions mail` fails with exit 1 unless it is so, ${NAME} is what
--var says. For a person, results that are higher than the screen go to the pager, and \\e opens the editor. !CMD runs a
line of the shell, CMD | SHELL COMMAND feeds one, CMD > FILE and CMD >> FILE write files; :watch and `3 CMD` repeat a
command, CMD \\G shows a line for every value. A person's sessions begin with the commands in ~/.config/gearctl/replrc.

Examples:
  gearctl repl
  gearctl repl -e 'submit mail \"a letter\"' -e 'functions'
  gearctl -s one:4730,two:4730 repl -f test.script --var function=mail";

const SERVE: &str = "\
An in-memory gearmand: nothing is stored, and everything is gone when it ends. It listens on this machine only
unless --allow-remote is given, because it has no authentication. Its usual port is 4730. Its limits: 1024
connections, 65,536 functions, 1,000,000 jobs, 1 GiB of workloads, 64 MiB per packet. Connections that never sent
anything make room for others.
With a command, the server lives as long as the command; GEARCTL_SERVER, GEARMAN_SERVER and GEARMAN_SERVERS tell it
the address, and its exit code becomes this one's.

--fail scripts faults as [VERB:]WHEN:ACTION,..: WHEN is nth=K, every=K, drawn=SEED/K or always; ACTION is a reply in
capitals, reply=TEXT, delay=5ms, chunk=N, cut=N, reset=N, hang, duplicate, executed or unexecuted. Requests are counted from
the start.
--seed-file submits records (see `import`) before anything else happens.

Examples:
  gearctl serve --seed-file jobs.ndjson --port 0 --print-addr
  gearctl serve --latency 5ms --fail 'SUBMIT_JOB_BG:every=10:hang' --record requests.ndjson
  gearctl serve --port 4730
  gearctl serve --listen 127.0.0.1:0 --print-addr --ready-file /tmp/ready --exit-with-parent
  gearctl serve -- cargo test";
