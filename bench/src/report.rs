//! The table and the JSON lines; knows no queue.

use anyhow::Result;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::{Map, Value, json};

use crate::measure::Rates;

/// One face of ours, and the raw loop of the same kind.
#[derive(Debug)]
pub struct Face {
    pub name: &'static str,
    pub raw: Rates,
    pub ours: Rates,
    /// The ratio to the raw loop that ours should reach.
    pub target: Option<f64>,
}

impl Face {
    fn ratio(&self) -> f64 {
        self.ours.ratio_to(&self.raw)
    }
}

/// What came out of one scenario.
#[derive(Debug)]
pub struct Row {
    pub scenario: String,
    pub faces: Vec<Face>,
    pub peers: Vec<(&'static str, Rates)>,
    /// How many times faster than this peer ours should be.
    pub peer_target: Option<(&'static str, f64)>,
}

impl Row {
    fn peer(&self, name: &str) -> Option<&Rates> {
        self.peers.iter().find(|(peer, _)| *peer == name).map(|(_, rates)| rates)
    }

    /// The peer of this name as it runs for this face: `gearman multi`, if there is one, or else `gearman`.
    fn peer_for(&self, name: &str, face: &str) -> Option<&Rates> {
        self.peer(&format!("{name} {face}")).or_else(|| self.peer(name))
    }

    fn best_peer(&self) -> Option<&Rates> {
        self.peers.iter().map(|(_, rates)| rates).max_by(|a, b| a.median().total_cmp(&b.median()))
    }

    /// The peer that a face is compared with: the one that a target names, or else the best.
    fn compared(&self, face: &str) -> Option<(&Rates, Option<f64>)> {
        let of_target = |(name, target)| Some((self.peer_for(name, face)?, target));
        let named = self.peer_target.and_then(of_target);
        match named {
            Some((peer, target)) => Some((peer, Some(target))),
            None => Some((self.best_peer()?, None)),
        }
    }

    fn json(&self) -> Value {
        let peers: Map<_, _> = self
            .peers
            .iter()
            .map(|(name, rates)| ((*name).to_owned(), rate(rates.median())))
            .collect();
        let least = |ratios: Vec<f64>| ratios.into_iter().reduce(f64::min).map(ratio);
        let mut row = Map::new();
        row.insert("scenario".into(), json!(self.scenario));
        row.insert("peers".into(), json!(peers));
        row.insert("ratio_raw".into(), json!(least(self.faces.iter().map(Face::ratio).collect())));
        let to_best = self
            .best_peer()
            .map(|best| least(self.faces.iter().map(|face| face.ours.ratio_to(best)).collect()));
        row.insert("ratio_peer".into(), json!(to_best));
        for (index, face) in self.faces.iter().enumerate() {
            let name = face.name;
            if index == 0 {
                row.insert("raw".into(), rate(face.raw.median()));
            }
            row.insert(format!("raw_{name}"), rate(face.raw.median()));
            row.insert(format!("ours_{name}"), rate(face.ours.median()));
            row.insert(format!("ratio_raw_{name}"), ratio(face.ratio()));
            row.insert(format!("target_{name}"), json!(face.target));
            let best = self.best_peer().map(|best| ratio(face.ours.ratio_to(best)));
            row.insert(format!("ratio_peer_{name}"), json!(best));
            if let Some((peer, target)) = self.peer_target {
                let reached = self.peer_for(peer, name).map(|peer| ratio(face.ours.ratio_to(peer)));
                row.insert(format!("ratio_{peer}_{name}"), json!(reached));
                row.insert(format!("target_{peer}"), json!(target));
            }
        }
        Value::Object(row)
    }
}

fn rate(jobs_per_second: f64) -> Value {
    if jobs_per_second >= 100.0 {
        json!(jobs_per_second.round() as u64)
    } else {
        json!((jobs_per_second * 100.0).round() / 100.0)
    }
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
        for (index, face) in row.faces.iter().enumerate() {
            let mut cells = vec![row.scenario.clone(), face.name.to_owned()];
            cells.extend([short(face.raw.median()), short(face.ours.median())]);
            cells.push(verdict(face.ratio(), face.target));
            for peer in &self.peers {
                let of_peer = row.peer(peer).filter(|_| index == 0);
                cells.push(of_peer.map_or_else(nothing, |rates| short(rates.median())));
            }
            cells.push(
                row.compared(face.name).map_or_else(nothing, |(peer, target)| {
                    verdict(face.ours.ratio_to(peer), target)
                }),
            );
            table.add_row(cells.iter().enumerate().map(|(column, text)| {
                let side = if column < 2 { CellAlignment::Left } else { CellAlignment::Right };
                Cell::new(text).set_alignment(side)
            }));
        }
        Ok(())
    }

    /// Prints the table, and `notes` under it.
    pub fn finish(self, notes: &[&str]) {
        if let Some(table) = self.table {
            println!("{table}");
            println!(
                "Jobs per second; ratios are medians over the rounds, \"≥\" and \"<\" tell whether the target is met."
            );
            notes.iter().for_each(|note| println!("{note}"));
        }
    }
}

fn new_table(peers: &[&str]) -> Table {
    let mut heads = vec!["scenario", "face", "raw", "ours", "ours to raw"];
    heads.extend(peers);
    heads.push("ours to peer");
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(heads);
    table
}

fn nothing() -> String {
    "-".to_owned()
}

/// A ratio, with its target behind it.
fn verdict(ratio: f64, target: Option<f64>) -> String {
    match target {
        Some(target) if ratio < target => format!("{ratio:.2} < {target}"),
        Some(target) => format!("{ratio:.2} ≥ {target}"),
        None => format!("{ratio:.2}"),
    }
}

/// A rate in three digits or so.
fn short(rate: f64) -> String {
    match rate {
        rate if rate >= 100_000.0 => format!("{:.0} k", rate / 1000.0),
        rate if rate >= 1000.0 => format!("{:.1} k", rate / 1000.0),
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate => format!("{rate:.1}"),
    }
}
