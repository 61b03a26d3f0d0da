//! Which rows are shown, and in which order.

use std::cmp::Ordering;

use super::board::{Board, Known, Row, Source};
use crate::input::glob::fits;

/// A choice of queues and their order. The default is all, by server and name.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Selection<'a> {
    /// A part of the name or a pattern; all queues if it is empty.
    pub(super) filter: &'a str,
    /// The figure to sort by.
    pub(super) sort: Option<usize>,
    /// Reverses the order of that figure.
    pub(super) reversed: bool,
}

impl Selection<'_> {
    /// The chosen rows, in order.
    pub(super) fn rows<'k>(self, known: &'k Known) -> Vec<Row<'k>> {
        let mut rows: Vec<Row<'k>> = known.rows().filter(|row| self.wants(row)).collect();
        if let Some(sort) = self.sort {
            rows.sort_by(|one, other| {
                let order = compare(known.board, sort, one, other);
                let order = if self.reversed { order.reverse() } else { order };
                order
                    .then_with(|| one.name.cmp(other.name))
                    .then_with(|| one.server.cmp(other.server))
            });
        }
        rows
    }

    fn wants(self, row: &Row<'_>) -> bool {
        if self.filter.contains(['*', '?']) {
            fits(row.name, &[self.filter])
        } else {
            row.name.contains(self.filter)
        }
    }
}

/// Text in ascending order, numbers in descending order.
fn compare(board: &Board, figure: usize, one: &Row<'_>, other: &Row<'_>) -> Ordering {
    match board.figures.get(figure).map(|figure| figure.source) {
        Some(Source::Name) => one.name.cmp(other.name),
        Some(Source::Server) => one.server.cmp(other.server),
        Some(Source::Problem) => {
            let has = |row| (board.problem)(row).is_some();
            has(other).cmp(&has(one))
        }
        _ => {
            let number = |row: &Row<'_>| row.at(figure).unwrap_or(f64::NEG_INFINITY);
            number(other).total_cmp(&number(one))
        }
    }
}
