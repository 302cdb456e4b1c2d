//! Only its mint makes a proof: the compiler refuses the code that an outsider or a module in the
//! same room would write, and names the private field.
//!
//! Needs the source and the compiler. Each row of [`PROOFS`] is compiled twice, with `rustc
//! --emit=metadata`: as a separate crate against the built library, and as a function in a sibling
//! module of the mint, in a copy of the library's source. [`SEALS`] does the same for the trait
//! that only one module implements.

#![expect(clippy::disallowed_methods, reason = "it starts the compiler, where cargo says it is")]

use crate::tidy::source::top;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A proof, and the code that tries to forge it.
struct Proof {
    /// The path by which others name it.
    name: &'static str,
    /// Its generic arguments, if there are any.
    of: &'static str,
    /// The private field that the forger names.
    field: &'static str,
    /// An invented value for that field.
    value: &'static str,
    /// A file in the same room other than the mint: the sibling's forgery goes there.
    sibling: &'static str,
}

const PROOFS: [Proof; 12] = [
    proof("ledger::Receipt", "seq", "7", "ledger/write/writer.rs"),
    proof("gate::Permit", "not_after_us", "u64::MAX", "gate/commit.rs"),
    proof("gate::Running", "decision", "7", "gate/mint/permit.rs"),
    proof("gate::Order", "arguments", "String::new()", "gate/mint/running.rs"),
    proof("gate::ToolResult", "seq", "7", "gate/recall.rs"),
    proof("gate::Waiting", "seq", "7", "gate/commit.rs"),
    proof("gate::Asked", "grant", "None", "gate/recall.rs"),
    proof("gate::ModelPermit", "seq", "7", "gate/ask.rs"),
    proof("gate::Granted", "policies", "Vec::new()", "gate/power.rs"),
    proof("auth::Principal", "expires_us", "None", "auth/authority.rs"),
    proof("tools::ValidCall", "canonical", "String::new()", "tools/numbers.rs"),
    Proof { of: "<String>", ..proof("secrets::Clean", "kept", "String::new()", "secrets/hold.rs") },
];

const fn proof(name: &'static str, field: &'static str, value: &'static str, sibling: &'static str) -> Proof {
    Proof { name, of: "", field, value, sibling }
}

impl Proof {
    /// A function that makes a proof from another one.
    fn forgery(&self, krate: &str, at: usize) -> String {
        let Self { name, of, field, value, .. } = self;
        let path = format!("{krate}::{name}");
        format!(
            "#[allow(dead_code)]\nfn forge_{at}(mut one: {path}{of}) -> {path}{of} {{\n    one.{field} = {value};\n    one\n}}\n"
        )
    }

    /// Whether the compiler says that the forger's field is private, by its name and that of the
    /// proof.
    fn is_refused(&self, told: &str) -> bool {
        let of = self.name.rsplit("::").next().expect("a name");
        let first = told.lines().find(|line| line.starts_with("error[E0616]")).unwrap_or_default();
        let names_struct =
            first.split('`').any(|word| word.rsplit("::").next().is_some_and(|last| last.starts_with(of)));
        first.contains(&format!("`{}`", self.field)) && names_struct && first.contains("private")
    }
}

#[test]
fn no_outsider_makes_a_proof() {
    let place = tempfile::tempdir().expect("folder");
    let built = Built::find();
    for (at, proof) in PROOFS.iter().enumerate() {
        let told = built.outsider(place.path(), &proof.forgery("par", at));
        assert!(proof.is_refused(&told), "{}: {told}", proof.name);
    }
}

#[test]
fn no_sibling_makes_a_proof() {
    let place = tempfile::tempdir().expect("folder");
    let built = Built::find();
    let source = copied(place.path());
    for (at, proof) in PROOFS.iter().enumerate() {
        let sibling = source.join(proof.sibling);
        let text = std::fs::read_to_string(&sibling).unwrap_or_else(|e| panic!("{}: {e}", proof.sibling));
        std::fs::write(&sibling, text + "\n" + &proof.forgery("crate", at)).expect("written");
    }
    let told = built.sibling(place.path());
    let errors: Vec<&str> = told.split("\n\n").filter(|part| part.starts_with("error[")).collect();
    assert_eq!(errors.len(), PROOFS.len(), "an error for each, and no other: {told}");
    for proof in &PROOFS {
        let is_this = |error: &&&str| error.contains(proof.sibling) && proof.is_refused(error);
        assert_eq!(errors.iter().filter(is_this).count(), 1, "{} in {}: {told}", proof.name, proof.sibling);
    }
}

/// [`Hold`](par::secrets::Hold) is not a value but a trait: its implementations decide what is
/// searched.
///
/// Each way to implement it for a foreign type, with the compiler's answer: the code, and the
/// private name.
const SEALS: [(Forger, &str, &str, &str); 4] = [
    (Forger::Outsider, "impl par::secrets::Hold for Mine {}", "error[E0277]", "Sealed` is not satisfied"),
    (
        Forger::Outsider,
        "impl par::secrets::hold::sealed::Sealed for Mine {}",
        "error[E0603]",
        "module `hold` is private",
    ),
    (Forger::Sibling, "impl crate::secrets::Hold for Mine {}", "error[E0277]", "Sealed` is not satisfied"),
    (
        Forger::Sibling,
        "impl crate::secrets::hold::sealed::Sealed for Mine {}",
        "error[E0603]",
        "module `sealed` is private",
    ),
];

/// Text enters a conversation only with the labels of its sources (L1): each way to push text
/// without them, with the type that the compiler misses.
const UNLABELLED: [(&str, &str); 4] = [
    (
        "fn a(chat: &mut Conversation, text: Clean<String>) { chat.push_user(text); }",
        "Labelled<Clean<String>>",
    ),
    (
        "fn b(chat: &mut Conversation, reply: &Clean<ModelReply>) { chat.push_reply(reply); }",
        "&Labelled<Clean<ModelReply>>",
    ),
    ("fn c(text: String) -> Conversation { Conversation::new(text) }", "Labelled<String>"),
    (
        "fn d(chat: &mut Conversation, text: Labelled<String>) { chat.push_user(text); }",
        "Labelled<Clean<String>>",
    ),
];

#[test]
fn no_text_without_labels_enters_a_conversation() {
    let place = tempfile::tempdir().expect("folder");
    let built = Built::find();
    for (forgery, missing) in UNLABELLED {
        let source = format!(
            "#![allow(unused)]\nuse par::llm::{{Conversation, ModelReply}};\nuse par::secrets::Clean;\n\
             use par::types::Labelled;\n{forgery}\n"
        );
        let told = built.outsider(place.path(), &source);
        let is_it = |error: &str| error.starts_with("error[E0308]") && error.contains(missing);
        let errors: Vec<&str> = told.split("\n\n").filter(|part| part.starts_with("error[")).collect();
        assert!(matches!(errors.as_slice(), [one] if is_it(one)), "{forgery}: {told}");
    }
}

/// Where a forgery of the seal is written.
#[derive(Debug)]
enum Forger {
    Outsider,
    /// A file of the same room.
    Sibling,
}

#[test]
fn no_other_module_decides_how_a_value_is_searched() {
    let place = tempfile::tempdir().expect("folder");
    let built = Built::find();
    let sibling = copied(place.path()).join("secrets/clean.rs");
    let plain = std::fs::read_to_string(&sibling).expect("text");
    for (forger, forgery, code, private) in SEALS {
        let forgery = format!("#[allow(dead_code)]\nstruct Mine(String);\n{forgery}\n");
        let told = match forger {
            Forger::Outsider => built.outsider(place.path(), &forgery),
            Forger::Sibling => {
                std::fs::write(&sibling, format!("{plain}\n{forgery}")).expect("written");
                built.sibling(place.path())
            }
        };
        let is_it = |error: &str| error.starts_with(code) && error.contains(private);
        assert!(told.split("\n\n").any(is_it), "{forger:?}, {forgery}: {told}");
    }
}

/// The artifacts that `cargo test` has built.
struct Built {
    /// The library.
    library: PathBuf,
    /// Its folder, with all dependencies.
    folder: PathBuf,
    /// The dependencies that the library names, by the names that it has for them.
    direct: BTreeMap<String, PathBuf>,
}

impl Built {
    /// Asks cargo, which builds nothing here that `cargo test` has not built.
    fn find() -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["test", "--locked", "--offline", "--no-run", "--test", "it", "--message-format=json"]);
        let output = command.current_dir(top()).output().expect("cargo starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let wanted = direct_dependencies();
        let (mut library, mut direct) = (None, BTreeMap::new());
        for line in String::from_utf8(output.stdout).expect("UTF-8").lines() {
            let message: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let kinds = message["target"]["kind"].as_array().cloned().unwrap_or_default();
            let has = |kind: &str| kinds.iter().any(|one| one == kind);
            if message["reason"] != "compiler-artifact" || !(has("lib") || has("rlib") || has("proc-macro")) {
                continue;
            }
            let name = message["target"]["name"].as_str().expect("a name").replace('-', "_");
            let id = message["package_id"].as_str().expect("an id");
            let files = message["filenames"].as_array().expect("files").iter();
            let mut files = files.filter_map(serde_json::Value::as_str).map(PathBuf::from);
            let wants = |file: &PathBuf| file.extension().is_some_and(|e| e == "rlib" || e == "so");
            let Some(file) = files.find(wants) else { continue };
            let version = id.rsplit(['#', '@']).next().unwrap_or_default();
            if name == "par" {
                library = Some(file);
            } else if wanted
                .iter()
                .any(|(one, of)| *one == name && of.as_ref().is_none_or(|of| of == version))
            {
                direct.insert(name, file);
            }
        }
        let library = library.expect("the library is built");
        let folder = library.parent().expect("a folder").to_owned();
        let folder = if folder.ends_with("deps") { folder } else { folder.join("deps") };
        Self { library, folder, direct }
    }

    /// The compiler's answer to `forgery` in a separate crate, with the built library.
    fn outsider(&self, place: &Path, forgery: &str) -> String {
        let source = place.join("outsider.rs");
        std::fs::write(&source, format!("{forgery}fn main() {{}}\n")).expect("source");
        let mut rustc = self.rustc(place);
        rustc.args(["--crate-name", "outsider", "--crate-type", "bin"]);
        rustc.arg("--extern").arg(format!("par={}", self.library.display())).arg(&source);
        refused(&mut rustc)
    }

    /// The compiler's answer to the library's source below `place`, see [`copied`].
    fn sibling(&self, place: &Path) -> String {
        let mut rustc = self.rustc(place);
        rustc.args(["--crate-name", "par", "--crate-type", "lib", "--cap-lints", "allow"]);
        rustc.env("CARGO_MANIFEST_DIR", place).env("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION"));
        for (name, file) in &self.direct {
            rustc.arg("--extern").arg(format!("{name}={}", file.display()));
        }
        refused(rustc.arg(place.join("src/lib.rs")))
    }

    fn rustc(&self, out: &Path) -> Command {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        command.args(["--edition", "2024", "--emit=metadata", "--out-dir"]).arg(out);
        command.arg("-L").arg(format!("dependency={}", self.folder.display()));
        command
    }
}

/// The dependencies of the library in `Cargo.lock`: its name in code, and its version if there are
/// several.
fn direct_dependencies() -> Vec<(String, Option<String>)> {
    let lock = std::fs::read_to_string(top().join("Cargo.lock")).expect("lock");
    let lock: toml::Table = lock.parse().expect("TOML");
    let packages = lock["package"].as_array().expect("packages");
    let ours = packages.iter().find(|package| package["name"].as_str() == Some("par")).expect("par");
    let listed = ours["dependencies"].as_array().expect("dependencies");
    let read = |line: &toml::Value| {
        let mut words = line.as_str().expect("text").split(' ');
        (words.next().expect("a name").replace('-', "_"), words.next().map(str::to_owned))
    };
    listed.iter().map(read).collect()
}

/// The errors of a compiler that refuses.
fn refused(rustc: &mut Command) -> String {
    let output = rustc.output().expect("rustc starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it compiles: {told}");
    told
}

/// Copies the library's source to `place`, next to links to what it includes. Returns its folder.
fn copied(place: &Path) -> PathBuf {
    let source = place.join("src");
    copy(&top().join("src"), &source);
    for item in std::fs::read_dir(top()).expect("repository") {
        let item = item.expect("entry");
        if !["src", "target", ".git"].contains(&item.file_name().to_string_lossy().as_ref()) {
            std::os::unix::fs::symlink(item.path(), place.join(item.file_name())).expect("link");
        }
    }
    source
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("folder");
    for item in std::fs::read_dir(from).expect("folder") {
        let item = item.expect("entry");
        let (path, target) = (item.path(), to.join(item.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("copied");
        }
    }
}
