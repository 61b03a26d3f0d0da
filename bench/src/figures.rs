//! Single figures, as lines of text or of JSON; knows no queue.

use serde_json::json;

/// Prints figures as they arrive.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub json: bool,
}

impl Figures {
    /// Prints a figure, and whether it is as small as it should be.
    pub fn print(self, what: &str, value: f64, unit: &str, at_most: Option<f64>) {
        if self.json {
            let value = (value * 1000.0).round() / 1000.0;
            println!(
                "{}",
                json!({ "measure": what, "value": value, "unit": unit, "target": at_most })
            );
            return;
        }
        let verdict = match at_most {
            Some(target) if value > target => format!("  > {target}: too much"),
            Some(target) => format!("  ≤ {target}"),
            None => String::new(),
        };
        let decimals = if value < 10.0 { 2 } else { 1 };
        println!("{what:60}{value:12.decimals$} {unit}{verdict}");
    }
}
