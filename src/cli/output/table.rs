//! Lists of rows as tables (`salt/output/table_out.py` with its default options).

use super::Unshowable;
use super::colors::Palette;
use super::python::{decode, python_str, sorted_entries, title};
use halite_wire::{Map, Value};

const COLUMN_WIDTH: usize = 50;

/// Renders every list in the value as a table; keys of enclosing maps are headings.
pub(super) fn render(value: &Value, colors: &Palette) -> Result<String, Unshowable> {
    let mut table = Table {
        colors,
        lines: Vec::new(),
    };
    table.display(&decode(value), 0)?;
    Ok(table.lines.join("\n"))
}

struct Table<'a> {
    colors: &'a Palette,
    lines: Vec<String>,
}

impl Table<'_> {
    fn line(&mut self, indent: usize, color: &str, text: &str, suffix: &str) {
        let end = self.colors.end;
        self.lines
            .push(format!("{:indent$}{color}{text}{end}{suffix}", ""));
    }

    fn display(&mut self, value: &Value, indent: usize) -> Result<(), Unshowable> {
        match value {
            Value::Array(rows) => self.rows(rows, indent),
            Value::Map(map) => self.map(map, indent),
            _ => Ok(()),
        }
    }

    fn map(&mut self, map: &Map, indent: usize) -> Result<(), Unshowable> {
        let color = self.colors.dark_gray;
        for (key, value) in sorted_entries(map).ok_or(Unshowable)? {
            self.line(indent, color, &python_str(key), ":");
            self.line(indent, color, "----------", "");
            match value {
                Value::Array(rows) => self.rows(rows, indent)?,
                other => self.display(other, indent + 4)?,
            }
        }
        Ok(())
    }

    /// Rows of the same type; if types differ, nothing is printed.
    fn rows(&mut self, rows: &[Value], indent: usize) -> Result<(), Unshowable> {
        let Some(first) = rows.first() else {
            return Ok(());
        };
        let kind = std::mem::discriminant(first);
        if rows.iter().any(|row| std::mem::discriminant(row) != kind) {
            return Ok(());
        }
        let mut cells = Vec::new();
        if let Value::Map(map) = first
            && !map.is_empty()
        {
            cells.push(labels(map)?);
        }
        for row in rows {
            cells.push(row_cells(row)?);
        }
        self.draw(&cells, indent + 4)
    }

    fn draw(&mut self, rows: &[Vec<String>], indent: usize) -> Result<(), Unshowable> {
        let rows: Vec<_> = rows.iter().map(|row| physical_rows(row)).collect();
        if rows.iter().any(Vec::is_empty) {
            return Err(Unshowable);
        }
        let columns = rows.iter().flatten().map(Vec::len).min().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|i| rows.iter().flatten().map(|row| width(&row[i])).max())
            .map(Option::unwrap_or_default)
            .collect();
        let total: usize = widths.iter().sum();
        let separator = "-".repeat(4 + total + 3 * columns.saturating_sub(1));
        self.line(indent, self.colors.light_gray, &separator, "");
        for logical in &rows {
            for row in logical {
                let cells: Vec<_> = row
                    .iter()
                    .zip(&widths)
                    .map(|(c, w)| center(c, *w))
                    .collect();
                let text = format!("| {} |", cells.join(" | "));
                self.line(indent, self.colors.white, &text, "");
            }
            self.line(indent, self.colors.light_gray, &separator, "");
        }
        Ok(())
    }
}

fn labels(map: &Map) -> Result<Vec<String>, Unshowable> {
    let entries = sorted_entries(map).ok_or(Unshowable)?;
    let label = |key: &Value| title(&python_str(key).replace('_', " "));
    Ok(entries.into_iter().map(|(key, _)| label(key)).collect())
}

fn row_cells(row: &Value) -> Result<Vec<String>, Unshowable> {
    match row {
        Value::Str(text) => Ok(vec![text.clone()]),
        Value::Map(map) => {
            let entries = sorted_entries(map).ok_or(Unshowable)?;
            Ok(entries.into_iter().map(|(_, v)| python_str(v)).collect())
        }
        Value::Array(cells) => cells
            .iter()
            .map(|cell| cell.as_str().map(str::to_owned).ok_or(Unshowable))
            .collect(),
        _ => Err(Unshowable),
    }
}

/// Wraps long cells; the number of lines is that of the cell with the fewest lines, as in stock.
fn physical_rows(row: &[String]) -> Vec<Vec<String>> {
    let cells: Vec<Vec<String>> = row
        .iter()
        .map(|cell| wrap(cell).split('\n').map(str::to_owned).collect())
        .collect();
    let height = cells.iter().map(Vec::len).min().unwrap_or(0);
    (0..height)
        .map(|line| cells.iter().map(|cell| cell[line].clone()).collect())
        .collect()
}

fn wrap(text: &str) -> String {
    let mut words = text.split(' ');
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let line = width(out.rsplit('\n').next().unwrap_or_default());
        let next = width(word.split('\n').next().unwrap_or_default());
        out.push(if line + next >= COLUMN_WIDTH {
            '\n'
        } else {
            ' '
        });
        out.push_str(word);
    }
    out
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// `str.center()`: if the rest is odd, the left side gets the larger half for an odd width.
fn center(text: &str, to: usize) -> String {
    let rest = to.saturating_sub(width(text));
    let left = rest / 2 + (rest & to & 1);
    format!("{:left$}{text}{:right$}", "", "", right = rest - left)
}
