//! Schemas of tools as each protocol takes them, in a golden file.

use super::scripted::{chat, written};
use crate::llm::ToolOffer;
use crate::llm::remote::wire::Wire;
use crate::llm::wires::anthropic::Messages;
use crate::llm::wires::gemini::GenerateContents;
use crate::llm::wires::ollama::OllamaChats;
use crate::llm::wires::openai::ChatCompletions;
use crate::llm::wires::responses::Responses;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// A tool with the words of JSON Schema that the shipped ones do not use.
fn every_word() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": false,
        "required": ["one"],
        "properties": {
            "one": {"const": "x", "description": "a constant"},
            "two": {"enum": [1, 2], "description": "numbers"},
            "three": {"type": ["string", "null"], "format": "uuid", "pattern": "^x$"},
            "four": {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "exclusiveMinimum": 1}]},
            "five": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}},
                "uniqueItems": true, "maxItems": 4},
            "six": {"type": ["string", "integer"]},
            "seven": true,
        },
    })
}

fn shipped() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d");
    let mut tools = Vec::new();
    for item in std::fs::read_dir(folder).expect("a folder") {
        let text = std::fs::read_to_string(item.expect("an entry").path()).expect("a manifest");
        let manifest: toml::Table = toml::from_str(&text).expect("TOML");
        let name = manifest["name"].as_str().expect("a name").to_owned();
        tools.push((name, serde_json::to_value(&manifest["input"]).expect("JSON")));
    }
    tools.push(("every_word".to_owned(), every_word()));
    tools.sort_by(|(one, _), (other, _)| one.cmp(other));
    tools
}

fn lowered<W: Wire>(input: &Value, pointer: &str) -> Value {
    let offer = ToolOffer { name: "t".to_owned(), summary: "Does.".to_owned(), input: input.clone() };
    let sent = written::<W>(&chat(""), &[offer]);
    sent.pointer(pointer).unwrap_or_else(|| panic!("{pointer} in {sent}")).clone()
}

#[test]
fn each_wire_has_one_form_of_a_schema() {
    let mut table = String::new();
    let named = ["deploy", "every_word", "health_check", "search_files"];
    for (name, input) in shipped().into_iter().filter(|(name, _)| named.contains(&name.as_str())) {
        writeln!(table, "{name}").expect("written");
        let forms = [
            ("openai", lowered::<ChatCompletions>(&input, "/tools/0/function/parameters")),
            ("openai_responses", lowered::<Responses>(&input, "/tools/0/parameters")),
            ("anthropic", lowered::<Messages>(&input, "/tools/0/input_schema")),
            ("gemini", lowered::<GenerateContents>(&input, "/tools/0/functionDeclarations/0/parameters")),
            ("ollama", lowered::<OllamaChats>(&input, "/tools/0/function/parameters")),
        ];
        for (wire, form) in forms {
            let form = if form == input { "the manifest's own".to_owned() } else { form.to_string() };
            writeln!(table, "  {wire}: {form}").expect("written");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/llm/tests/schemas.txt");
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(table == golden, "{} should be\n{table}", path.display());
}

/// The server refuses a word that it does not know.
#[test]
fn gemini_gets_only_the_words_that_it_knows() {
    fn words(schema: &Value, found: &mut Vec<String>) {
        let Value::Object(members) = schema else { return };
        found.extend(members.keys().cloned());
        let properties = members.get("properties").and_then(Value::as_object);
        properties.into_iter().flat_map(|all| all.values()).for_each(|one| words(one, found));
        members.get("items").into_iter().for_each(|one| words(one, found));
        members
            .get("anyOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .for_each(|one| words(one, found));
    }
    for (name, input) in shipped() {
        let mut found = Vec::new();
        words(&lowered::<GenerateContents>(&input, "/tools/0/functionDeclarations/0/parameters"), &mut found);
        let unknown =
            ["additionalProperties", "$schema", "const", "oneOf", "exclusiveMinimum", "uniqueItems"];
        assert!(!found.iter().any(|word| unknown.contains(&word.as_str())), "{name}: {found:?}");
    }
}
