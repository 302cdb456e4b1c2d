//! Which numbers arguments may contain: those that every reader keeps as they are written.

use crate::types::json::{decimal, has_only_exact_integers, has_only_exact_numbers};
use serde_json::{Number, Value};

/// Checks the numbers of `arguments` against the schema `input`: decimals with up to four places if
/// a `number` is declared, both decimals and integers in opaque arguments, and integers everywhere
/// else. The error is for the model.
pub(super) fn check(input: &Value, arguments: &Value) -> Result<(), String> {
    let Value::Object(members) = arguments else { return integers(arguments) };
    for (name, value) in members {
        let fits = match input.get("properties").and_then(|all| all.get(name)).map(taken) {
            Some(Taken::Decimals) => is_each(value, &|number| decimal(number).is_some()),
            Some(Taken::Both) => has_only_exact_numbers(value),
            Some(Taken::Integers) | None => {
                integers(value)?;
                true
            }
        };
        if !fits {
            return Err(format!(
                "`/{name}`: a number has more than four decimal places, or is not within 10^11"
            ));
        }
    }
    Ok(())
}

/// The numbers that an argument accepts. Policies see a number as a decimal; of an opaque argument
/// they see only the digest.
enum Taken {
    Integers,
    Decimals,
    Both,
}

fn integers(value: &Value) -> Result<(), String> {
    let is_plain = has_only_exact_integers(value);
    if is_plain { Ok(()) } else { Err("a number is not a plain integer within 2^53".to_owned()) }
}

fn is_each(value: &Value, fits: &impl Fn(&Number) -> bool) -> bool {
    match value {
        Value::Number(number) => fits(number),
        Value::Array(items) => items.iter().all(|item| is_each(item, fits)),
        _ => true,
    }
}

fn taken(property: &Value) -> Taken {
    let is_number = |schema: &Value| match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "number"),
        Some(kind) => kind == "number",
        None => false,
    };
    match property.get("opaque") {
        Some(Value::Bool(true)) => Taken::Both,
        _ if is_number(property) || property.get("items").is_some_and(is_number) => Taken::Decimals,
        _ => Taken::Integers,
    }
}
