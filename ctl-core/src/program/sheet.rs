//! Cheat sheets in Markdown: command lines that can be copied, and how they end.
//!
//! A heading `## TOPIC: ABOUT` begins a sheet. Its code block is a shell script of paragraphs, each a comment and the
//! line that it explains.

/// Command lines about one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sheet {
    /// The word that `examples` takes.
    pub topic: &'static str,
    /// The purpose of the command lines.
    pub about: &'static str,
    script: &'static str,
}

/// A command line that can be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// What it does, without a full stop, and how it ends, where that is not a success.
    pub explained: &'static str,
    /// The line, for a POSIX shell.
    pub line: &'static str,
}

/// Ends the comment of a command that runs until interrupted.
const STOPPED: &str = " (until Ctrl-C)";

/// The sheets of a Markdown text.
pub fn sheets(markdown: &'static str) -> impl Iterator<Item = Sheet> {
    markdown.split("\n## ").skip(1).filter_map(|section| {
        let (heading, text) = section.split_once('\n')?;
        let (topic, about) = heading.split_once(": ")?;
        let (_, script) = text.split_once("```sh\n")?;
        let (script, _) = script.split_once("\n```")?;
        Some(Sheet { topic, about, script })
    })
}

impl Sheet {
    /// The command lines. They are run one after the other, so a later one may need what an earlier one did.
    pub fn examples(&self) -> impl Iterator<Item = Example> + use<> {
        self.script.split("\n\n").filter_map(|paragraph| {
            let (comment, line) = paragraph.split_once('\n')?;
            Some(Example { explained: comment.strip_prefix("# ")?, line })
        })
    }
}

impl Example {
    /// What it does.
    pub fn about(&self) -> &'static str {
        let text = self.explained;
        let bare = text.strip_suffix(STOPPED).or_else(|| Some(text.rsplit_once(CODE)?.0));
        bare.unwrap_or(text)
    }

    /// The exit code; none for a line that does not end by itself.
    pub fn exit(&self) -> Option<u8> {
        if self.explained.ends_with(STOPPED) {
            return None;
        }
        let code = self.explained.rsplit_once(CODE).and_then(|(_, code)| code.strip_suffix(')'));
        Some(code.and_then(|code| code.parse().ok()).unwrap_or(0))
    }
}

/// Precedes the exit code of a line that fails.
const CODE: &str = " (exit code ";

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Sheets\n\nText.\n\n## put: Put jobs\n\n```sh\n# Put one (or none)\ntool put x\n\n\
                        # There is none (exit code 1)\ntool pop <<END\nx\nEND\n```\n\n\
                        ## run: Run servers\n\n```sh\n# Serve (until Ctrl-C)\ntool serve\n```\n";

    #[test]
    fn a_code_block_below_a_heading_is_a_sheet() {
        let sheets: Vec<Sheet> = sheets(TEXT).collect();
        let headings: Vec<_> = sheets.iter().map(|sheet| (sheet.topic, sheet.about)).collect();
        assert_eq!(headings, [("put", "Put jobs"), ("run", "Run servers")]);
        let examples = sheets.iter().flat_map(Sheet::examples);
        let examples: Vec<_> = examples.map(|e| (e.about(), e.line, e.exit())).collect();
        assert_eq!(
            examples,
            [
                ("Put one (or none)", "tool put x", Some(0)),
                ("There is none", "tool pop <<END\nx\nEND", Some(1)),
                ("Serve", "tool serve", None),
            ]
        );
    }
}
