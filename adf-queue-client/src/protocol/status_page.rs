//! The status page: the server's only source for waiting pulls, pulled messages, and the list of queues.
//!
//! The page is meant for people, and does not escape names. A name ends at the first place where the rest of a row
//! could follow, so a name with tags is read whole, and so are the rows after it. Only a name that contains the whole
//! rest of a row is mistaken for that row, and its remainder for further ones.

use queue_core::decimal;

use crate::{Error, QueueName, Result};

/// Statistics of a server and its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Its version, such as `2.0.0`.
    pub version: String,
    /// Its host name.
    pub host: String,
    /// WebSocket connections; HTTP connections are not counted.
    pub connections: u64,
    /// The number of queues.
    pub queue_count: u64,
    /// Up to 100 of them, in no particular order.
    pub queues: Vec<QueueStats>,
}

/// The counts of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct QueueStats {
    /// Its name. On a server with an `initqueue.txt` it may be empty.
    pub name: String,
    /// Pulls waiting for a message, including those whose connection has ended.
    pub waiting: u64,
    /// Pulled messages that are neither deleted nor returned. Negative after deleting messages that were pulled before
    /// their queue was deleted and created again.
    pub pulled: i64,
    /// Ready messages.
    pub ready: u64,
}

impl Stats {
    /// Whether [`queues`](Self::queues) contains all queues of the server.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.queues.len() as u64 >= self.queue_count
    }

    /// Parses the page of all queues.
    ///
    /// # Errors
    ///
    /// `Protocol` for any other page, or when the server reports that it timed out listing its queues.
    pub fn parse(page: &[u8]) -> Result<Self> {
        let (mut stats, mut rest) = split(page)?;
        while let Some((queue, behind)) = row_start(rest).and_then(row) {
            stats.queues.push(queue);
            rest = behind;
        }
        if stats.queues.is_empty() {
            check_empty(rest)?;
        }
        Ok(stats)
    }
}

impl QueueStats {
    /// Parses the page of this queue; `None` when the server does not have it.
    ///
    /// # Errors
    ///
    /// As for [`Stats::parse`].
    pub fn parse(page: &[u8], queue: &QueueName) -> Result<Option<Self>> {
        let (_, table) = split(page)?;
        let mut rest = table;
        // The page repeats the requested name, but only its row has this around it.
        while let Some(start) = row_start(rest) {
            let name = queue.as_str();
            let found = start.strip_prefix(name.as_bytes()).and_then(counts);
            if let Some((counts, _)) = found {
                return Ok(Some(stats_of(name.to_owned(), counts)));
            }
            rest = start;
        }
        check_empty(table).map(|()| None)
    }
}

/// Splits off the server's statistics, which precede all names of queues.
fn split(page: &[u8]) -> Result<(Stats, &[u8])> {
    server(page)
        .ok_or_else(|| Error::protocol("the page is not the status page of an Adf.QueueServer"))
}

/// Replaces the rows when the server's own search took too long.
const TOO_LATE: &[u8] = b">search timeout.</td>";

/// Whether a page without rows is a valid answer. The requested name is repeated before the table, and never within it.
fn check_empty(page: &[u8]) -> Result<()> {
    let head = b"</thead>";
    let end = page.windows(head.len()).rposition(|part| part == head);
    match end.and_then(|end| behind(page.get(end..)?, TOO_LATE)) {
        Some(_) => Err(Error::protocol("the server could not read its queues in time: try again")),
        None => Ok(()),
    }
}

fn server(page: &[u8]) -> Option<(Stats, &[u8])> {
    let rest = behind(page, b"Adf.QueueServer</a>")?;
    let (version, rest) = until(rest.trim_ascii_start().strip_prefix(b"v")?, b" Via ")?;
    let (host, rest) = until(rest, b"\n")?;
    let (connections, rest) = count(behind(rest, b"Connection: <font color=\"green\">")?)?;
    let (queue_count, rest) = count(behind(rest, b" id=\"queuecount\">")?)?;
    let stats = Stats {
        version: text(version),
        host: text(host.trim_ascii_end()),
        connections: unsigned(connections),
        queue_count: unsigned(queue_count),
        queues: Vec::new(),
    };
    Some((stats, rest))
}

/// The rest of the page, from the next name.
fn row_start(mut page: &[u8]) -> Option<&[u8]> {
    loop {
        page = behind(page, b"<tbody>")?;
        let name = line_end(page)
            .and_then(|rest| line_end(rest.strip_prefix(b"<tr>")?))
            .and_then(|rest| rest.strip_prefix(b"<td align=\"left\">"));
        if name.is_some() {
            return name;
        }
    }
}

/// The row whose name begins here, and the rest.
fn row(start: &[u8]) -> Option<(QueueStats, &[u8])> {
    let mut at = 0;
    loop {
        at += position(start.get(at..)?, b"</td>")?;
        let (name, rest) = start.split_at_checked(at)?;
        if let Some((counts, rest)) = counts(rest) {
            return Some((stats_of(text(name), counts), rest));
        }
        at += 1;
    }
}

fn stats_of(name: String, [waiting, pulled, ready]: [i64; 3]) -> QueueStats {
    QueueStats { name, waiting: unsigned(waiting), pulled, ready: unsigned(ready) }
}

/// Parses a row after its name.
fn counts(rest: &[u8]) -> Option<([i64; 3], &[u8])> {
    let mut rest = line_end(rest.strip_prefix(b"</td>")?)?;
    let mut counts = [0; 3];
    for place in &mut counts {
        let (n, behind) = count(rest.strip_prefix(b"<td align=\"center\">")?)?;
        (*place, rest) = (n, line_end(behind.strip_prefix(b"</td>")?)?);
    }
    let rest = line_end(rest.strip_prefix(b"</tr>")?)?.strip_prefix(b"</tbody>")?;
    Some((counts, rest))
}

/// A number, and the rest.
fn count(rest: &[u8]) -> Option<(i64, &[u8])> {
    let (sign, digits) = rest.strip_prefix(b"-").map_or((1, rest), |digits| (-1, digits));
    let (digits, rest) = until(digits.get(..20).unwrap_or(digits), b"<")
        .and_then(|(number, _)| digits.split_at_checked(number.len()))?;
    Some((sign * i64::try_from(decimal(digits)?).ok()?, rest))
}

/// A count that no server reports as negative.
fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}

fn line_end(rest: &[u8]) -> Option<&[u8]> {
    rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n"))
}

fn position(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part == word)
}

fn behind<'t>(text: &'t [u8], word: &[u8]) -> Option<&'t [u8]> {
    until(text, word).map(|(_, rest)| rest)
}

fn until<'t>(text: &'t [u8], word: &[u8]) -> Option<(&'t [u8], &'t [u8])> {
    let (before, rest) = text.split_at_checked(position(text, word)?)?;
    Some((before, rest.get(word.len()..)?))
}

/// The server sends UTF-8; anything else is kept readable.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A page as sent by the server, from the queues, the requested name, and the line ends.
    fn page(queues: &[(&str, [i64; 3])], asked: &str, end: &str) -> Vec<u8> {
        let mut lines = vec![
            "<html>".to_owned(),
            "<title>Adf.QueueServer Via vm</title>".to_owned(),
            "Powered by <a href=\"http://www.aooshi.org/adf\">Adf.QueueServer</a> ".to_owned(),
            "v2.0.0 Via vm".to_owned(),
            " , Connection: <font color=\"green\">3</font>".to_owned(),
            format!(" , Queue: <font color=\"green\" id=\"queuecount\">{}</font>", queues.len()),
            format!("<input type=\"text\" value=\"{asked}\" name=\"queue\" />"),
            format!(" Search {asked} result"),
            "<table class=\"tb1\">".to_owned(),
            "<thead>".to_owned(),
            "<th width=\"160\">Wait</th>".to_owned(),
            "</thead>".to_owned(),
        ];
        for (name, counts) in queues {
            lines.extend(["<tbody>".to_owned(), "<tr>".to_owned()]);
            lines.push(format!("<td align=\"left\">{name}</td>"));
            lines.extend(counts.iter().map(|n| format!("<td align=\"center\">{n}</td>")));
            lines.extend(["</tr>".to_owned(), "</tbody>".to_owned()]);
        }
        lines.extend(["</table>".to_owned(), "</html>".to_owned(), String::new()]);
        lines.join(end).into_bytes()
    }

    fn queue(name: &str, waiting: u64, pulled: i64, ready: u64) -> QueueStats {
        QueueStats { name: name.into(), waiting, pulled, ready }
    }

    const ENDS: [&str; 2] = ["\n", "\r\n"];

    #[test]
    fn server_and_queues_are_read_whatever_lines_end_with() {
        for end in ENDS {
            let stats =
                Stats::parse(&page(&[("/q", [1, 2, 300]), ("/a b 队", [0, -4, 0])], "", end))
                    .unwrap();
            assert_eq!(stats.queues, [queue("/q", 1, 2, 300), queue("/a b 队", 0, -4, 0)]);
            assert_eq!((&*stats.version, &*stats.host), ("2.0.0", "vm"));
            assert_eq!((stats.connections, stats.queue_count), (3, 2));
            assert!(stats.is_complete());
            let more = Stats { queue_count: 3, ..stats };
            assert!(!more.is_complete(), "the page has the first hundred");
            assert_eq!(Stats::parse(&page(&[], "", end)).unwrap().queues, []);
        }
    }

    #[test]
    fn one_queue_is_found_by_its_whole_name() {
        for end in ENDS {
            let found = page(&[("/q", [0, 1, 2])], "/q", end);
            let named = |name: &str| QueueStats::parse(&found, &name.parse().unwrap()).unwrap();
            assert_eq!(named("/q"), Some(queue("/q", 0, 1, 2)));
            assert_eq!((named("/"), named("/q/new"), named("q")), (None, None, None));
            let missing = page(&[], "/q", end);
            assert_eq!(QueueStats::parse(&missing, &"/q".parse().unwrap()).unwrap(), None);
        }
    }

    #[test]
    fn a_name_with_tags_ends_where_the_rest_of_a_row_follows() {
        let whole = "x</td>\n<td align=\"center\">7</td>\n<td align=\"center\">7</td>";
        for name in [
            "</td>",
            "<td align=\"left\">",
            "</tr></tbody></table></html>",
            "<tbody>\n<tr>\n<td align=\"left\">/other",
            "</thead>search timeout.</td>",
            whole,
            "\n",
        ] {
            let rows = [("/a", [1, 2, 3]), (name, [4, 5, 6]), ("/z", [7, 8, 9])];
            let stats = Stats::parse(&page(&rows, "", "\n")).unwrap();
            let expected = [queue("/a", 1, 2, 3), queue(name, 4, 5, 6), queue("/z", 7, 8, 9)];
            assert_eq!(stats.queues, expected);
            let one = page(&[(name, [4, 5, 6])], name, "\n");
            let found = QueueStats::parse(&one, &name.parse().unwrap()).unwrap();
            assert_eq!(found, Some(queue(name, 4, 5, 6)));
        }
    }

    /// Nothing distinguishes the two.
    #[test]
    fn a_name_that_holds_the_whole_rest_of_a_row_is_taken_for_that_row() {
        let cell = |n| format!("<td align=\"center\">{n}</td>\n");
        let name = format!("/f</td>\n{}{}{}</tr>\n</tbody>\nrest", cell(7), cell(7), cell(7));
        let stats =
            Stats::parse(&page(&[(&name, [4, 5, 6]), ("/z", [7, 8, 9])], "", "\n")).unwrap();
        assert_eq!(stats.queues, [queue("/f", 7, 7, 7), queue("/z", 7, 8, 9)]);
        let one = page(&[(&name, [4, 5, 6])], &name, "\n");
        let found = QueueStats::parse(&one, &name.parse().unwrap()).unwrap();
        assert_eq!(found, Some(queue(&name, 4, 5, 6)), "a name that is known is found whole");
    }

    #[test]
    fn other_pages_are_not_status_pages() {
        for other in ["", "<html>It works!</html>", "Adf.QueueServer</a>\nv2.0.0 Via x"] {
            let error = Stats::parse(other.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("not the status page"), "{error}");
        }
        let late = page(&[], "/q", "\n");
        let late = String::from_utf8(late).unwrap().replace(
            "</thead>",
            "</thead>\n<tbody>\n<tr>\n<td align=\"left\" colspan=\"4\">search timeout.</td>",
        );
        for error in [
            Stats::parse(late.as_bytes()).unwrap_err(),
            QueueStats::parse(late.as_bytes(), &"/q".parse().unwrap()).unwrap_err(),
        ] {
            assert!(error.to_string().ends_with("try again"), "{error}");
        }
        let asked = page(&[], ">search timeout.</td>", "\n");
        assert_eq!(
            QueueStats::parse(&asked, &">search timeout.</td>".parse().unwrap()).unwrap(),
            None
        );
    }

    proptest! {
        #[test]
        fn any_names_without_a_row_of_their_own_are_read_again(
            rows in proptest::collection::vec(("[^\r\n]{0,20}", any::<[u32; 3]>()), 0..20),
            end in 0..2_usize,
        ) {
            let rows: Vec<_> =
                rows.iter().map(|(name, counts)| (&**name, counts.map(i64::from))).collect();
            let stats = Stats::parse(&page(&rows, "", ENDS[end])).unwrap();
            let expected: Vec<_> = rows
                .iter()
                .map(|(name, counts)| stats_of((*name).to_owned(), *counts))
                .collect();
            prop_assert_eq!(stats.queues, expected);
        }

        #[test]
        fn any_piece_of_a_page_is_read_or_refused(
            name in "([<>/a-z\"= \n]|</td>|<tbody>|<tr>){0,30}",
            cut in any::<prop::sample::Index>(),
            noise in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut page = page(&[(&name, [1, 2, 3])], &name, "\n");
            let at = cut.index(page.len());
            page.splice(at..at, noise);
            for data in [&page[..], &page[..at], &page[at..]] {
                if let Ok(stats) = Stats::parse(data) {
                    let names: usize = stats.queues.iter().map(|queue| queue.name.len()).sum();
                    prop_assert!(names <= 3 * data.len());
                }
                if let Ok(Some(found)) = QueueStats::parse(data, &"/q".parse().unwrap()) {
                    prop_assert_eq!(found.name, "/q");
                }
            }
        }
    }
}
