//! The table and the JSON lines; knows no queue.

use anyhow::Result;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::{Map, Value, json};

use crate::measure::Rates;

/// One face of ours, and the raw loop of the same kind.
#[derive(Debug)]
pub struct Face {
    pub raw: Rates,
    pub ours: Rates,
    /// The ratio that ours should reach.
    pub target: Option<f64>,
}

impl Face {
    fn ratio(&self) -> f64 {
        self.ours.ratio_to(&self.raw)
    }

    /// The ratio, with the target behind it where it was missed.
    fn verdict(&self) -> String {
        match self.target {
            Some(target) if self.ratio() < target => format!("{:.2} < {target}", self.ratio()),
            Some(target) => format!("{:.2} ≥ {target}", self.ratio()),
            None => format!("{:.2}", self.ratio()),
        }
    }
}

/// What came out of one scenario.
#[derive(Debug)]
pub struct Row {
    pub scenario: &'static str,
    pub blocking: Face,
    pub asynchronous: Face,
    pub peers: Vec<(&'static str, Rates)>,
}

impl Row {
    fn peer(&self, name: &str) -> Option<&Rates> {
        self.peers.iter().find(|(peer, _)| *peer == name).map(|(_, rates)| rates)
    }

    fn best_peer(&self) -> Option<&Rates> {
        self.peers.iter().map(|(_, rates)| rates).max_by(|a, b| a.median().total_cmp(&b.median()))
    }

    fn ratios_to_peer(&self) -> Option<(f64, f64)> {
        let best = self.best_peer()?;
        Some((self.blocking.ours.ratio_to(best), self.asynchronous.ours.ratio_to(best)))
    }

    fn json(&self) -> Value {
        let (blocking, asynchronous) = (self.blocking.ratio(), self.asynchronous.ratio());
        let to_peer = self.ratios_to_peer();
        let peers: Map<_, _> = self
            .peers
            .iter()
            .map(|(name, rates)| ((*name).to_owned(), rate(rates.median())))
            .collect();
        json!({
            "scenario": self.scenario,
            "raw": rate(self.blocking.raw.median()),
            "raw_async": rate(self.asynchronous.raw.median()),
            "ours_async": rate(self.asynchronous.ours.median()),
            "ours_blocking": rate(self.blocking.ours.median()),
            "peers": peers,
            "ratio_raw": ratio(blocking.min(asynchronous)),
            "ratio_raw_blocking": ratio(blocking),
            "ratio_raw_async": ratio(asynchronous),
            "target_blocking": self.blocking.target,
            "target_async": self.asynchronous.target,
            "ratio_peer": to_peer.map(|(blocking, asynchronous)| ratio(blocking.min(asynchronous))),
            "ratio_peer_blocking": to_peer.map(|(blocking, _)| ratio(blocking)),
            "ratio_peer_async": to_peer.map(|(_, asynchronous)| ratio(asynchronous)),
        })
    }
}

fn rate(jobs_per_second: f64) -> Value {
    json!(jobs_per_second.round() as u64)
}

fn ratio(ratio: f64) -> Value {
    json!((ratio * 1000.0).round() / 1000.0)
}

/// Takes the rows as they come: JSON lines are printed at once, the table at the end.
pub struct Report {
    table: Option<Table>,
    peers: Vec<&'static str>,
}

impl Report {
    pub fn new(json: bool, peers: impl Iterator<Item = &'static str>) -> Self {
        let peers: Vec<_> = peers.collect();
        let table = (!json).then(|| new_table(&peers));
        Report { table, peers }
    }

    pub fn add(&mut self, row: Row) -> Result<()> {
        let Some(table) = &mut self.table else {
            println!("{}", serde_json::to_string(&row.json())?);
            return Ok(());
        };
        eprintln!("bench: {}", row.scenario);
        let mut cells = vec![row.scenario.to_owned()];
        for face in [&row.blocking, &row.asynchronous] {
            cells.extend([short(face.raw.median()), short(face.ours.median()), face.verdict()]);
        }
        for peer in &self.peers {
            cells.push(row.peer(peer).map_or_else(nothing, |rates| short(rates.median())));
        }
        cells.push(row.ratios_to_peer().map_or_else(nothing, |(b, a)| format!("{b:.2}, {a:.2}")));
        table.add_row(cells.iter().enumerate().map(|(column, text)| {
            let side = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
            Cell::new(text).set_alignment(side)
        }));
        Ok(())
    }

    pub fn finish(self) {
        if let Some(table) = self.table {
            println!("{table}");
            println!(
                "Jobs per second; ratios are medians over the rounds, \"≥\" and \"<\" tell whether the target is met."
            );
            println!(
                "Peers have no pipelining: in a pipelined scenario they do one command at a time."
            );
        }
    }
}

fn new_table(peers: &[&str]) -> Table {
    let mut heads =
        vec!["scenario", "raw", "ours blocking", "ratio", "raw async", "ours async", "ratio"];
    heads.extend(peers);
    heads.push("ours to best peer");
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(heads);
    table
}

fn nothing() -> String {
    "-".to_owned()
}

/// A rate in three digits or so.
fn short(rate: f64) -> String {
    match rate {
        rate if rate >= 100_000.0 => format!("{:.0} k", rate / 1000.0),
        rate if rate >= 1000.0 => format!("{:.1} k", rate / 1000.0),
        rate => format!("{rate:.0}"),
    }
}
