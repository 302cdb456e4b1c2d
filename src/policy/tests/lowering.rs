//! JSON Schema to Cedar: a schema is lowered or refused, and arguments that match it make a request
//! that Cedar accepts.

use super::{host, names, session, source, subject, top};
use crate::auth::Role;
use crate::policy::request::lower::{Unlowerable, least, record, record_type};
use crate::policy::{Approved, Bundle, Counts, PolicyError, Question, RecordedRequest, Ruling};
use crate::tools::{Catalog, Places, ProposedCall};
use crate::types::json::canonical;
use crate::types::{Digest, limits};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn lowered(property: &Value) -> Result<Value, Unlowerable> {
    let properties = json!({ "x": property });
    let input = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    record_type(&input).map(|record| record["attributes"].clone())
}

/// Each row of the table.
#[test]
fn the_lowering_is_total_or_refused() {
    let flat = |kind: &str| json!({ "x": { "type": kind, "required": false } });
    let many = |kind: &str| {
        json!({ "x": { "type": "Set", "element": { "type": kind }, "required": false },
                "x__len": { "type": "Long", "required": false } })
    };
    let decimal = json!({ "type": "Extension", "name": "decimal", "required": false });
    let opaque = json!({ "x": { "type": "Record", "required": false, "attributes": {
        "length": { "type": "Long" }, "sha256": { "type": "String" } } } });
    let longest = limits::TEXT_CHARS_MAX;
    for (property, expect) in [
        (
            json!({ "type": "string", "minLength": 1, "maxLength": 9, "pattern": "a", "description": "d" }),
            flat("String"),
        ),
        (json!({ "type": "string", "enum": ["a", "b"] }), flat("String")),
        (json!({ "type": "string", "maxLength": longest }), flat("String")),
        (json!({ "type": ["string", "null"], "maxLength": 9 }), flat("String")),
        (json!({ "type": "integer", "minimum": 0, "maximum": 5 }), flat("Long")),
        (json!({ "type": ["null", "integer"] }), flat("Long")),
        (json!({ "type": "number", "minimum": 0.5, "maximum": 5 }), json!({ "x": decimal })),
        (json!({ "type": "boolean" }), flat("Boolean")),
        (
            json!({ "type": "array", "items": { "type": "string", "maxLength": 9 }, "minItems": 1, "maxItems": 2, "uniqueItems": true }),
            many("String"),
        ),
        (json!({ "type": "array", "items": { "type": "string", "enum": ["a"] } }), many("String")),
        (json!({ "type": "array", "items": { "type": "integer" } }), many("Long")),
        (json!({ "type": "array", "items": { "type": "boolean" } }), many("Boolean")),
        (json!({ "type": ["array", "null"], "items": { "type": "boolean" } }), many("Boolean")),
        // Free text, and what sets `opaque` itself.
        (json!({ "type": "string" }), opaque.clone()),
        (json!({ "type": "string", "pattern": "^a$" }), opaque.clone()),
        (json!({ "type": "string", "maxLength": longest + 1 }), opaque.clone()),
        (json!({ "type": ["string", "null"] }), opaque.clone()),
        (json!({ "type": "array", "items": { "type": "string" } }), opaque.clone()),
        (json!({ "type": "string", "maxLength": 9, "opaque": true }), opaque.clone()),
        (json!({ "opaque": true }), opaque.clone()),
        (json!({ "type": ["string", "integer"], "opaque": true }), opaque.clone()),
        (json!({ "type": "object", "opaque": true }), opaque.clone()),
        (
            json!({ "type": "object", "opaque": true, "properties": { "a": { "type": "number" } }, "required": ["a"],
                    "patternProperties": { "^b": { "type": "string" } }, "additionalProperties": false }),
            opaque.clone(),
        ),
        (
            json!({ "type": "array", "opaque": true, "items": { "type": "array", "items": true } }),
            opaque.clone(),
        ),
        (
            json!({ "opaque": true, "oneOf": [{ "type": "string" }, { "not": { "type": "array" } }] }),
            opaque.clone(),
        ),
    ] {
        assert_eq!(lowered(&property).expect("lowered"), expect, "{property}");
    }
}

/// Nothing outside the table is lowered.
#[test]
fn what_is_not_in_the_table_is_refused_by_its_argument() {
    for property in [
        json!({ "type": "null" }),
        json!({ "type": "object" }),
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        json!({ "type": "object", "patternProperties": { "a": { "type": "string" } } }),
        json!({ "type": ["string", "integer"] }),
        json!({ "type": ["string", "integer", "null"] }),
        json!({ "type": ["null"] }),
        json!({ "type": [] }),
        json!({ "type": "array" }),
        json!({ "type": "array", "items": { "type": "array", "items": { "type": "string" } } }),
        json!({ "type": "array", "items": { "type": "object" } }),
        json!({ "type": "array", "items": { "type": ["integer", "null"] } }),
        json!({ "type": "array", "items": { "type": "string", "opaque": true } }),
        json!({ "type": "array", "prefixItems": [{ "type": "string" }], "items": { "type": "string" } }),
        json!({ "enum": ["a"] }),
        json!({ "const": "a" }),
        json!({ "oneOf": [{ "type": "string" }] }),
        json!({ "anyOf": [{ "type": "string" }] }),
        json!({ "$ref": "#/$defs/a" }),
        json!({ "opaque": true, "$ref": "#/$defs/a" }),
        json!({ "opaque": true, "type": "object", "properties": { "a": { "maxLenght": 5 } } }),
        json!({ "opaque": true, "anyOf": [{ "opaque": true }] }),
        json!({ "opaque": false, "type": "string" }),
        json!({ "opaque": "yes", "type": "string" }),
        json!(true),
        json!({}),
    ] {
        let unfit = lowered(&property).expect_err("refused");
        assert_eq!(unfit.argument.as_deref(), Some("x"), "{property}");
    }
}

#[test]
fn no_other_keyword_of_a_schema_is_ignored() {
    for word in [
        "format",
        "const",
        "default",
        "not",
        "if",
        "contentEncoding",
        "$ref",
        "allOf",
        "x-opaque",
        "multipleOf",
    ] {
        for kind in ["string", "integer", "number", "boolean"] {
            assert!(lowered(&json!({ "type": kind, word: 1 })).is_err(), "{kind} {word}");
        }
    }
    for word in ["patternProperties", "oneOf", "$defs", "minProperties", "dependentRequired", "propertyNames"]
    {
        let unfit = record_type(&json!({ "type": "object", "properties": {}, word: {} })).expect_err(word);
        assert!(unfit.reason.to_string().contains(word) && unfit.argument.is_none(), "{unfit:?}");
    }
    // No argument can take the name under which policies read the length of another, or the ledger
    // a value's type.
    let both = json!({ "type": "object", "properties": {
        "x": { "type": "array", "items": { "type": "integer" } }, "x__len": { "type": "integer" } } });
    assert!(record_type(&both).is_err());
    let entity =
        json!({ "type": "object", "properties": { "__entity": { "type": "string", "opaque": true } } });
    assert!(record_type(&entity).is_err());
}

#[test]
fn an_argument_is_lowered_or_a_deny() {
    let short = json!({ "type": "string", "maxLength": 9 });
    let input = json!({ "properties": { "s": short, "n": { "type": "integer" }, "d": { "type": "number" },
                        "a": { "type": "array", "items": { "type": "integer" } }, "z": { "type": ["integer", "null"] },
                        "t": { "type": "string" }, "o": { "opaque": true } } });
    let sha256 = |text: &str| Digest::sha256(text.as_bytes()).hex();
    let opaque = |text: &str| json!({ "length": text.len(), "sha256": sha256(text) });
    let decimal = |text: &str| json!({ "__extn": { "fn": "decimal", "arg": text } });
    for (arguments, expect) in [
        (json!({}), json!({})),
        (json!({ "s": "x", "n": i64::MAX }), json!({ "s": "x", "n": i64::MAX })),
        (json!({ "a": [] }), json!({ "a": [], "a__len": 0 })),
        (json!({ "a": [1, 1] }), json!({ "a": [1, 1], "a__len": 2 })),
        (json!({ "d": 1 }), json!({ "d": decimal("1.0") })),
        (json!({ "d": -0.25 }), json!({ "d": decimal("-0.25") })),
        (json!({ "z": null }), json!({})),
        (json!({ "z": 3 }), json!({ "z": 3 })),
        (json!({ "t": "é" }), json!({ "t": opaque("é") })),
        (json!({ "o": null }), json!({})),
        (json!({ "o": "a" }), json!({ "o": opaque("a") })),
        (json!({ "o": { "b": [1, 0.5], "a": null } }), json!({ "o": opaque(r#"{"a":null,"b":[1,0.5]}"#) })),
    ] {
        let told: Map<String, Value> =
            record(&input, &arguments).expect("lowered").iter().map(|(n, v)| (n.clone(), v.json())).collect();
        assert_eq!(Value::Object(told), expect, "{arguments}");
    }
    for bad in [
        json!([]),
        json!({ "s": 1 }),
        json!({ "n": 1.0 }),
        json!({ "n": u64::MAX }),
        json!({ "d": 0.00001 }),
        json!({ "d": 1e11 }),
        json!({ "d": "1" }),
        json!({ "a": [1, "x"] }),
        json!({ "a": 1 }),
        json!({ "more": 1 }),
        json!({ "s": null }),
        json!({ "o": 1e300 }),
    ] {
        assert!(record(&input, &bad).is_err(), "{bad}");
    }
}

/// A catalog with one tool, `any`, with these arguments.
fn catalog_of(properties: &Map<String, Value>, required: &[String]) -> Catalog {
    let input = json!({ "type": "object", "additionalProperties": false, "required": required,
                        "properties": properties });
    let manifest = json!({ "name": "any", "summary": "For tests.", "class": "read", "risk": "low",
        "builtin": "health_check", "untrusted_output": true, "resource": { "type": "Host", "is": "localhost" },
        "sandbox": {}, "input": input, "limits": { "wall_ms_max": 1, "output_bytes_max": 1,
        "memory_bytes_max": 1, "processes_max": 1 } });
    let folder = tempfile::tempdir().expect("folder");
    std::fs::write(folder.path().join("any.toml"), toml::to_string(&manifest).expect("TOML"))
        .expect("written");
    Catalog::load(folder.path(), &Places::default()).expect("a catalog")
}

fn load(catalog: &Catalog) -> Result<Bundle, Vec<PolicyError>> {
    let all =
        "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource is PAR::Host);\n";
    Bundle::load(&[source("p.cedar", all)], catalog, &names())
}

/// What policies see of a number. A number that two readers could read differently makes the call
/// invalid.
#[test]
fn a_number_keeps_its_value_or_the_call_is_invalid() {
    let properties = json!({ "rate": { "type": "number" }, "count": { "type": "integer" },
                             "all": { "type": "array", "items": { "type": "number" } }, "more": { "opaque": true } });
    let catalog = catalog_of(properties.as_object().expect("object"), &[]);
    let check = |arguments: &str| {
        let proposed = ProposedCall { id: "1".into(), tool: "any".into(), arguments: arguments.to_owned() };
        catalog.validate(proposed, |_| true).map(|valid| {
            assert_eq!(canonical(valid.arguments()).expect("canonical"), valid.canonical());
            valid.canonical().to_owned()
        })
    };
    for (arguments, expect) in [
        (r#"{"rate":0.5}"#, r#"{"rate":0.5}"#),
        (r#"{"rate":2.0}"#, r#"{"rate":2}"#),
        (r#"{"rate":1e3}"#, r#"{"rate":1000}"#),
        (r#"{"rate":-0.0}"#, r#"{"rate":0}"#),
        (r#"{"all":[1,0.25]}"#, r#"{"all":[1,0.25]}"#),
        (r#"{"more":{"x":[1.5]}}"#, r#"{"more":{"x":[1.5]}}"#),
    ] {
        assert_eq!(check(arguments).expect("a call"), expect);
    }
    for arguments in [
        r#"{"rate":0.00001}"#,
        r#"{"rate":0.30000000000000004}"#,
        r#"{"rate":100000000000}"#,
        r#"{"all":[0.00001]}"#,
        r#"{"more":{"x":[1e300]}}"#,
    ] {
        let invalid = check(arguments).expect_err(arguments);
        assert!(invalid.reason.contains("more than four decimal places"), "{}", invalid.reason);
    }
    for arguments in [r#"{"count":1.0}"#, r#"{"count":1e3}"#, r#"{"less":1.5}"#, "[0.5]"] {
        let invalid = check(arguments).expect_err(arguments);
        assert!(
            invalid.reason.contains("no plain integer") || invalid.reason.contains("not a plain"),
            "{arguments}"
        );
    }
}

/// Each row of the table in docs/policy.md: its rule loads over its schema, or the schema is
/// refused.
#[test]
fn the_table_in_the_docs_is_true() {
    let docs = std::fs::read_to_string(top().join("docs/policy.md")).expect("docs");
    let (_, table) =
        docs.split_once("| JSON Schema | type | in a rule |\n|---|---|---|\n").expect("the table");
    let code = |cell: &str| cell.split('`').nth(1).map(str::to_owned);
    let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 15, "{rows:?}");
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").collect();
        let schema: Value = serde_json::from_str(&code(cells[0]).expect("schema")).expect(row);
        let properties = Map::from_iter([("x".to_owned(), schema)]);
        let rule = cells.get(2).and_then(|cell| code(cell));
        let is_optional = rule.as_deref().is_some_and(|rule| rule.starts_with("context.input has"));
        let is_null = properties["x"]["type"].is_array() || properties["x"].get("type").is_none();
        let required = if is_optional && !is_null { Vec::new() } else { vec!["x".to_owned()] };
        let catalog = catalog_of(&properties, &required);
        let loaded = |rule: &str| {
            let text = format!(
                "@id(\"p\") permit(principal, action == PAR::Action::\"any\", resource) when {{ {rule} }};"
            );
            Bundle::load(&[source("p.cedar", &text)], &catalog, &names())
        };
        match rule {
            Some(rule) => drop(loaded(&rule).unwrap_or_else(|errors| panic!("{row}: {errors:?}"))),
            None => {
                assert!(cells[1].starts_with("refused"), "{row}");
                let errors = loaded("true").expect_err(row);
                assert_eq!(errors[0].file, "tools.d/any.toml", "{row}");
            }
        }
        // What the table calls optional is optional.
        if let Some((_, rest)) = is_optional.then(|| cells[2].split_once("&& ")).flatten() {
            loaded(rest.split('`').next().expect("rule")).expect_err(row);
        }
    }
}

/// A refusal has the file and line of the argument.
#[test]
fn a_refusal_names_its_line() {
    let mut properties = Map::new();
    properties.insert("good".to_owned(), json!({ "type": "boolean" }));
    properties.insert("wild".to_owned(), json!({ "type": ["string", "integer"] }));
    let catalog = catalog_of(&properties, &[]);
    let text = &catalog.find("any").expect("tool").text;
    let line = text.lines().position(|line| line.contains("wild")).expect("line") + 1;
    let errors = load(&catalog).expect_err("refused");
    assert_eq!((errors[0].file.as_str(), errors[0].line), ("tools.d/any.toml", Some(line)), "{text}");
    assert!(errors[0].shown.as_deref().is_some_and(|shown| shown.contains("wild")), "{errors:?}");
    assert!(errors[0].reason.contains("more than one type"), "{errors:?}");
}

/// An argument's schema, a value, and the expected result.
#[derive(Clone, Debug)]
struct Piece {
    schema: Value,
    value: Value,
    is_supported: bool,
}

fn flat() -> impl Strategy<Value = (Value, Value)> {
    let number = prop_oneof![
        any::<f64>().prop_filter("JSON has no other", |float| float.is_finite()).prop_map(Value::from),
        any::<i64>().prop_map(|number| Value::from(number / 1_024)),
        (-9_999_999_i32..9_999_999).prop_map(|units| Value::from(f64::from(units) / 10_000.0)),
    ];
    prop_oneof![
        "\\PC{0,8}".prop_map(|text| (json!({ "type": "string", "maxLength": 8 }), json!(text))),
        prop::sample::select(vec!["a", "b"])
            .prop_map(|word| (json!({ "type": "string", "enum": ["a", "b"] }), json!(word))),
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991)
            .prop_map(|number| (json!({ "type": "integer" }), json!(number))),
        number.prop_map(|number| (json!({ "type": "number" }), number)),
        any::<bool>().prop_map(|flag| (json!({ "type": "boolean" }), json!(flag))),
    ]
}

fn array() -> impl Strategy<Value = (Value, Value)> {
    (flat(), 0_usize..3).prop_map(|((schema, value), times)| {
        (json!({ "type": "array", "items": schema }), Value::Array(vec![value; times]))
    })
}

/// Schemas that have no policy type.
fn wild() -> impl Strategy<Value = (Value, Value)> {
    let leaf = flat().prop_map(|(_, value)| value);
    let tree = leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..3).prop_map(|map| json!(map)),
            Just(Value::Null),
        ]
    });
    (0_usize..5, tree).prop_map(|(which, tree)| match which {
        0 => (json!({ "type": ["string", "integer", "array", "object", "number", "boolean"] }), tree),
        1 => (json!({ "type": "object" }), json!({ "in": tree })),
        2 => (json!({ "type": "object", "patternProperties": { "^i": true } }), json!({ "in": tree })),
        3 => (json!({ "type": "array", "items": { "type": "array" } }), json!([[tree]])),
        _ => (json!({ "anyOf": [true, { "type": "string" }] }), tree),
    })
}

fn pieces() -> impl Strategy<Value = Piece> {
    let plain = |(schema, value)| Piece { schema, value, is_supported: true };
    let with_null = |(mut schema, value): (Value, Value), is_null: bool| {
        schema["type"] = json!([schema["type"], "null"]);
        schema.as_object_mut().map(|words| words.remove("enum"));
        Piece { schema, value: if is_null { Value::Null } else { value }, is_supported: true }
    };
    let opaque = |(mut schema, value): (Value, Value)| {
        schema["opaque"] = json!(true);
        Piece { schema, value, is_supported: true }
    };
    prop_oneof![
        4 => flat().prop_map(plain),
        2 => array().prop_map(plain),
        2 => (prop_oneof![flat(), array()], any::<bool>()).prop_map(move |(one, is_null)| with_null(one, is_null)),
        1 => "\\PC{0,40}".prop_map(move |text| plain((json!({ "type": "string" }), json!(text)))),
        2 => prop_oneof![flat(), array(), wild()].prop_map(opaque),
        1 => wild().prop_map(|(schema, value)| Piece { schema, value, is_supported: false }),
    ]
}

proptest! {
    #![proptest_config(crate::types::laws::cases(128))]

    /// A schema is refused, or all arguments that match it make a request that passes Cedar's
    /// strict check and can be read back from the ledger; a number that does not round-trip makes
    /// the call invalid. These are the only outcomes.
    #[test]
    fn what_fits_is_a_request_or_the_schema_is_refused(
        pieces in prop::collection::vec((pieces(), any::<bool>(), any::<bool>()), 0..5),
    ) {
        let (mut properties, mut required, mut arguments) = (Map::new(), Vec::new(), Map::new());
        for (at, (piece, is_required, is_given)) in pieces.iter().enumerate() {
            let name = format!("x{at}");
            properties.insert(name.clone(), piece.schema.clone());
            if *is_required {
                required.push(name.clone());
            }
            // Only JSON Schema's own validator can judge a value with a null inside.
            if *is_required || *is_given {
                arguments.insert(name, piece.value.clone());
            }
        }
        let is_supported = pieces.iter().all(|(piece, _, _)| piece.is_supported);
        let catalog = catalog_of(&properties, &required);
        let bundle = match load(&catalog) {
            Err(errors) => {
                prop_assert!(!is_supported && errors.iter().all(|error| error.line.is_some()), "{:?}", errors);
                return Ok(());
            }
            Ok(bundle) => bundle,
        };
        prop_assert!(is_supported);
        let text = Value::Object(arguments).to_string();
        let proposed = ProposedCall { id: "1".into(), tool: "any".into(), arguments: text.clone() };
        let valid = match catalog.validate(proposed, |_| true) {
            Ok(valid) => valid,
            Err(invalid) => {
                let is_number = invalid.reason.contains("more than four decimal places");
                prop_assert!(is_number || text.contains("null"), "{}", invalid.reason);
                return Ok(());
            }
        };
        let (session, subject) = (session(&catalog), subject(Role::Operator));
        let verdict = bundle.decide(&Question {
            subject: &subject,
            session: &session,
            manifest: valid.manifest(),
            arguments: valid.arguments(),
            resource: &host(),
            approved: Approved::No,
            now_us: 0,
            source_ip: None,
            channel: crate::types::Channel::Http,
            counts: Counts::default(),
            origins: None,
            is_chosen: false,
            is_halted: false,
        });
        prop_assert_eq!(&verdict.answer, &Ruling::Allow { policies: vec!["all".to_owned()] }, "{}", text);
        canonical(&verdict.request).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let recorded = RecordedRequest::read(&verdict.request).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let again = bundle.decide_other(&recorded);
        prop_assert_eq!((&again.answer, again.fits), (&verdict.answer, true));
        // The smallest record too, which the canary uses.
        prop_assert!(least(&valid.manifest().input).is_ok());
    }
}
