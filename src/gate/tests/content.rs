//! Which claims about the content of a folder the gate accepts, and what the record keeps of it.

use super::{Bench, EVERYTHING};
use crate::call::{Content, Listing, Object};
use crate::gate::Outcome;
use crate::types::{Digest, limits};
use serde_json::{Value, json};

fn listing() -> Listing {
    Listing { sha256: Digest::sha256(b"a listing").hex(), files: 3, folders: 1, bytes: 12 }
}

fn content(folder: &str, listing: Option<Listing>) -> Object {
    Object::Content(Content { folder: folder.to_owned(), listing })
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_folder_of_the_call_counts() {
    let bench = tokio::task::block_in_place(|| Bench::open(EVERYTHING));
    let of = |tool: &str, object| {
        let arguments =
            if tool == "deploy" { json!({ "project": "demo", "version": "1.0" }) } else { json!({}) };
        bench.decide(tool, &arguments, object)
    };
    let over = |change: fn(&mut Listing)| {
        let mut listing = listing();
        change(&mut listing);
        content("incoming/1.0", Some(listing))
    };
    for (tool, object, expect) in [
        ("deploy", content("incoming/1.0", Some(listing())), "allow"),
        ("deploy", content("incoming/1.0", None), "allow"),
        ("deploy", content("incoming/1.1", Some(listing())), "deny"),
        ("deploy", content("/incoming/1.0", Some(listing())), "deny"),
        ("deploy", over(|listing| listing.sha256.clear()), "deny"),
        ("deploy", over(|listing| listing.sha256.replace_range(..1, "/")), "deny"),
        ("deploy", over(|listing| listing.bytes = limits::CONTENT_BYTES_MAX + 1), "deny"),
        ("deploy", over(|listing| listing.files = u64::MAX), "deny"),
        ("deploy", Object::Fixed, "deny"),
        ("deploy", Object::Outside, "deny"),
        ("health_check", Object::Fixed, "allow"),
        ("health_check", content("incoming/1.0", None), "deny"),
    ] {
        assert_eq!(of(tool, object.clone()).word.as_str(), expect, "{tool} {object:?}");
    }
    let Outcome::Permit(permit) = bench.commit(of("deploy", content("incoming/1.0", Some(listing())))).await
    else {
        panic!("no permit")
    };
    let object: Value = bench.payload(1)["object"].clone();
    let expect = json!({ "is": "content", "folder": "incoming/1.0", "sha256": listing().sha256, "files": 3,
                         "folders": 1, "bytes": 12 });
    assert_eq!(object, expect);
    drop(permit);
    let words = crate::gate::describe_content(&json!({ "object": object })).expect("words");
    let digits = listing().sha256;
    assert_eq!(
        words,
        format!("incoming/1.0: 3 files, 1 folders, 12 bytes, sha256 {}…", digits.get(..16).expect("digits"))
    );
    let absent = json!({ "object": { "is": "content", "folder": "incoming/1.0" } });
    assert_eq!(crate::gate::describe_content(&absent).as_deref(), Some("incoming/1.0: not there"));
    assert_eq!(crate::gate::describe_content(&json!({ "object": { "is": "fixed" } })), None);
}
