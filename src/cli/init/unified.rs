//! The difference between two texts, as unified hunks.

/// Lines around a change that are shown.
const AROUND: usize = 3;
/// Cells of the table of common lines; shipped files need far fewer.
const CELLS_MAX: usize = 4_000_000;

/// One line of the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextLine<'a> {
    Both(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// The hunks that turn `old` into `new`; empty if the texts are equal.
pub(super) fn unified(old: &str, new: &str) -> String {
    let lines = lines(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let is_near = |at: usize| {
        let from = at.saturating_sub(AROUND);
        lines.iter().skip(from).take(at - from + AROUND + 1).any(|line| !matches!(line, TextLine::Both(_)))
    };
    let (mut out, mut hunk) = (String::new(), String::new());
    let (mut start, mut counts, mut at) = ((1, 1), (0, 0), (1, 1));
    for (index, line) in lines.iter().enumerate() {
        if is_near(index) {
            if hunk.is_empty() {
                (start, counts) = (at, (0, 0));
            }
            let (mark, text) = match line {
                TextLine::Both(text) => (' ', text),
                TextLine::Old(text) => ('-', text),
                TextLine::New(text) => ('+', text),
            };
            hunk += &format!("{mark}{text}\n");
            counts.0 += usize::from(!matches!(line, TextLine::New(_)));
            counts.1 += usize::from(!matches!(line, TextLine::Old(_)));
        } else if !hunk.is_empty() {
            out += &format!("@@ -{},{} +{},{} @@\n{hunk}", start.0, counts.0, start.1, counts.1);
            hunk.clear();
        }
        at.0 += usize::from(!matches!(line, TextLine::New(_)));
        at.1 += usize::from(!matches!(line, TextLine::Old(_)));
    }
    if !hunk.is_empty() {
        out += &format!("@@ -{},{} +{},{} @@\n{hunk}", start.0, counts.0, start.1, counts.1);
    }
    out
}

/// The lines of both, by a longest common subsequence.
fn lines<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<TextLine<'a>> {
    let width = new.len() + 1;
    if (old.len() + 1).saturating_mul(width) > CELLS_MAX {
        return old
            .iter()
            .map(|line| TextLine::Old(line))
            .chain(new.iter().map(|line| TextLine::New(line)))
            .collect();
    }
    // How many lines the rests of both, from here on, have in common.
    let mut common = vec![0_u32; (old.len() + 1) * width];
    let get =
        |common: &[u32], row: usize, column: usize| common.get(row * width + column).copied().unwrap_or(0);
    for (row, left) in old.iter().enumerate().rev() {
        for (column, right) in new.iter().enumerate().rev() {
            let best = match left == right {
                true => get(&common, row + 1, column + 1) + 1,
                false => get(&common, row + 1, column).max(get(&common, row, column + 1)),
            };
            if let Some(cell) = common.get_mut(row * width + column) {
                *cell = best;
            }
        }
    }
    let (mut row, mut column, mut out) = (0, 0, Vec::new());
    loop {
        match (old.get(row), new.get(column)) {
            (Some(left), Some(right)) if left == right => {
                out.push(TextLine::Both(left));
                (row, column) = (row + 1, column + 1);
            }
            (Some(left), right)
                if right.is_none() || get(&common, row + 1, column) >= get(&common, row, column + 1) =>
            {
                out.push(TextLine::Old(left));
                row += 1;
            }
            (_, Some(right)) => {
                out.push(TextLine::New(right));
                column += 1;
            }
            _ => return out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn hunks_hold_what_changed_with_three_lines_around() {
        let old: Vec<String> = (1..=20).map(|n| format!("{n}")).collect();
        let old = old.join("\n");
        assert_eq!(unified(&old, &old), "");
        let new = old.replace("\n5\n", "\nfive\n").replace("\n18\n", "\n18\nmore\n");
        let expect = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
                      @@ -16,5 +16,6 @@\n 16\n 17\n 18\n+more\n 19\n 20\n";
        assert_eq!(unified(&old, &new), expect);
        assert_eq!(unified("", "a\n"), "@@ -1,0 +1,1 @@\n+a\n");
        assert_eq!(unified("a\nb\n", "b\n"), "@@ -1,2 +1,1 @@\n-a\n b\n");
    }
}
