//! Text tables: columns as wide as their widest cell.

use super::output;

/// Rows under a heading.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a heading only.
    pub(super) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|title| (*title).to_owned()).collect()] }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there is no row under the heading.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    /// The lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    /// Prints it.
    pub(super) fn print(&self) {
        self.lines().iter().for_each(output::line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_without_blanks_at_the_end() {
        let mut table = Table::new(&["NAME", "COUNT"]);
        table.row(["orders".to_owned(), "7".to_owned()]);
        assert_eq!(table.lines(), ["NAME    COUNT", "orders  7"]);
    }
}
