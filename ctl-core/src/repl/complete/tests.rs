use clap::{Arg, ArgAction};

use super::*;
use crate::rules::filter::Kind;

struct Names;

impl Values for Names {
    fn values(&self, wanted: &Wanted<'_>) -> Vec<String> {
        match (wanted.value_name, wanted.verb) {
            ("TUBE", "ignore") => wanted.before.clone(),
            ("TUBE", _) => ["mail", "mailbox", "sms"].map(str::to_owned).to_vec(),
            ("ODD", _) => vec!["a b".to_owned(), "-x".to_owned()],
            _ => Vec::new(),
        }
    }

    fn filters(&self, _: &str) -> &'static [Field] {
        const {
            &[
                Field::new("pri", Kind::Whole),
                Field::new("state", Kind::Word(&["ready", "reserved"])),
            ]
        }
    }

    fn checks(&self) -> &'static [Measurable] {
        CHECKS
    }
}

const CHECKS: &[Measurable] = &[
    Measurable { what: "server", groups: &[("ms", &["rtt"])] },
    Measurable { what: "tube", groups: &[("", &["ready", "reserved"])] },
];

fn grammar() -> Command {
    let warning = Arg::new("warning").short('w').long("warning").value_name(thresholds::VALUE);
    let tube = || Arg::new("tube").short('t').long("tube").value_name("TUBE");
    let mut grammar = Command::new("t")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("put")
                .visible_alias("add")
                .disable_help_flag(true)
                .arg(tube())
                .arg(Arg::new("filter").long("filter").value_name(filter::VALUE))
                .arg(Arg::new("yes").short('y').long("yes").action(ArgAction::SetTrue))
                .arg(Arg::new("format").long("format").value_parser(["json", "text"]))
                .arg(Arg::new("body").value_name("BODY").num_args(0..)),
        )
        .subcommand(Command::new("pause").arg(Arg::new("t").value_name("TUBE")))
        .subcommand(Command::new("ignore").arg(Arg::new("t").value_name("TUBE").num_args(1..)))
        .subcommand(Command::new("odd").arg(Arg::new("o").value_name("ODD")))
        .subcommand(Command::new("load").arg(Arg::new("f").value_hint(ValueHint::FilePath)))
        .subcommand(Command::new("secret").hide(true))
        .subcommand(preset::grammar(("rush", "put --format text --yes")))
        .subcommand(preset::grammar(("resume", "pause ... 0")))
        .subcommand(
            Command::new("check")
                .arg(warning.global(true).action(ArgAction::Append))
                .subcommand(Command::new("server"))
                .subcommand(Command::new("tube").arg(Arg::new("t").value_name("TUBE"))),
        );
    grammar.build();
    grammar
}

fn at(text: &str) -> (usize, Vec<String>) {
    let (start, candidates) = complete(&grammar(), &Names, text);
    (start, candidates.into_iter().map(|c| c.replacement).collect())
}

#[test]
fn completes_thresholds_with_metrics() {
    assert_eq!(at("check tube x -w ").1, ["ready", "reserved"]);
    assert_eq!(at("check server --warning=rtt>").1, ["--warning=rtt>="]);
    assert_eq!(at("check -w r").1, ["ready", "reserved", "rtt"]);
    assert_eq!(at("check tube x -w read").1[..2], ["ready==", "ready!="]);
    assert_eq!(at("check tube x -w ready=1").1, [""; 0]);
}

/// An unfinished word has no blank after it, and no quote that would end it.
#[test]
fn completes_filters() {
    assert_eq!(at("put --filter s").1, ["state==", "state!=", "state~=", "state!~"]);
    assert_eq!(at("put --filter state==r").1, ["state==ready ", "state==reserved "]);
    assert_eq!(at("put --filter \"pri").1, ["pri==", "pri!=", "pri<", "pri<=", "pri>", "pri>="]);
    assert_eq!(at("put --filter=pri>").1, ["--filter=pri>="]);
    assert_eq!(at("put --filter pri<1").1, [""; 0]);
}

#[test]
fn completes_verbs_from_the_grammar() {
    assert_eq!(at("p"), (0, vec!["pause ".into(), "put ".into()]));
    assert_eq!(at("ad"), (0, vec!["add ".into()]));
    assert_eq!(at("").1.len(), 6, "hidden verbs and aliases stay out");
    assert_eq!(at("put x\npu"), (6, vec!["put ".into()]));
}

#[test]
fn completes_aliases_to_their_commands() {
    assert_eq!(at("r").1, ["resume ", "rush "]);
    assert_eq!(at("rush --").1, ["--filter ", "--tube "]);
    assert_eq!(at("rush -t m").1, ["mail ", "mailbox "]);
    assert_eq!(at("resume s").1, ["sms "]);
}

#[test]
fn completes_flags_not_given_yet() {
    assert_eq!(at("put --t"), (4, vec!["--tube ".into()]));
    assert_eq!(at("put -t mail -").1, ["--filter ", "--format ", "--yes "]);
    assert_eq!(at("put -y"), (4, vec!["-y ".into()]));
    assert_eq!(at("put -- -").1, [""; 0]);
}

#[test]
fn completes_values_from_the_tool_or_the_grammar() {
    assert_eq!(at("put -t ma"), (7, vec!["mail ".into(), "mailbox ".into()]));
    assert_eq!(at("put --tube=s"), (4, vec!["--tube=sms ".into()]));
    assert_eq!(at("put -yt s").1, ["sms "]);
    assert_eq!(at("put --format ").1, ["json ", "text "]);
    assert_eq!(at("pause s"), (6, vec!["sms ".into()]));
    assert_eq!(at("pause x sms ").1, [""; 0], "there is no second argument");
    assert_eq!(at("ignore a b ").1, ["a ", "b "], "the tool sees the words before");
}

#[test]
fn quotes_completed_names_when_needed() {
    assert_eq!(at("odd ").1, ["\"a b\" ", "\"-x\" "]);
    assert_eq!(at("odd \"a"), (5, vec!["a b".into()]));
}

#[test]
fn completes_files_after_an_at_sign_and_for_file_arguments() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("body.json"), "").unwrap();
    std::fs::write(folder.path().join("b c"), "").unwrap();
    std::fs::create_dir(folder.path().join("box")).unwrap();
    let path = folder.path().to_str().unwrap();
    let (start, found) = at(&format!("put @{path}/b"));
    assert_eq!(start, 4);
    let expected =
        [format!("@\"{path}/b c\" "), format!("@{path}/body.json "), format!("@{path}/box/")];
    assert_eq!(found, expected);
    assert_eq!(at(&format!("load {path}/bod")).1, [format!("{path}/body.json ")]);
}

#[test]
fn offers_nothing_after_an_unknown_verb_or_in_a_comment() {
    assert_eq!(at("nope x").1, [""; 0]);
    assert_eq!(at("# pu").1, [""; 0]);
    assert_eq!(at("!pau").1, [""; 0]);
}
