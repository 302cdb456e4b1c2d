//! `examples/`, as `examples/README.md` says to use them.

#![expect(clippy::disallowed_methods, reason = "a test looks at the environment")]

use crate::readme::{blocks, run_in};
use crate::support::{TestHome, start};
use std::path::Path;

/// The `sh` blocks of the page run to their ends, in order, on one home with a server.
#[test]
fn each_example_does_what_its_page_says() {
    for tool in ["curl", "jq"] {
        let is_there = start(Path::new(tool)).arg("--version").output().is_ok_and(|o| o.status.success());
        if !is_there {
            assert!(std::env::var_os("CI").is_none(), "{tool} is missing");
            eprintln!("\nSKIPPED: {tool} is missing\n");
            return;
        }
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let blocks = blocks(include_str!("../../examples/README.md"), "sh");
    assert!(blocks.len() >= 5, "the page has lost its blocks");
    let home = TestHome::init();
    let server = home.serve();
    let url = format!("http://{}", server.address);
    let folder = tempfile::tempdir().expect("folder");
    std::os::unix::fs::symlink(&source, folder.path().join("examples")).expect("link");
    for block in blocks {
        run_in(&home, &block, folder.path(), &[("PAR_URL", &url)]);
    }
}
