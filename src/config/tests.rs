//! Models by name: what is read, what is refused, and where keys come from.

use super::{Config, Home, KeyPlace};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

/// A home with this configuration.
struct TestFolder(tempfile::TempDir);

impl TestFolder {
    fn new(toml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("etc/credentials")).expect("folders");
        std::fs::create_dir(folder.path().join("data")).expect("a folder");
        std::fs::write(folder.path().join("etc/par.toml"), toml).expect("par.toml");
        Self(folder)
    }

    fn load(&self) -> Result<Config, String> {
        let home = Home::locate(Some(self.0.path()), None).expect("a home");
        Config::load(home)
            .map_err(|e| e.0.into_iter().map(|fault| fault.reason).collect::<Vec<_>>().join("\n"))
    }

    fn key(&self, name: &str, text: &str, mode: u32) {
        let path = self.0.path().join("etc/credentials").join(name);
        std::fs::write(&path, text).expect("a key");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
    }
}

fn load(toml: &str) -> Result<Config, String> {
    TestFolder::new(toml).load()
}

const TWO: &str = "[llm]\nuse = [\"fast\", \"local\"]\n[models.fast]\nwire = \"anthropic\"\nmodel = \"m\"\n\
                   input_price = 2.5\nidle_ms = 5\n[models.local]\nwire = \"openai\"\nmodel = \"l\"\n\
                   base_url = \"http://ollama.lan:1/v1\"\naddresses = [\"10.0.0.0/8\"]\nkey = \"none\"\n\
                   [models.spare]\nwire = \"offline\"\n";

#[test]
fn models_are_asked_in_the_order_of_use() {
    let models = load(TWO).expect("read").models;
    assert_eq!(models.asked().map(|model| &*model.name).collect::<Vec<_>>(), ["fast", "local"]);
    assert_eq!(models.all.len(), 3);
    let fast = models.find("fast").expect("fast");
    assert_eq!(
        (fast.input_price.map(|price| price.to_string()).as_deref(), fast.output_price),
        (Some("2.5"), None)
    );
    assert_eq!(fast.waits.idle, Duration::from_millis(5));
    assert_eq!(fast.secret_name(), "models.fast.key");
    assert_eq!(models.find("local").expect("local").addresses.len(), 1);
    assert_eq!(models.nearest("fsat"), Some("fast"));
}

#[test]
fn the_one_model_of_llm_is_called_default() {
    for (toml, wire) in [
        ("", "offline"),
        ("[llm]\nuse = []\n", "offline"),
        ("[llm]\nprovider = \"openai\"\nmodel = \"m\"\n", "openai"),
    ] {
        let models = load(toml).expect(toml).models;
        assert_eq!(models.order, ["default"], "{toml}");
        let default = models.find("default").expect("default");
        assert_eq!((default.wire.as_str(), default.secret_name().as_str()), (wire, "llm.api_key"), "{toml}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_with_the_mend() {
    let table = "[models.fast]\nwire = \"openai\"\n";
    for (toml, expect) in [
        (
            format!("[llm]\nprovider = \"openai\"\nmodel = \"\"\n{table}"),
            "remove `llm.provider`, `llm.model` and name the models in `llm.use`",
        ),
        (format!("[llm]\nuse = [\"fast\"]\nbase_url = \"\"\n{table}"), "remove `llm.base_url`"),
        (
            "[llm]\nuse = [\"fast\"]\nprovider = \"openai\"\n".to_owned(),
            "both this and `llm.provider` are set",
        ),
        (table.to_owned(), "`llm.use`: is missing: write `use = [\"fast\"]`"),
        (format!("[llm]\nuse = [\"fsat\"]\n{table}"), "no table `[models.fsat]`, did you mean `fast`?"),
        (format!("[llm]\nuse = [\"fast\", \"fast\"]\n{table}"), "`fast` is named twice"),
        ("[llm]\nuse = [\"a\"]\n[models.a]\n".to_owned(), "`models.a.wire`: is missing"),
        (
            "[llm]\nuse = [\"a b\"]\n[models.\"a b\"]\nwire = \"openai\"\n".to_owned(),
            "must be 1 to 32 characters",
        ),
        (
            format!("[llm]\nuse = [\"fast\"]\n{table}key = \"sk-hunter2\"\n"),
            "`models.fast.key`: is not the source of a key",
        ),
        (
            format!("[llm]\nuse = [\"fast\"]\n{table}addresses = [\"10.0.0.1/8\"]\n"),
            "has bits set after its prefix",
        ),
        (
            format!("[llm]\nuse = [\"fast\"]\n{table}connect_ms = 0\n"),
            "`models.fast.connect_ms`: must be between 1 and",
        ),
    ] {
        let error = load(&toml).expect_err(&toml);
        assert!(error.contains(expect), "{toml}\n{error}");
        assert!(!error.contains("hunter"), "{error}");
    }
}

fn key_of(folder: &TestFolder, name: &str) -> Result<Option<(String, String)>, String> {
    let config = folder.load().expect("read");
    let found = config.model_key(config.models.find(name).expect(name)).map_err(|e| e.reason)?;
    Ok(found.map(|found| (found.key.expose().to_owned(), found.place.to_string())))
}

#[test]
fn a_key_comes_from_the_place_that_is_named_or_from_a_login() {
    let folder = TestFolder::new(&format!("{TWO}key = \"file:etc/own\"\n"));
    assert_eq!(key_of(&folder, "fast"), Ok(None));
    assert_eq!(key_of(&folder, "local"), Ok(None));
    let missing = key_of(&folder, "spare").expect_err("named and missing");
    assert!(
        missing.starts_with("`models.spare.key`: ") && missing.contains("etc/own: No such file"),
        "{missing}"
    );
    folder.key("fast", " sk-1 \n", 0o600);
    let (key, place) = key_of(&folder, "fast").expect("read").expect("a key");
    assert!(key == "sk-1" && place.ends_with("/etc/credentials/fast"), "{place}");
    let config = folder.load().expect("read");
    assert_eq!(config.model_keys().expect("keys").now().keys().collect::<Vec<_>>(), ["fast"]);
    let of = |name: &str| config.models.find(name).expect(name).key.clone();
    assert!(
        matches!(of("fast").places(), [KeyPlace::Credential(name), KeyPlace::File(_)] if name == "model_fast")
    );
    assert!(of("fast").login().is_some_and(|path| path.ends_with("etc/credentials/fast")));
    assert_eq!((of("local").login(), of("spare").login()), (None::<&Path>, None));
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let folder = TestFolder::new(TWO);
    for (mode, expect) in [
        (0o600, None),
        (0o400, None),
        (0o640, None),
        (0o644, Some("has mode 0644, expected 0600 or 0640")),
        (0o604, Some("expected 0600 or 0640")),
        (0o660, Some("expected 0600 or 0640")),
        (0o650, Some("expected 0600 or 0640")),
    ] {
        folder.key("fast", "sk-1", mode);
        match (key_of(&folder, "fast"), expect) {
            (Ok(Some(_)), None) => {}
            (Err(error), Some(expect)) => assert!(error.contains(expect), "{mode:o}: {error}"),
            (got, expect) => panic!("{mode:o}: {got:?}, not {expect:?}"),
        }
    }
    // A group other than the service's: only root can give a file to one.
    if rustix::process::geteuid().is_root() {
        folder.key("fast", "sk-1", 0o640);
        let path = folder.0.path().join("etc/credentials/fast");
        std::os::unix::fs::chown(&path, None, Some(12_345)).expect("root");
        let error = key_of(&folder, "fast").expect_err("another group");
        assert!(error.contains("group 12345, which is not the service's"), "{error}");
        // The owner of `data/` is the service, and so is its group.
        std::os::unix::fs::chown(folder.0.path().join("data"), Some(12_344), Some(12_345)).expect("root");
        assert!(key_of(&folder, "fast").is_ok());
        std::os::unix::fs::chown(&path, Some(12_344), None).expect("root");
        assert!(key_of(&folder, "fast").is_ok());
        std::os::unix::fs::chown(&path, Some(12_346), None).expect("root");
        assert!(key_of(&folder, "fast").expect_err("a stranger's").contains("belongs to uid 12346"));
    }
}

#[test]
fn every_key_of_a_model_is_shown() {
    let config = load(TWO).expect("read");
    let of = |key: &str| {
        let shown = config.shown.iter().find(|shown| shown.key == key);
        shown.map(|shown| (shown.value.as_str(), shown.from.as_str()))
    };
    assert_eq!(of("llm.use"), Some(("[\"fast\", \"local\"]", "file")));
    assert_eq!(of("models.fast.input_price"), Some(("2.5", "file")));
    assert_eq!(of("models.fast.total_ms"), Some(("120000", "default")));
    assert_eq!(of("llm.provider"), None);
}
