//! What holds in a request for which some comparisons are true and others false.

use super::world::ActionWorld;
use cedar_policy_core::ast::{BinaryOp, EntityUID, Expr, ExprKind, Literal, Pattern, Var};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the terms, by their text.
#[derive(Clone, Default)]
pub(super) struct TermFacts(BTreeMap<String, TermFact>);

/// What is known of one term.
#[derive(Clone)]
struct TermFact {
    /// The words that it can be; `None` for any.
    words: Option<BTreeSet<String>>,
    excluded: BTreeSet<String>,
    patterns: Vec<(Pattern, bool)>,
    low: i64,
    high: i64,
    truth: Option<bool>,
}

impl Default for TermFact {
    fn default() -> Self {
        let (words, excluded, patterns) = (None, BTreeSet::new(), Vec::new());
        Self { words, excluded, patterns, low: i64::MIN, high: i64::MAX, truth: None }
    }
}

impl TermFact {
    fn is_possible(&self) -> bool {
        let fits = |word: &String| {
            !self.excluded.contains(word)
                && self.patterns.iter().all(|(pattern, holds)| pattern.wildcard_match(word) == *holds)
        };
        self.low <= self.high && self.words.as_ref().is_none_or(|words| words.iter().any(fits))
    }
}

/// The requests in which an atom is read, and the name of a term in the facts: the same terms of
/// two requests have different names if their values differ.
#[derive(Clone, Copy)]
pub(super) struct ReadIn<'a> {
    pub(super) world: ActionWorld<'a>,
    pub(super) name: fn(&Expr) -> String,
}

impl TermFacts {
    /// Adds that `atom` is true, or false. Returns false if that cannot be, given the others.
    /// If an atom is not understood, only its text is compared.
    pub(super) fn assume(&mut self, at: ReadIn<'_>, atom: &Expr, holds: bool) -> bool {
        let can_be = match atom.expr_kind() {
            ExprKind::Lit(Literal::Bool(value)) => return *value == holds,
            ExprKind::BinaryApp { op, arg1, arg2 } => match op {
                BinaryOp::Eq => return self.equal(at, arg1, arg2, holds),
                BinaryOp::Less if holds => return self.less(at, arg1, arg2, true),
                BinaryOp::LessEq if holds => return self.less(at, arg1, arg2, false),
                // `!(a < b)` is `b <= a`.
                BinaryOp::Less => return self.less(at, arg2, arg1, false),
                BinaryOp::LessEq => return self.less(at, arg2, arg1, true),
                BinaryOp::In => can_be_in(at.world, arg1, arg2, holds),
                BinaryOp::Contains => match (words_of(arg1), word(arg2)) {
                    (Some(words), None) => return self.word_is(at, arg2, &words, holds),
                    (None, Some(one)) => {
                        !holds || at.world.items(arg1).is_none_or(|items| items.contains(one))
                    }
                    _ => true,
                },
                _ => true,
            },
            ExprKind::Like { expr, pattern } => {
                let known = self.known(at, expr);
                known.patterns.push((pattern.clone(), holds));
                known.is_possible()
            }
            ExprKind::Is { expr, entity_type } => match expr.expr_kind() {
                ExprKind::Var(var) => !holds || at.world.can_be(*var, entity_type.name().basename().as_ref()),
                _ => true,
            },
            ExprKind::HasAttr { expr, attr } if is_input(expr) => {
                at.world.has_argument(attr).is_none_or(|has| has == holds)
            }
            _ => true,
        };
        can_be && self.truth((at.name)(atom), holds)
    }

    fn truth(&mut self, name: String, holds: bool) -> bool {
        let before = self.0.entry(name).or_default().truth.replace(holds);
        before.is_none_or(|before| before == holds)
    }

    fn known(&mut self, at: ReadIn<'_>, term: &Expr) -> &mut TermFact {
        self.0.entry((at.name)(term)).or_insert_with(|| {
            let (low, high) = at.world.bounds(term);
            TermFact { words: at.world.words(term), low, high, ..TermFact::default() }
        })
    }

    fn equal(&mut self, at: ReadIn<'_>, left: &Expr, right: &Expr, holds: bool) -> bool {
        let name = |term: &Expr| (at.name)(term);
        let (term, literal) = match (left.expr_kind(), right.expr_kind()) {
            (ExprKind::Lit(one), ExprKind::Lit(other)) => return (one == other) == holds,
            (_, ExprKind::Lit(literal)) => (left, literal),
            (ExprKind::Lit(literal), _) => (right, literal),
            _ if left.eq_shape(right) => return holds,
            _ => return self.truth(format!("{} == {}", name(left), name(right)), holds),
        };
        match literal {
            Literal::String(word) => self.word_is(at, term, &[word.as_str()], holds),
            Literal::Long(number) => self.number_is(at, term, *number, holds),
            Literal::Bool(value) => self.truth(name(term), *value == holds),
            Literal::EntityUID(id) => {
                let can_be = match term.expr_kind() {
                    ExprKind::Var(Var::Action) => {
                        return at.world.is_action(id.eid().as_ref(), false) == holds;
                    }
                    ExprKind::Var(var) => !holds || can_equal(at.world, *var, id),
                    _ => true,
                };
                can_be && self.truth(format!("{} == {id}", name(term)), holds)
            }
        }
    }

    fn number_is(&mut self, at: ReadIn<'_>, term: &Expr, number: i64, holds: bool) -> bool {
        let known = self.known(at, term);
        if holds {
            (known.low, known.high) = (known.low.max(number), known.high.min(number));
        } else if known.low == number && known.high == number {
            return false;
        } else if known.low == number {
            known.low = number.saturating_add(1);
        } else if known.high == number {
            known.high = number.saturating_sub(1);
        }
        known.is_possible()
    }

    /// `term` is one of `words`, or none of them.
    fn word_is(&mut self, at: ReadIn<'_>, term: &Expr, words: &[&str], holds: bool) -> bool {
        let fitting = words.iter().filter(|word| at.world.fits(term, word));
        let fitting: BTreeSet<String> = fitting.map(|word| (*word).to_owned()).collect();
        let known = self.known(at, term);
        if holds {
            known.words = Some(match known.words.take() {
                Some(before) => before.intersection(&fitting).cloned().collect(),
                None => fitting,
            });
        } else {
            known.excluded.extend(fitting);
        }
        known.is_possible()
    }

    /// `left < right`, or `left <= right` unless it is strict.
    fn less(&mut self, at: ReadIn<'_>, left: &Expr, right: &Expr, is_strict: bool) -> bool {
        let step = i64::from(is_strict);
        match (number(left), number(right)) {
            (Some(left), Some(right)) => left < right || (!is_strict && left == right),
            (None, Some(right)) => {
                let Some(most) = right.checked_sub(step) else { return false };
                let known = self.known(at, left);
                known.high = known.high.min(most);
                known.is_possible()
            }
            (Some(left), None) => {
                let Some(least) = left.checked_add(step) else { return false };
                let known = self.known(at, right);
                known.low = known.low.max(least);
                known.is_possible()
            }
            (None, None) if left.eq_shape(right) => !is_strict,
            (None, None) => {
                let (left, right) = ((at.name)(left), (at.name)(right));
                let (sign, opposite) = if is_strict { ("<", "<=") } else { ("<=", "<") };
                let is_denied = |known: &TermFact| known.truth == Some(true);
                let denied = self.0.get(&format!("{right} {opposite} {left}")).is_some_and(is_denied);
                !denied && self.truth(format!("{left} {sign} {right}"), true)
            }
        }
    }
}

/// Whether a variable can be in, or outside, the entities that `of` names.
fn can_be_in(world: ActionWorld<'_>, term: &Expr, of: &Expr, holds: bool) -> bool {
    let (ExprKind::Var(var), Some(ids)) = (term.expr_kind(), entities_of(of)) else { return true };
    match var {
        Var::Action => {
            let is_one = |id: &&EntityUID| world.is_action(id.eid().as_ref(), true);
            ids.iter().any(is_one) == holds
        }
        // Only paths are in others.
        Var::Resource => {
            let can = |id: &&EntityUID| match kind_of(id).as_str() {
                "Path" => world.can_be(Var::Resource, "Path"),
                _ => can_equal(world, Var::Resource, id),
            };
            !holds || ids.iter().any(can)
        }
        Var::Principal | Var::Context => true,
    }
}

fn can_equal(world: ActionWorld<'_>, var: Var, id: &EntityUID) -> bool {
    match var {
        Var::Action => world.is_action(id.eid().as_ref(), false),
        Var::Resource => world.can_have(&kind_of(id), id.eid().as_ref()),
        Var::Principal | Var::Context => world.can_be(var, &kind_of(id)),
    }
}

/// The type of an entity, without the namespace.
pub(super) fn kind_of(id: &EntityUID) -> String {
    id.entity_type().name().basename().to_string()
}

/// The entities of a literal or of a list of literals.
pub(super) fn entities_of(expr: &Expr) -> Option<Vec<&EntityUID>> {
    match expr.expr_kind() {
        ExprKind::Lit(Literal::EntityUID(id)) => Some(vec![id]),
        ExprKind::Set(items) => {
            let one = |item: &'_ Expr| entities_of(item).is_some_and(|ids| ids.len() == 1);
            items.iter().all(one).then(|| items.iter().filter_map(entities_of).flatten().collect())
        }
        _ => None,
    }
}

/// The words of a list of literals.
fn words_of(expr: &Expr) -> Option<Vec<&str>> {
    let ExprKind::Set(items) = expr.expr_kind() else { return None };
    items.iter().map(word).collect()
}

fn word(expr: &Expr) -> Option<&str> {
    match expr.expr_kind() {
        ExprKind::Lit(Literal::String(word)) => Some(word.as_str()),
        _ => None,
    }
}

/// The number of a literal.
fn number(expr: &Expr) -> Option<i64> {
    match expr.expr_kind() {
        ExprKind::Lit(Literal::Long(number)) => Some(*number),
        _ => None,
    }
}

fn is_input(expr: &Expr) -> bool {
    let ExprKind::GetAttr { expr, attr } = expr.expr_kind() else { return false };
    attr == "input" && matches!(expr.expr_kind(), ExprKind::Var(Var::Context))
}
