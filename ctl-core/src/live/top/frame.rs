//! The live view: lines that fit the screen, built from the data and the user's choices.

use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use super::board::{Act, Figure, Known, Row, Server, Source, Unit};
use super::view::{Prompt, View};
use crate::text::color::Role;
use crate::text::wrap::{self, cut, padded};
use crate::text::{escape, units};

/// Blanks between columns.
const GAP: usize = 2;
/// Minimum width of a text.
const LEAST: usize = 16;
/// Minimum width of a history, including its gap.
const TREND: usize = 12;

const KEYS: &str = "q quit  ? help  enter closer  s sort  / filter  p pause  + - pace";
/// The column of what a key does.
const KEY: usize = 21;
const HELP: &[(&str, &str)] = &[
    ("q, Ctrl-C", "quit"),
    ("s, S, arrows", "sort by the next or the previous column"),
    ("r", "reverse the order"),
    ("/", "show only names containing a text, or matching a pattern (* and ?); Esc shows all"),
    ("p", "pause and resume"),
    ("space", "refresh now"),
    ("+, -", "refresh half or twice as often"),
    ("up, down, page keys", "select a row; home and end the first or the last one"),
    ("enter", "details of the selected row, then its jobs; Esc goes back"),
    ("Ctrl-L", "redraw the screen"),
];

/// The effect of a key, in as many lines as it takes.
fn explained(key: &str, what: &str, width: usize) -> Vec<String> {
    let line = format!("{key:<KEY$}{}", wrap::hanging(what, width, KEY));
    line.lines().map(|line| cut(line, width)).collect()
}

/// The lines for a screen with this many columns and rows.
pub(super) fn frame(
    known: &Known,
    view: &View,
    (width, height): (usize, usize),
    color: bool,
) -> Vec<String> {
    let mut lines = vec![Role::Heading.paint(&title(known, view, width), color)];
    if view.help {
        lines.extend(HELP.iter().flat_map(|(key, what)| explained(key, what, width)));
        if !known.board.acts.is_empty() {
            lines.extend([String::new(), cut("With --write, for the selected row:", width)]);
        }
        let act = |act: &Act| explained(&act.key.to_string(), act.name, width);
        lines.extend(known.board.acts.iter().flat_map(act));
        let rates = "Rates are since the previous sample; - means unknown.";
        lines.extend([String::new(), cut(rates, width)]);
        lines.truncate(height);
        return lines;
    }
    let rows = view.rows(known);
    match (&view.jobs, rows.get(view.chosen).filter(|_| view.detail)) {
        (Some(listing), _) => {
            let title = format!("{}: jobs  (space lists them anew, Esc goes back)", listing.queue);
            lines.extend([String::new(), cut(&escape::line(&title), width)]);
            let shown = listing.lines.iter().skip(listing.skip);
            lines.extend(shown.map(|line| cut(&escape::line(line), width)));
        }
        (None, Some(row)) => lines.extend(detail(known, row, width, color)),
        (None, None) => {
            lines.extend(servers(known, width, most_servers(height), color));
            lines.push(String::new());
            let page = page(height, known.servers.len());
            lines.extend(table(known, (view, &rows), (width, page), color));
        }
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), String::new());
    lines.push(last_line(view, width, color));
    lines
}

/// The current question, input or message, or else the keys.
fn last_line(view: &View, width: usize, color: bool) -> String {
    let text = |text: &str| cut(&escape::line(text), width);
    match (&view.typing, &view.prompt) {
        (Some(typed), _) => cut(&format!("filter: {typed}_"), width),
        (None, Prompt::Asks(what)) => {
            Role::Warning.paint(&text(&format!("{what}? y confirms, any other key cancels")), color)
        }
        (None, Prompt::Names(typed)) => {
            text(&format!("protected: type its name to go on, Esc leaves it: {typed}_"))
        }
        (None, Prompt::Waits(what)) => text(&format!("{what} …")),
        (None, Prompt::Told(what)) => text(what),
        (None, Prompt::None) => Role::Faint.paint(&cut(KEYS, width), color),
    }
}

/// All data of one queue.
fn detail(known: &Known, row: &Row<'_>, width: usize, color: bool) -> Vec<String> {
    let board = known.board;
    let widest = board.figures.iter().map(|figure| figure.column.title.width()).max().unwrap_or(0);
    let mut lines = vec![String::new()];
    for (figure, value) in board.figures.iter().zip(cells(known, row)) {
        let text = format!("{}  {value}", padded(figure.column.title, widest, false));
        let text = cut(text.trim_end(), width);
        let is_wrong = figure.source == Source::Problem && !value.is_empty();
        lines.push(if is_wrong { Role::Error.paint(&text, color) } else { text });
    }
    let history = known.history(row);
    let (Some(first), Some(last)) = (history.first(), history.last()) else { return lines };
    let most = history.iter().copied().fold(0.0, f64::max);
    let main = board.figures.get(board.figure(None)).map_or("", |figure| figure.column.title);
    lines.push(String::new());
    lines.push(cut(&spark(history, width), width));
    let looks = units::count(history.len() as u64, "sample");
    let (first, last, most) = (large(*first), large(*last), large(most));
    lines.push(cut(&format!("{main} over {looks}: from {first} to {last}, peak {most}"), width));
    lines
}

/// Maximum number of servers with their own line.
fn most_servers(height: usize) -> usize {
    (height.saturating_sub(6) / 2).max(1)
}

/// Number of queue rows that fit besides title, servers, an empty line, headings and keys.
pub(super) fn page(height: usize, servers: usize) -> usize {
    let most = most_servers(height);
    let servers = if servers > most { most + 1 } else { servers };
    height.saturating_sub(servers + 4).max(1)
}

fn title(known: &Known, view: &View, width: usize) -> String {
    let sort = known.board.figures.get(view.sort).map_or("", |figure| figure.column.title);
    let mut title = format!(
        "{} top  every {}  by {sort}{}",
        known.tool,
        units::show_duration(view.every),
        if view.reversed { " (reversed)" } else { "" }
    );
    if !view.filter.is_empty() {
        title.push_str(&format!("  only {}", view.filter));
    }
    if view.paused {
        title.push_str("  PAUSED");
    }
    let now = units::now_in_seconds();
    let room = width.saturating_sub(title.width() + now.len());
    if room < GAP { cut(&title, width) } else { format!("{title}{}{now}", " ".repeat(room)) }
}

/// One line for each server; if there is not enough room, those with problems come first.
fn servers(known: &Known, width: usize, room: usize, color: bool) -> Vec<String> {
    let mut servers: Vec<&Server> = known.servers.iter().collect();
    let hidden = servers.len().saturating_sub(room);
    if hidden > 0 {
        servers.sort_by_key(|server| server.down.is_none());
        servers.truncate(room);
    }
    let addresses = servers.iter().map(|server| escape::line(&server.address).width());
    let widest = addresses.max().unwrap_or(0);
    let line = |server: &&Server| {
        let address = padded(&escape::line(&server.address), widest, false);
        match &server.down {
            Some((since, why)) => {
                let time = units::show_duration(Duration::from_secs(since.elapsed().as_secs()));
                let text = format!("{address}  down for {time}: {}", escape::line(why));
                Role::Error.paint(&cut(&text, width), color)
            }
            None => up(known.board.server, server, &address, width, color),
        }
    };
    let mut lines: Vec<String> = servers.iter().map(line).collect();
    if hidden > 0 {
        let text = format!("and {}", units::count(hidden as u64, "more server"));
        lines.push(Role::Faint.paint(&cut(&text, width), color));
    }
    lines
}

fn up(figures: &[Figure], server: &Server, address: &str, width: usize, color: bool) -> String {
    let mut parts = vec![address.to_owned()];
    parts.extend(server.version.as_ref().map(|version| escape::line(version).into_owned()));
    for (figure, value) in figures.iter().zip(&server.values) {
        if let Some(value) = value {
            parts.push(format!("{} {}", figure.column.title, number(figure.unit, *value)));
        }
    }
    if server.left_out > 0 {
        parts.push(format!("{} left out", server.left_out));
    }
    if server.is_new() {
        parts.insert(1, "restarted".to_owned());
    }
    let line = cut(&parts.join("  "), width);
    if server.is_new() { Role::Warning.paint(&line, color) } else { line }
}

/// A displayed column.
struct Shown {
    figure: usize,
    of: Figure,
    width: usize,
}

fn table(
    known: &Known,
    (view, rows): (&View, &[Row<'_>]),
    (width, page): (usize, usize),
    color: bool,
) -> Vec<String> {
    let board = known.board;
    // The mark before the chosen row.
    let width = width.saturating_sub(GAP);
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(known, row)).collect();
    let columns = fitting(known, &cells, width);
    let taken: usize = columns.iter().map(|column| column.width + GAP).sum();
    let trend = Some(width.saturating_sub(taken)).filter(|room| color && *room >= TREND);
    let line = |texts: &mut dyn Iterator<Item = (&Shown, &str)>| {
        let padded = texts.map(|(column, text)| {
            let is_number = column.of.unit != Unit::Text;
            padded(&cut(text, column.width), column.width, is_number)
        });
        padded.collect::<Vec<_>>().join("  ")
    };
    let mut titles = line(&mut columns.iter().map(|column| (column, column.of.column.title)));
    if trend.is_some() {
        titles.push_str("  TREND");
    }
    let titles = format!("  {titles}");
    let mut lines = vec![Role::Heading.paint(titles.trim_end(), color)];
    if rows.is_empty() {
        lines.push(Role::Faint.paint("(none)", color));
        return lines;
    }
    for (at, (row, cells)) in rows.iter().zip(&cells).enumerate().skip(view.skip).take(page) {
        let texts = columns.iter().map(|column| {
            (column, cells.get(column.figure).map(String::as_str).unwrap_or_default())
        });
        let mut text = line(&mut { texts });
        if let Some(room) = trend {
            text.push_str("  ");
            text.push_str(&spark(known.history(row), room.saturating_sub(GAP)));
        }
        let is_wrong = (board.problem)(row).is_some();
        let mark = if at == view.chosen { "> " } else { "  " };
        let text = format!("{mark}{}", text.trim_end());
        let text = text.trim_end();
        lines.push(if is_wrong { Role::Error.paint(text, color) } else { text.to_owned() });
    }
    lines
}

fn cells(known: &Known, row: &Row<'_>) -> Vec<String> {
    let board = known.board;
    let one = |(at, figure): (usize, &Figure)| match figure.source {
        Source::Server => escape::line(row.server).into_owned(),
        Source::Name => escape::line(row.name).into_owned(),
        Source::Problem => (board.problem)(row).unwrap_or_default(),
        _ => row.at(at).map_or_else(|| "-".to_owned(), |value| number(figure.unit, value)),
    };
    board.figures.iter().enumerate().map(one).collect()
}

/// The columns that fit; those with a high rank are omitted first.
fn fitting(known: &Known, cells: &[Vec<String>], width: usize) -> Vec<Shown> {
    let several = known.servers.len() > 1;
    let mut columns = Vec::new();
    for (figure, of) in known.board.figures.iter().enumerate() {
        let widest = cells.iter().filter_map(|cells| cells.get(figure)).map(|cell| cell.width());
        let widest = widest.max().unwrap_or(0);
        let is_shown = match of.source {
            Source::Server => several,
            Source::Problem => widest > 0,
            _ => true,
        };
        if is_shown {
            columns.push(Shown { figure, of: *of, width: widest.max(of.column.title.width()) });
        }
    }
    let least = |column: &Shown| match column.of.source {
        Source::Name | Source::Server | Source::Problem => column.width.min(LEAST),
        _ => column.width,
    };
    let all = |columns: &[Shown]| {
        columns.iter().map(|column| least(column) + GAP).sum::<usize>().saturating_sub(GAP)
    };
    while all(&columns) > width {
        let droppable = columns.iter().enumerate().filter(|(_, column)| column.of.rank > 0);
        let Some((at, _)) = droppable.max_by_key(|(_, column)| column.of.rank) else { break };
        columns.remove(at);
    }
    // The remaining width goes to the texts, from the first.
    let mut left = width.saturating_sub(all(&columns));
    for column in columns.iter_mut().filter(|column| column.of.unit == Unit::Text) {
        let wanted = column.width;
        column.width = wanted.min(LEAST + left);
        left -= column.width.saturating_sub(LEAST);
    }
    columns
}

/// A number for users.
fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Text | Unit::Count => large(value),
        Unit::PerSecond if value != 0.0 && value.abs() < 9.95 => format!("{value:.1}"),
        Unit::PerSecond => large(value.round()),
        Unit::Seconds => age(value),
        Unit::Flag => if value == 0.0 { "no" } else { "yes" }.to_owned(),
    }
}

/// In full up to seven digits, then in millions.
fn large(value: f64) -> String {
    if value.abs() < 1e7 { format!("{value:.0}") } else { format!("{:.0}M", value / 1e6) }
}

/// For example `41s`, `12m`, `3h 05m`, `2d 4h`.
fn age(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A history, with the newest value at the right.
fn spark(history: &[f64], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = history.get(history.len().saturating_sub(width)..).unwrap_or_default();
    let highest = shown.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        let part = if highest > 0.0 { value.max(0.0) / highest } else { 0.0 };
        BARS.get((part * 7.0).round() as usize).copied().unwrap_or(' ')
    };
    shown.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{BOARD, known};
    use super::*;

    fn shown(width: usize, height: usize) -> Vec<String> {
        let view = View::new(BOARD.figure(None), Duration::from_secs(1));
        frame(&known(), &view, (width, height), false)
    }

    #[test]
    fn lines_fit_and_low_ranked_columns_go_first() {
        for width in 1..200 {
            for line in shown(width, 24) {
                assert!(line.width() <= width.max(LEAST), "{width}: {line:?}");
            }
        }
        let has = |width, title: &str| shown(width, 24).iter().any(|line| line.contains(title));
        for (title, narrowest) in [("READY", 40), ("PROBLEM", 60), ("WAITING", 100)] {
            assert!(has(narrowest, title), "{title}: {:#?}", shown(narrowest, 24));
        }
        assert!(!has(40, "WAITING") && has(40, "mail"), "{:#?}", shown(40, 24));
    }

    #[test]
    fn a_detail_has_every_figure() {
        let mut view = View::new(BOARD.figure(None), Duration::from_secs(1));
        (view.detail, view.chosen) = (true, 1);
        let lines = frame(&known(), &view, (80, 24), false);
        for text in ["TUBE     mail", "WAITING  0", "OLDEST   12m", "PROBLEM  nobody waits"] {
            assert!(lines.iter().any(|line| line.starts_with(text)), "{text}: {lines:#?}");
        }
        assert!(lines.iter().any(|line| line == "READY over 1 sample: from 5 to 5, peak 5"));
        for width in 1..100 {
            assert!(frame(&known(), &view, (width, 24), false).iter().all(|l| l.width() <= width));
        }
    }

    #[test]
    fn fills_the_screen() {
        for height in 3..40 {
            assert_eq!(shown(80, height).len(), height);
        }
        assert!(shown(80, 24).last().unwrap().starts_with("q quit"));
    }

    #[test]
    fn problems_and_absent_servers_show_without_colour() {
        let lines = shown(120, 24);
        let find = |text: &str| lines.iter().find(|line| line.contains(text)).unwrap();
        assert!(find("mail").contains("nobody"), "{lines:#?}");
        assert!(find("dead:1").contains("down for"), "{lines:#?}");
        assert!(find("sms").contains("12m"), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains('\x1b')), "{lines:#?}");
    }

    #[test]
    fn escapes_names() {
        let view = View::new(BOARD.figure(None), Duration::from_secs(1));
        let mut known = known();
        known.servers[1].down.as_mut().unwrap().1 = "\x1b[2Jgone".to_owned();
        let lines = frame(&known, &view, (120, 24), true);
        assert!(lines.iter().all(|line| !line.contains("\x1b[2J")), "{lines:?}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(Unit::Count, 1_234_567.0), "1234567");
        assert_eq!(number(Unit::Count, 98_765_432.0), "99M");
        assert_eq!(number(Unit::PerSecond, 0.25), "0.2");
        assert_eq!(number(Unit::PerSecond, -12.6), "-13");
        assert_eq!(number(Unit::PerSecond, 0.0), "0");
        assert_eq!([45.0, 720.0, 7500.0, 180_000.0].map(age), ["45s", "12m", "2h05m", "2d02h"]);
        assert_eq!(spark(&[0.0, 1.0, 4.0, 8.0], 3), "▂▅█");
    }
}
