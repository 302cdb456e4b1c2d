use super::{ini, read_config};
use serde_json::{Value, json};
use std::io::Write as _;
use std::os::fd::AsFd as _;

fn read(path: &str, content: &[u8], arguments: &Value, cap: usize) -> Result<Value, String> {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(content).expect("written");
    read_config(file.as_fd(), path, arguments, cap, "h")
}

fn values(path: &str, content: &str) -> Value {
    read(path, content.as_bytes(), &json!({}), 65_536).expect("values")["values"].clone()
}

#[test]
fn values_have_types() {
    let toml =
        values("/d/a.toml", "port = 80\nratio = 0.5\non = true\nat = 2026-01-01\n[db]\nhosts = ['a', 'b']\n");
    assert_eq!(
        toml,
        json!({ "port": 80, "ratio": "0.5", "on": true, "at": "2026-01-01", "db": { "hosts": ["a", "b"] } })
    );
    let ini = values(
        "/d/x.service",
        "# c\nplain = 1\n[Unit]\nDescription=\"A b\"\n[Service]\nExecStart=/x -y\nExecStart=/z\nUMask=0022\nOn: true\nskip-this\n",
    );
    assert_eq!(
        ini,
        json!({
            "plain": 1,
            "Unit": { "Description": "A b" },
            "Service": { "ExecStart": ["/x -y", "/z"], "UMask": "0022", "On": true, "skip-this": true },
        })
    );
    assert_eq!(values("/d/a.json", r#"{"a":[1,0.25,null]}"#), json!({ "a": [1, "0.25", null] }));
}

/// YAML is not read, and the answer says so.
#[test]
fn a_format_that_is_not_read_is_named() {
    for path in ["/d/a.yaml", "/d/a.YML"] {
        let why = read(path, b"a: 1\n", &json!({}), 65_536).expect_err(path);
        assert!(why.contains("is YAML, which this tool does not read: `read_file`"), "{why}");
    }
    let why = read("/d.d/none", b"a = 1\n", &json!({}), 65_536).expect_err("a name");
    assert!(why.contains("give `format`"), "{why}");
}

/// H22: what looks like a secret is left out, under any spelling, and no error repeats a line.
#[test]
fn secrets_are_left_out() {
    let content = "[db]\npassword = \"S3CRET\"\nurl = \"postgres://me:S3CRET@h/x\"\n[tokens]\na = \"S3CRET\"\n\
                   list = [\"S3CRET\", 5]\n[tls]\ncert = '''-----BEGIN RSA PRIVATE KEY-----\nS3CRET'''\napi-key = 55512345\n";
    let answer = read("/d/a.toml", content.as_bytes(), &json!({}), 65_536).expect("values");
    assert!(!answer.to_string().contains("S3CRET") && !answer.to_string().contains("55512345"), "{answer}");
    assert_eq!(answer["left_out"], 6, "{answer}");
    assert_eq!(answer["values"]["db"]["url"], "postgres://[left out]@h/x");
    for (path, content) in [
        ("/d/a.toml", "password = S3CRET S3CRET"),
        ("/d/a.json", "{\"password\": S3CRET}"),
        ("/d/a.ini", "[x\nS3CRET = 1"),
        ("/d/a.ini", "S3CRET S3CRET"),
    ] {
        let refused = read(path, content.as_bytes(), &json!({}), 65_536).expect_err(path);
        assert!(refused.contains("line 1") && !refused.contains("S3CRET"), "{refused}");
    }
}

#[test]
fn a_key_selects_and_what_is_too_large_is_named() {
    let content: String = (0..2_000).map(|at| format!("name_{at} = 'value'\n")).collect();
    let large = read("/d/a.toml", content.as_bytes(), &json!({}), 8_192).expect("names");
    assert_eq!((&large["truncated"], &large["names"][0]), (&json!(true), &json!("name_0")));
    assert!(large.to_string().len() < 8_192 && large.get("values").is_none());
    let one = read("/d/a.toml", content.as_bytes(), &json!({ "key": "name_7" }), 8_192).expect("one");
    assert_eq!(one["values"], "value");
    let nested = b"[a.\"b.c\"]\nd = [1, { e = 2 }]\npassword = 'S3CRET'\n";
    for (key, expect) in [("a.b.c.d.1.e", json!(2)), ("a.b.c.password", json!("[left out]"))] {
        let answer = read("/d/a.toml", nested, &json!({ "key": key }), 8_192).expect(key);
        assert_eq!(answer["values"], expect, "{key}");
    }
    assert!(read("/d/a.toml", nested, &json!({ "key": "x" }), 8_192).is_err());
}

#[test]
fn strange_files_are_errors_or_bounded() {
    let error = |path: &str, content: &[u8]| read(path, content, &json!({}), 65_536).expect_err("refused");
    assert!(error("/d/a", b"x = 1").contains("give `format`"));
    assert!(error("/d/a.toml", b"\xff").contains("UTF-8"));
    assert!(error("/d/a.ini", &vec![b'#'; (512 << 10) + 1]).contains("larger"));
    assert!(error("/d/a.json", "[".repeat(5_000).as_bytes()).contains("malformed"));
    let deep = "[".repeat(100) + &"]".repeat(100);
    let answer = read("/d/a.json", deep.as_bytes(), &json!({}), 65_536).expect("values");
    assert_eq!(answer["left_out"], 1);
    assert_eq!(ini("a = 1\n[a]\nb = 2\n"), Ok(json!({ "a": { "b": 2 } })));
    let answer = read("/d/x", b"a: b", &json!({ "format": "ini" }), 65_536).expect("values");
    assert_eq!(answer["values"], json!({ "a": "b" }));
}
