//! The widths of columns. Pure.

/// Columns between two columns of a table.
pub(super) const GAP: usize = 2;

/// The widths of columns that together take at most `columns`: as wide as their content if that
/// fits. Otherwise the widest ones shrink first, none of them below its minimum. `None` if even the
/// minimums do not fit. Each column is given as its minimum and the width of its content.
pub(super) fn fit(wanted: &[(usize, usize)], columns: usize) -> Option<Vec<usize>> {
    let room = columns.checked_sub(GAP * wanted.len().saturating_sub(1))?;
    let at = |level: usize| wanted.iter().map(move |(min, content)| level.clamp(*min, *content));
    let widest = wanted.iter().map(|(_, content)| *content).max().unwrap_or(0);
    let level = (0..=widest).rev().find(|level| at(*level).sum::<usize>() <= room)?;
    let mut widths: Vec<usize> = at(level).collect();
    // What is left over goes to the first columns that were cut.
    let mut left = room - widths.iter().sum::<usize>();
    for (width, (_, content)) in widths.iter_mut().zip(wanted) {
        let more = left.min(content - *width);
        *width += more;
        left -= more;
    }
    Some(widths)
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn the_widest_columns_shrink_first_and_none_below_its_minimum() {
        for (wanted, columns, expect) in [
            (vec![(5, 5), (10, 10)], 80, Some(vec![5, 10])),
            (vec![(5, 5), (10, 40), (10, 60)], 80, Some(vec![5, 36, 35])),
            (vec![(5, 5), (10, 12), (10, 60)], 40, Some(vec![5, 12, 19])),
            (vec![(5, 5), (10, 40)], 17, Some(vec![5, 10])),
            (vec![(5, 5), (10, 40)], 16, None),
            (vec![(5, 5), (10, 40)], 1, None),
            (vec![], 0, Some(vec![])),
        ] {
            assert_eq!(fit(&wanted, columns), expect, "{wanted:?} {columns}");
        }
    }
}
