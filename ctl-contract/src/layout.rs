//! Layout on terminals of 60, 80 and 120 columns.

use ctl_core::context::Tool;
use unicode_width::UnicodeWidthStr;

use crate::Case;
use crate::program::SETTINGS;
use crate::session::repl;
use crate::terminal::Terminal;

/// Common widths.
const WIDTHS: [usize; 3] = [60, 80, 120];

/// Names that a table has to break, if it breaks any.
const NAMES: [&str; 2] = ["a-rather-long-name-of-a-queue-1", "a-rather-long-name-of-a-queue-2"];

/// Runs a command on a terminal of this width, to its end.
fn shown<T: Tool>(case: &Case<T>, address: &str, width: usize, words: &[&str]) -> String {
    let variables = [("NO_COLOR", "1")];
    let mut terminal = Terminal::sized(&case.program, address, &variables, width, words);
    let _ = terminal.ends();
    seen(&terminal)
}

/// The terminal's output as text: it has one character for each byte.
fn seen(terminal: &Terminal) -> String {
    let bytes: Vec<u8> = terminal.shown.chars().filter_map(|c| u8::try_from(c).ok()).collect();
    String::from_utf8(bytes).unwrap().replace('\r', "")
}

#[track_caller]
fn fits(text: &str, width: usize, words: &[&str]) {
    for line in text.lines() {
        assert!(line.width() <= width, "{words:?} at {width}: {line:?} in\n{text}");
    }
}

fn filled<T: Tool>(case: &Case<T>, address: &str) {
    for name in NAMES {
        case.run(address, case.add_to, &[name, "body"]).exits(0);
    }
}

/// Whether a text has this name, or both of its ends.
fn names(text: &str, name: &str) -> bool {
    text.split_whitespace().any(|word| match word.split_once('…') {
        Some((start, end)) => !end.is_empty() && name.starts_with(start) && name.ends_with(end),
        None => word == name,
    })
}

/// A pipe gets everything in full. Long names are cut before a figure of the usual table is dropped.
pub fn tables_fit_the_terminal_and_list_hidden_columns<T: Tool>(case: &Case<T>) {
    let ((_one, first), (_other, second)) = (Case::<T>::server(), Case::<T>::server());
    filled(case, &first);
    let both = format!("{first},{second}");
    let lines: [(&str, &[&str]); 4] = [
        (&first, &[case.list, "-o", "wide"]),
        (&both, &[case.list]),
        (&first, &["top", "-c", "1"]),
        (&both, &["top", "-c", "1"]),
    ];
    for (servers, words) in lines {
        for width in WIDTHS {
            let text = shown(case, servers, width, words);
            fits(&text, width, words);
            for name in NAMES {
                assert!(names(&text, name), "{words:?} at {width}: no {name} in\n{text}");
            }
            if words == [case.list] {
                assert!(!text.contains("no room for"), "{words:?} at {width}:\n{text}");
            }
            if servers == both {
                assert!(text.contains(&first), "{words:?} at {width}:\n{text}");
            }
        }
        let piped = case.program.at(servers, words).exits(0);
        assert!(!piped.err.contains("no room for"), "{}", piped.err);
        assert!(!piped.out().contains('…'), "{}", piped.out());
    }
    let text = shown(case, &both, 60, &["top", "-c", "1"]);
    assert!(text.contains("no room for "), "{text}");
    // Columns that were asked for are kept.
    let chosen = ["top", "-c", "1", "--columns", "server,queue,problem"];
    let text = shown(case, &both, 60, &chosen);
    fits(&text, 60, &chosen);
    assert!(text.contains("PROBLEM") && !text.contains("no room for"), "{text}");
}

/// Help texts break only between words.
pub fn help_wraps_between_words<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let lines: [&[&str]; 4] = [&[], &["--help"], &["repl", "--help"], &["repl", "-e", "help"]];
    for words in lines {
        let wide = shown(case, &address, 400, words);
        let all: Vec<&str> = wide.split_whitespace().collect();
        for width in WIDTHS {
            let text = shown(case, &address, width, words);
            fits(&text, width, words);
            let here: Vec<&str> = text.split_whitespace().collect();
            let other = here.iter().zip(&all).find(|(here, all)| here != all);
            assert_eq!(other, None, "{words:?} at {width}:\n{text}");
            assert_eq!(here.len(), all.len(), "{words:?} at {width}");
        }
    }
}

/// Wrong lines, too.
pub fn usage_errors_wrap_between_words<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let words = [case.list, "--a-flag-that-no-command-of-any-tool-has"];
    for width in WIDTHS {
        let text = shown(case, &address, width, &words);
        fits(&text, width, &words);
        assert!(text.contains("'--a-flag-that-no-command-of-any-tool-has'"), "{text}");
    }
    // The verdict of a check states the problem.
    let text = shown(case, &address, 120, &["check", "server", "--a-flag-that-none-has"]);
    assert_eq!(text.matches("unexpected argument").count(), 1, "{text}");
}

/// Findings are sentences, too wide for a table.
pub fn doctor_uses_blocks_on_a_narrow_terminal<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    for width in WIDTHS {
        let text = shown(case, &address, width, &["doctor"]);
        // A path is one word, as long as the checkout's folder makes it.
        fits(&text.replace(SETTINGS, "settings"), width, &["doctor"]);
        assert!(text.contains(&address), "{text}");
        assert_eq!(text.contains("status:"), width < 100, "{text}");
    }
}

/// What has to be typed stays visible, and a question breaks between words.
pub fn questions_wrap_between_words<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    filled(case, &address);
    let words = ["clear", NAMES[0]];
    let mut terminal = Terminal::sized(&case.program, &address, &[("NO_COLOR", "1")], 60, &words);
    terminal.sees("[y/N]");
    terminal.types("n\r");
    assert_eq!(terminal.ends(), 1);
    // The answer, which these terminals do not echo, ends the line.
    let text = seen(&terminal).replace("[y/N] ", "[y/N]\n");
    fits(&text, 60, &words);
    assert!(text.contains(NAMES[0]), "{text}");
}

/// Enter alone is a no, and so is Ctrl-D, which leaves the cursor after the question.
pub fn questions_without_an_answer_decline<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    filled(case, &address);
    let jobs = (case.jobs)(&server);
    for (answer, said) in [("\r", "error: DECLINED"), ("\u{4}", "\r\nerror: DECLINED")] {
        let words = ["clear", NAMES[0]];
        let mut terminal = Terminal::run(&case.program, &address, &[("NO_COLOR", "1")], &words);
        terminal.sees("[y/N] ");
        terminal.types(answer);
        terminal.sees(said);
        assert_eq!((terminal.ends(), (case.jobs)(&server)), (1, jobs), "{}", terminal.shown);
    }
}

/// Output after `^C` starts on a new line.
pub fn output_after_ctrl_c_starts_a_new_line<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let words = ["ping", "--count", "1000", "--interval", "100ms"];
    let mut terminal = Terminal::sized(&case.program, &address, &[("NO_COLOR", "1")], 80, &words);
    terminal.sees(&address);
    terminal.types("\u{3}");
    assert_eq!(terminal.ends(), 130);
    let text = seen(&terminal);
    // These terminals do not echo ^C, but its line is ended all the same.
    let (_, after) = text.split_once("\n\n").unwrap_or_else(|| panic!("{text}"));
    assert!(after.starts_with(&address), "{text}");
    let words = [case.list, "-i", "1h"];
    let mut terminal = Terminal::sized(&case.program, &address, &[("NO_COLOR", "1")], 80, &words);
    terminal.sees("every 1h: ");
    terminal.types("\u{3}");
    assert_eq!(terminal.ends(), 130);
    assert!(seen(&terminal).ends_with("\n\n"), "{:?}", terminal.shown);
    // A command that says nothing at its end.
    let words = ["web", "--listen", "127.0.0.1:0"];
    let mut terminal = Terminal::sized(&case.program, &address, &[("NO_COLOR", "1")], 80, &words);
    terminal.sees("a page on ");
    terminal.sees("\n");
    terminal.types("\u{3}");
    assert_eq!(terminal.ends(), 130);
    assert!(seen(&terminal).ends_with("\n\n"), "{:?}", terminal.shown);
}

/// Names with the same problem are grouped, in lines that fit.
pub fn check_groups_problems_by_reason<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let script: String = (10..22).map(|at| format!("{} team-{at} x\n", case.add_to)).collect();
    repl(&case.program, &address, &[], script).exits(0);
    let what = format!("{}s", case.noun);
    let words = ["check", &*what, "*team-*"];
    let ran = case.program.at(&address, &words).exits(2);
    let first = ran.lines()[0];
    assert!(first.contains(&format!(" CRITICAL - 12 of 12 {what} critical: ")), "{first}");
    assert_eq!(first.matches("but no workers").count(), 1, "{first}");
    assert!(first.contains(" and 2 more"), "{first}");
    for width in WIDTHS {
        fits(&shown(case, &address, width, &words), width, &words);
    }
}

/// Asks one question about all servers, with what it is about. Nothing changes before the answer, or after a no.
pub fn asks_once_for_several_servers<T: Tool>(case: &Case<T>) {
    let ((one, first), (other, second)) = (Case::<T>::server(), Case::<T>::server());
    filled(case, &first);
    filled(case, &second);
    let both = format!("{first},{second}");
    let ask = |answer: &str| {
        let words = ["clear", NAMES[0]];
        let mut terminal = Terminal::sized(&case.program, &both, &[("NO_COLOR", "1")], 120, &words);
        terminal.sees("[y/N]");
        let question = seen(&terminal);
        terminal.types(&format!("{answer}\r"));
        let code = terminal.ends();
        (question, code, seen(&terminal))
    };
    let jobs = || (case.jobs)(&one) + (case.jobs)(&other);
    let before = jobs();
    let (question, code, _) = ask("n");
    assert_eq!((code, jobs()), (1, before), "{question}");
    assert!(question.contains(&first) && question.contains(&second), "{question}");
    // A worker for all servers knows what each has.
    let each = question.matches("1 job of ").count();
    assert!(question.contains(" 2 in all: ") || each == 2, "{question}");
    let (_, code, said) = ask("y");
    assert_eq!((code, jobs()), (0, before - 2), "{said}");
    assert_eq!(said.matches("[y/N]").count(), 1, "{said}");
    // Without a terminal, the error names the flag, and nothing changes anywhere.
    let ran = case.program.at(&both, &["clear", NAMES[1]]).exits(2);
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    assert_eq!(jobs(), before - 2);
    case.program.at(&both, &["clear", NAMES[1], "--yes"]).exits(0);
    assert_eq!(jobs(), before - 4);
}
