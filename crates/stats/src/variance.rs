//! Shares of a spread that two factors make.

use super::{count, mean};

/// The variances that rows and columns of a table make, each without what noise adds to it: of
/// numbers that are what their row and their column add, and noise (two-way analysis of variance,
/// Fisher 1925). They may be a little below 0. None unless there are two of each.
pub fn of_rows_and_columns(table: &[Vec<f64>]) -> Option<[f64; 2]> {
    let columns = table.first()?.len();
    if table.len() < 2 || columns < 2 || table.iter().any(|row| row.len() != columns) {
        return None;
    }
    let by_row: Vec<f64> = table.iter().map(|row| mean(row)).collect();
    let column = |at: usize| mean(&table.iter().map(|row| row[at]).collect::<Vec<f64>>());
    let by_column: Vec<f64> = (0..columns).map(column).collect();
    let all = mean(&by_row);
    let squares = |means: &[f64]| -> f64 {
        let sum: f64 = means.iter().map(|one| (one - all).powi(2)).sum();
        sum / (count(means.len()) - 1.0)
    };
    let mut rest = 0.0;
    for (row, its) in table.iter().zip(&by_row) {
        for (value, column) in row.iter().zip(&by_column) {
            rest += (value - its - column + all).powi(2);
        }
    }
    let noise = rest / ((count(table.len()) - 1.0) * (count(columns) - 1.0));
    Some([
        squares(&by_row) - noise / count(columns),
        squares(&by_column) - noise / count(table.len()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, deviation};

    #[test]
    fn what_rows_and_columns_add_is_found_however_many_there_are() {
        // Two rows 0.4 apart: a variance of 0.08. Five columns: that of 0, 0.1, .. 0.4.
        let table = |noise: f64, random: &mut Random| -> Vec<Vec<f64>> {
            let cell = |row: f64, column: usize, random: &mut Random| {
                0.4 * row + 0.1 * count(column) + noise * random.normal()
            };
            [0.0, 1.0].map(|row| (0..5).map(|at| cell(row, at, random)).collect()).into()
        };
        let mut random = Random::new(7);
        let [rows, columns] = of_rows_and_columns(&table(0.0, &mut random)).unwrap();
        assert!((rows - 0.08).abs() < 1e-12 && (columns - 0.025).abs() < 1e-12);
        let (mut all, runs) = ([Vec::new(), Vec::new()], 2_000);
        for _ in 0..runs {
            let found = of_rows_and_columns(&table(0.2, &mut random)).unwrap();
            all.iter_mut().zip(found).for_each(|(all, found)| all.push(found));
        }
        for (found, truth) in all.iter().zip([0.08, 0.025]) {
            let error = deviation(found) / 2_000_f64.sqrt();
            assert!((mean(found) - truth).abs() < 4.0 * error, "{} for {truth}", mean(found));
        }
        assert_eq!(of_rows_and_columns(&[vec![1.0, 2.0]]), None);
        assert_eq!(of_rows_and_columns(&[vec![1.0, 2.0], vec![1.0]]), None);
    }
}
