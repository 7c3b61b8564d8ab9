//! The result of a run, in 80 columns for people and as JSON for machines.

use serde_json::{Value, json};

use crate::targets::{Bound, NOT_YET, Target};

/// One measured row.
pub struct Row {
    pub target: Target,
    pub outcome: Result<Figures, String>,
}

/// Medians of each contender, and the judged value (a median of per-round ratios where it is a
/// ratio).
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub bare: Option<f64>,
    pub tmux: Option<f64>,
    pub greenroom: f64,
    pub value: f64,
    pub rounds: usize,
}

/// What the figures were taken on and how.
pub struct Setting {
    pub quick: bool,
    pub machine: String,
    pub tmux: String,
}

const WIDTH: usize = 80;

pub fn text(setting: &Setting, rows: &[Row]) -> String {
    let mut out = format!("{}; {}\n", setting.machine, setting.tmux);
    if setting.quick {
        out.push_str("QUICK RUN: shows that everything works; the figures mean little\n");
    }
    out.push_str(&format!(
        "{:<29}{:>7}{:>7}{:>10}{:>7}{:>9} {:>9}\n",
        "", "bare", "tmux", "greenroom", "value", "first", "goal"
    ));
    for row in rows {
        out.push_str(&line(row));
        out.push('\n');
    }
    for (name, why) in NOT_YET {
        out.push_str(&format!("{name:<29}not measured: {why}\n"));
    }
    let (met, judged) = tally(rows);
    out.push_str(&format!("{met} of {judged} first targets met (+ met, - missed)\n"));
    out
}

/// One row in 80 columns.
pub fn line(row: &Row) -> String {
    let target = &row.target;
    let name = format!("{} {} {}", target.name, target.unit, target.judged.text());
    match &row.outcome {
        Err(why) => {
            let text = format!("{name:<29}FAILED: {why}");
            text.chars().take(WIDTH).collect()
        }
        Ok(figures) => format!(
            "{name:<29}{:>7}{:>7}{:>10}{:>7}{:>9} {:>9}",
            figure(figures.bare),
            figure(figures.tmux),
            figure(Some(figures.greenroom)),
            figure(Some(figures.value)),
            verdict(target.first, figures.value),
            verdict(target.goal, figures.value),
        ),
    }
}

fn verdict(bound: Option<Bound>, value: f64) -> String {
    bound.map_or_else(String::new, |bound| {
        format!("{} {}", bound.text(), if bound.holds(value) { '+' } else { '-' })
    })
}

/// Three digits that matter.
fn figure(value: Option<f64>) -> String {
    match value {
        None => "·".to_owned(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// First targets met, and first targets there are. A row that failed has not met its target.
pub fn tally(rows: &[Row]) -> (usize, usize) {
    let judged = rows.iter().filter_map(|row| row.target.first.map(|bound| (bound, row)));
    judged.fold((0, 0), |(met, all), (bound, row)| {
        let holds = row.outcome.as_ref().is_ok_and(|figures| bound.holds(figures.value));
        (met + usize::from(holds), all + 1)
    })
}

pub fn json(setting: &Setting, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let target = &row.target;
            let mut value = json!({
                "name": target.name,
                "unit": target.unit,
                "judged": target.judged.text(),
                "first": target.first.map(Bound::text),
                "goal": target.goal.map(Bound::text),
            });
            match &row.outcome {
                Ok(figures) => {
                    value["bare"] = json!(figures.bare);
                    value["tmux"] = json!(figures.tmux);
                    value["greenroom"] = json!(figures.greenroom);
                    value["value"] = json!(figures.value);
                    value["rounds"] = json!(figures.rounds);
                    value["first_met"] = json!(target.first.map(|b| b.holds(figures.value)));
                    value["goal_met"] = json!(target.goal.map(|b| b.holds(figures.value)));
                }
                Err(why) => value["failed"] = json!(why),
            }
            value
        })
        .collect();
    json!({
        "quick": setting.quick,
        "machine": setting.machine,
        "tmux": setting.tmux,
        "rows": rows,
        "not_measured": NOT_YET.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{DRAIN_BARE, ECHO_P99, MEMORY};

    fn rows() -> Vec<Row> {
        let good = Figures {
            bare: Some(123.4),
            tmux: Some(34.56),
            greenroom: 110.0,
            value: 0.891,
            rounds: 3,
        };
        let figures = |value| Figures { greenroom: value, value, rounds: 3, ..Figures::default() };
        vec![
            Row { target: DRAIN_BARE[2], outcome: Ok(good) },
            Row { target: MEMORY, outcome: Ok(figures(70.0)) },
            Row { target: ECHO_P99, outcome: Ok(figures(2.0)) },
            Row { target: MEMORY, outcome: Err("the host closed the connection ".repeat(9)) },
        ]
    }

    fn setting() -> Setting {
        Setting { quick: false, machine: "2 cores".to_owned(), tmux: "tmux 3".to_owned() }
    }

    #[test]
    fn the_table_fits_80_columns_and_judges() {
        let text = text(&setting(), &rows());
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert!(text.contains("≥0.8 +   ≥0.95 -"), "{text}");
        assert!(text.contains("1 of 3 first targets met"), "{text}");
        assert!(text.contains("FAILED: the host closed"), "{text}");
    }

    #[test]
    fn json_has_every_row() {
        let value = json(&setting(), &rows());
        assert_eq!(value["rows"].as_array().unwrap().len(), 4);
        assert_eq!(value["rows"][0]["first_met"], true);
        assert_eq!(value["rows"][0]["goal_met"], false);
        assert_eq!(value["rows"][2]["first_met"], Value::Null);
        assert!(value["rows"][3]["failed"].as_str().unwrap().contains("closed"));
    }
}
