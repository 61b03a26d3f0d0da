//! Fits tables to a terminal: drops columns, sizes the rest, and cuts long names.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The space that a column needs, in terminal columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    /// With everything on one line.
    pub(super) whole: usize,
    /// Without breaking a word.
    pub(super) least: usize,
    /// Words are cut down to this before a [figure](Self::is_figure) is dropped.
    pub(super) name: usize,
    /// Whether it has numbers, which are never cut.
    pub(super) is_figure: bool,
    /// Columns of the highest rank are dropped first; rank 0 always stays.
    pub(super) rank: u8,
}

/// The layout of a table.
#[derive(Debug)]
pub(super) struct Fit {
    /// The shown columns by index, and their widths without the gap.
    pub(super) shown: Vec<(usize, usize)>,
    /// Blanks between columns.
    pub(super) gap: usize,
}

/// Preferred number of blanks between columns.
pub(super) const GAP: usize = 2;
/// Preferred minimum width of texts, so that tables of short names look alike.
pub(super) const USUAL: usize = 10;
/// The minimum width of a cut text.
const NARROWEST: usize = 8;
/// The minimum width of a name that is cut for the sake of a figure: both of its ends can still be told.
const NAME: usize = 12;
/// Minimum width of sentences; columns are dropped before these get narrower.
const SENTENCE: usize = 16;
/// Figures of a higher rank were not worth a column of the usual table, and are not worth a name.
const USUAL_RANK: u8 = 1;

impl Need {
    /// The needs of a column with these cells. Numbers are never cut; a word may be if it takes more than two thirds of
    /// the terminal, since nothing else would fit.
    pub(super) fn of<'c>(
        title: &str,
        cells: impl Iterator<Item = &'c str>,
        (is_number, is_body): (bool, bool),
        (rank, width): (u8, Option<usize>),
    ) -> Self {
        let heading = longest_word(title);
        let (mut widest, mut word) = (0, 0);
        for cell in cells {
            widest = widest.max(cell.width());
            word = word.max(longest_word(cell));
        }
        let text = match (is_number, is_body) {
            (true, _) => widest,
            (false, true) => widest.min(SENTENCE),
            (false, false) => {
                let most = width.map_or(word, |width| (width * 2 / 3).max(NARROWEST));
                word.min(most).max(widest.min(SENTENCE))
            }
        };
        let usual = if is_number || is_body { 0 } else { USUAL };
        let whole = widest.max(title.width()).max(usual);
        let least = text.max(heading);
        let name = if word < widest || is_body { SENTENCE } else { NAME };
        let name = if is_number { least } else { name.clamp(heading, least) };
        Self { whole, least, name, is_figure: is_number, rank }
    }
}

/// Lays out a table for a terminal of this width, or without a limit.
pub(super) fn fit(needs: &[Need], width: Option<usize>) -> Fit {
    let mut shown: Vec<(usize, usize)> =
        needs.iter().enumerate().map(|(at, need)| (at, need.whole)).collect();
    let Some(width) = width else { return Fit { shown, gap: GAP } };
    if total(&shown, GAP) <= width {
        return Fit { shown, gap: GAP };
    }
    let gap = 1;
    let need = |at: usize| needs.get(at);
    for (at, column) in &mut shown {
        *column = need(*at).map_or(*column, |need| need.least);
    }
    while total(&shown, gap) > width {
        let rank = |at: usize| need(at).map_or(0, |need| need.rank);
        let droppable = shown.iter().enumerate().filter(|(_, (at, _))| rank(*at) > 0);
        // Among equal ranks the rightmost.
        let Some((place, (at, _))) = droppable.max_by_key(|(_, (at, _))| rank(*at)) else { break };
        let is_worth_a_name =
            need(*at).is_some_and(|need| need.is_figure && need.rank <= USUAL_RANK);
        if !(is_worth_a_name && cut_longest(&mut shown, |at| need(at).map(|need| need.name))) {
            shown.remove(place);
        }
    }
    // As a last resort.
    let words = |at| need(at).filter(|need| !need.is_figure).map(|_| NARROWEST);
    while total(&shown, gap) > width && cut_longest(&mut shown, words) {}
    // Distributes the remaining space.
    let mut left = width.saturating_sub(total(&shown, gap));
    while left > 0 {
        let before = left;
        for (at, column) in &mut shown {
            if left > 0 && need(*at).is_some_and(|need| *column < need.whole) {
                *column += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    Fit { shown, gap }
}

/// Makes the widest column narrower that is wider than its `floor`; false if there is none.
fn cut_longest(shown: &mut [(usize, usize)], floor: impl Fn(usize) -> Option<usize>) -> bool {
    let can = |(at, width): &&mut (usize, usize)| floor(*at).is_some_and(|floor| *width > floor);
    let widest = shown.iter_mut().filter(can).max_by_key(|column| column.1);
    widest.map(|column| column.1 -= 1).is_some()
}

/// The width of a table with these columns.
fn total(shown: &[(usize, usize)], gap: usize) -> usize {
    let columns: usize = shown.iter().map(|(_, width)| width + gap).sum();
    columns.saturating_sub(gap)
}

fn longest_word(text: &str) -> usize {
    text.split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0)
}

/// A text whose words are no wider than this: cut in their middle, or those of a body broken.
pub(super) fn cut_words(text: &str, width: usize, is_body: bool) -> String {
    if longest_word(text) <= width {
        return text.to_owned();
    }
    let cut = |word: &str| if is_body { broken(word, width) } else { middle(word, width) };
    text.split(' ').map(cut).collect::<Vec<_>>().join(" ")
}

/// A word as several, each no wider than this.
fn broken(word: &str, width: usize) -> String {
    let (mut out, mut taken) = (String::new(), 0);
    for c in word.chars() {
        let wide = c.width().unwrap_or(0);
        if taken > 0 && taken + wide > width {
            out.push(' ');
            taken = 0;
        }
        out.push(c);
        taken += wide;
    }
    out
}

/// Both ends of a word, with an ellipsis between them.
fn middle(word: &str, width: usize) -> String {
    if word.width() <= width {
        return word.to_owned();
    }
    let room = width.saturating_sub(1);
    let (front, back) = (room - room / 2, room / 2);
    let take = |chars: &mut dyn Iterator<Item = char>, most: usize| {
        let mut taken = 0;
        let fits = chars.take_while(|c| {
            taken += c.width().unwrap_or(0);
            taken <= most
        });
        fits.collect::<Vec<char>>()
    };
    let start = take(&mut word.chars(), front);
    let end = take(&mut word.chars().rev(), back);
    start.into_iter().chain(['…']).chain(end.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(whole: usize, least: usize, rank: u8) -> Need {
        Need { whole, least, name: least, is_figure: false, rank }
    }

    fn figure(whole: usize, rank: u8) -> Need {
        Need { is_figure: true, ..need(whole, whole, rank) }
    }

    fn places(fit: &Fit) -> Vec<usize> {
        fit.shown.iter().map(|(at, _)| *at).collect()
    }

    #[test]
    fn drops_the_least_important_columns_first() {
        let needs = [need(30, 30, 0), need(20, 20, 1), need(20, 20, 1), need(20, 20, 9)];
        assert_eq!(places(&fit(&needs, None)), [0, 1, 2, 3]);
        assert_eq!(places(&fit(&needs, Some(96))), [0, 1, 2, 3]);
        assert_eq!(places(&fit(&needs, Some(80))), [0, 1, 2]);
        assert_eq!(places(&fit(&needs, Some(60))), [0, 1]);
        let narrow = fit(&needs, Some(20));
        assert_eq!((places(&narrow), narrow.shown[0].1), (vec![0], 20), "cut as the last resort");
    }

    #[test]
    fn shortens_long_names_before_dropping_figures() {
        let long = "a-very-long-name-of-a-tube-for-the-invoices-of-customers";
        let name = Need::of("TUBE", [long].into_iter(), (false, false), (0, Some(60)));
        let usual = [name, figure(5, 1), figure(8, 1), figure(7, 1), figure(6, 1)];
        let all = fit(&usual, Some(60));
        assert_eq!((places(&all), all.shown[0].1), (vec![0, 1, 2, 3, 4], 30));
        let few = fit(&usual, Some(30));
        assert_eq!((places(&few), few.shown[0].1), (vec![0, 1, 2], 15), "names keep their ends");
        let wide = fit(&[name, figure(5, 1), figure(20, 9)], Some(60));
        assert_eq!((places(&wide), wide.shown[0].1), (vec![0, 1], 54));
    }

    #[test]
    fn spare_width_goes_to_truncated_columns() {
        let fit = fit(&[need(10, 4, 0), need(40, 10, 1)], Some(30));
        assert_eq!(fit.shown, [(0, 10), (1, 19)]);
    }

    #[test]
    fn truncates_names_in_the_middle_and_lines_at_the_end() {
        assert_eq!(cut_words("a-very-long-name-1 is here", 9, false), "a-ve…me-1 is here");
        assert_eq!(cut_words("short", 5, false), "short");
        assert_eq!(cut_words("漢字漢字漢字", 7, false), "漢…字");
        assert_eq!(cut_words("漢字漢字 abcdef", 5, true), "漢字 漢字 abcde f");
    }
}
