//! Whether a quantity grows over the time of a run.

/// Some quantity over the time of a run.
#[derive(Debug)]
pub struct Trend {
    pub name: &'static str,
    pub unit: &'static str,
    pub first: u64,
    pub median: u64,
    pub last: u64,
    pub max: u64,
    /// The medians of the first and of the last third.
    pub thirds: (u64, u64),
    /// The last one may be greater by this much.
    pub margin: u64,
}

/// Fewer values are meaningless.
const LEAST: usize = 6;

impl Trend {
    /// Of values in the order of time: a tenth of the first third and `margin` more is allowed for the last one. `None`
    /// if there are too few.
    pub fn of(
        name: &'static str,
        unit: &'static str,
        values: &[u64],
        margin: u64,
    ) -> Option<Trend> {
        if values.len() < LEAST {
            return None;
        }
        let third = values.len() / 3;
        let thirds = (median(&values[..third]), median(&values[values.len() - third..]));
        Some(Trend {
            name,
            unit,
            first: values[0],
            median: median(values),
            last: values[values.len() - 1],
            max: values.iter().copied().max().unwrap_or_default(),
            thirds,
            margin: thirds.0 / 10 + margin,
        })
    }

    pub fn grows(&self) -> bool {
        self.thirds.1 > self.thirds.0 + self.margin
    }
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
