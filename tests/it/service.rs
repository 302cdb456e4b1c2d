//! The service: installed into a folder, its two halves as two users over a socket, and what it
//! reports to the service manager and to monitoring.

#![expect(clippy::disallowed_methods, reason = "tests start the product's own binary and its installer")]

pub(crate) mod halves;
mod sockets;
mod watched;

use crate::support::{binary, copy_folder, is_root, launcher_binary, text};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A folder with a copy of what `install.sh` needs, readable by all, and a folder to install into.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Option<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        if !source.join("install.sh").is_file() {
            eprintln!("skipped: the source is not where this test was built");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("par-it-").tempdir().expect("folder");
        open_up(folder.path());
        let shipped = folder.path().join("shipped");
        copy_folder(&source.join("systemd"), &shipped.join("systemd"));
        std::fs::copy(source.join("install.sh"), shipped.join("install.sh")).expect("install.sh");
        // A link if possible: the binary is large.
        for (name, built) in [("par", binary()), ("par-launcher", launcher_binary())] {
            let to = shipped.join(name);
            std::fs::hard_link(&built, &to).or_else(|_| std::fs::copy(&built, &to).map(drop)).expect(name);
        }
        // Tools by name, and a `systemctl` that must not be called below a root.
        std::fs::create_dir(folder.path().join("bin")).expect("bin");
        let systemctl = folder.path().join("bin/systemctl");
        std::fs::write(&systemctl, "#!/bin/sh\nexit 99\n").expect("systemctl");
        open_up(&systemctl);
        Some(Self { folder })
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn at(&self, below: &str) -> PathBuf {
        self.root().join(below)
    }

    fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.at(below)).unwrap_or_else(|e| panic!("{below}: {e}"))
    }

    fn script(&self, args: &[&str]) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg(self.folder.path().join("shipped/install.sh")).args(args);
        command.arg("--root").arg(self.root()).env_clear().stdin(Stdio::null());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display()));
        command
    }

    /// Runs the installer, which must succeed, and returns its output.
    fn install(&self, args: &[&str]) -> String {
        succeed(&mut self.script(args))
    }

    fn home(&self) -> [String; 4] {
        let word = |below: &str| self.at(below).display().to_string();
        ["--home".to_owned(), word("var/lib/par"), "--etc".to_owned(), word("etc/par")]
    }

    /// The installed binary on the installed home, as another user if `uid` is given.
    fn par(&self, uid: Option<u32>, args: &[&str]) -> Command {
        self.installed("par", uid, args)
    }

    /// Like [`Place::par`], for the binary called `name`.
    fn installed(&self, name: &str, uid: Option<u32>, args: &[&str]) -> Command {
        let mut command = as_user(uid, self.at("usr/bin").join(name));
        command.args(self.home()).args(args).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command
    }

    /// Every file with its bytes, mode and owner.
    fn files(&self) -> BTreeMap<PathBuf, (Vec<u8>, u32, u32)> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            for item in std::fs::read_dir(folder).expect("folder") {
                let path = item.expect("entry").path();
                let meta = path.symlink_metadata().expect("meta");
                if meta.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).expect("bytes");
                    found.insert(path, (bytes, meta.mode(), meta.uid()));
                }
            }
        }
        found
    }
}

fn open_up(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

fn as_user(uid: Option<u32>, program: PathBuf) -> Command {
    let Some(uid) = uid else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    let uid = uid.to_string();
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--no-new-privs", "--"]).arg(program);
    command
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{command:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn refused(output: &Output, code: i32, why: &str) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{told}");
    assert!(told.contains(why), "{told}");
}

#[test]
fn installs_into_a_folder_and_again_without_harm() {
    let Some(place) = Place::new() else { return };
    let said = place.install(&[]);
    assert!(said.contains("Units and users") && said.ends_with("Done.\n"), "{said}");
    for file in [
        "usr/bin/par",
        "usr/bin/par-launcher",
        "usr/lib/systemd/system/par.service",
        "usr/lib/systemd/system/par.socket",
        "usr/lib/systemd/system/par-launcher.socket",
        "usr/lib/systemd/system/par-launcher@.service",
        "usr/lib/sysusers.d/par.conf",
        "usr/lib/tmpfiles.d/par.conf",
        "usr/share/man/man1/par.1",
        "usr/share/man/man1/par-serve.1",
        "usr/share/bash-completion/completions/par",
        "etc/par/policies/10-read.cedar",
        "etc/par/tools.d/read_file.toml",
        "var/lib/par/data/log.key",
    ] {
        assert!(place.at(file).is_file(), "{file}");
    }
    assert_eq!(place.at("var/lib/par/data").metadata().expect("data").mode() & 0o777, 0o700);
    succeed(&mut place.par(None, &["config", "check"]));
    let before = place.files();
    place.install(&[]);
    assert_eq!(before, place.files(), "a second run changes nothing");
}

#[test]
fn an_update_keeps_what_a_person_edited() {
    let Some(place) = Place::new() else { return };
    place.install(&[]);
    let write = |below: &str, text: &str| std::fs::write(place.at(below), text).expect("file");
    // As if an older version had shipped other texts; one was edited since, and one removed.
    let shipped = place.read("etc/par/par.toml");
    let older = "usr/share/par/etc";
    write(&format!("{older}/par.toml"), "# older\n");
    write(
        "etc/par/par.toml",
        "# mine\n[server]\nlisten = \"127.0.0.1:7200\"\n[paths]\nlogs = \"/var/log\"\n",
    );
    write(&format!("{older}/tools.d/list_dir.toml"), "# older\n");
    write("etc/par/tools.d/list_dir.toml", "# older\n");
    std::fs::remove_file(place.at("etc/par/tools.d/tail_file.toml")).expect("removed");
    write("etc/par/policies/50-mine.cedar", "// mine\n");
    let said = place.install(&[]);
    assert!(place.read("etc/par/par.toml").starts_with("# mine\n"));
    assert_eq!(place.read("etc/par/par.toml.new"), shipped);
    assert!(said.contains("par.toml: edited, kept; the shipped version is"), "{said}");
    assert!(place.read("etc/par/tools.d/list_dir.toml").contains("list_dir"), "brought up to date");
    assert!(!place.at("etc/par/tools.d/tail_file.toml").exists(), "what was removed stays away");
    assert_eq!(place.read("etc/par/policies/50-mine.cedar"), "// mine\n");
    succeed(&mut place.par(None, &["config", "check"]));
    // Cases of the shipped policies are not put next to edited ones, which they would refuse.
    let cases = "etc/par/policies/tests/90-never.toml";
    let shipped = place.read(cases);
    for edited in ["// nothing is forbidden\n", ""] {
        write("etc/par/policies/90-never.cedar", edited);
        write(cases, "# older\n");
        write(&format!("{older}/policies/tests/90-never.toml"), "# older\n");
        let said = place.install(&[]);
        assert!(
            said.contains("the policies were edited; the cases of the shipped policies are in"),
            "{said}"
        );
        assert_eq!(
            (place.read(cases).as_str(), place.read(&format!("{cases}.new"))),
            ("# older\n", shipped.clone())
        );
        succeed(&mut place.par(None, &["config", "check"]));
    }
}

#[test]
fn a_dry_run_says_the_steps_and_does_none() {
    let Some(place) = Place::new() else { return };
    let said = place.install(&["--dry-run"]);
    assert!(said.contains("would: put") && said.contains("Home:"), "{said}");
    assert!(!place.root().exists(), "{:?}", place.files());
    place.install(&[]);
    let before = place.files();
    place.install(&["--dry-run"]);
    place.install(&["--dry-run", "--uninstall"]);
    assert_eq!(before, place.files());
}

#[test]
fn an_uninstall_keeps_the_ledger_and_says_where() {
    let Some(place) = Place::new() else { return };
    place.install(&[]);
    succeed(&mut place.par(None, &["key", "create", "one", "--role", "viewer"]));
    let ledger = std::fs::read(place.at("var/lib/par/data/ledger.db")).expect("ledger");
    let said = place.install(&["--uninstall"]);
    assert!(said.contains(&format!("{}: the ledger", place.at("var/lib/par/data").display())), "{said}");
    assert_eq!(std::fs::read(place.at("var/lib/par/data/ledger.db")).expect("ledger"), ledger);
    assert!(place.at("etc/par/par.toml").is_file());
    let left: Vec<_> = place.files().into_keys().filter(|path| path.starts_with(place.at("usr"))).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    // And back again, over what was kept.
    place.install(&[]);
    succeed(&mut place.par(None, &["audit", "verify"]));
}

/// A1: tools are in the groups that the person who installs names, and in no other. A later run
/// keeps them, and a group that leads to root is refused before anything is done.
#[test]
fn groups_of_the_tools_are_asked_for_at_install() {
    let Some(place) = Place::new() else { return };
    let drop_in = "etc/systemd/system/par-launcher@.service.d/groups.conf";
    for (groups, why) in [("adm docker", "the group docker"), ("no-such-group", "unknown group")] {
        let mut command = place.script(&["--groups", groups]);
        refused(&command.output().expect("sh"), 2, why);
        assert!(!place.root().exists(), "{:?}", place.files());
    }
    let said = place.install(&[]);
    assert!(said.contains("--groups 'adm") && !place.at(drop_in).exists(), "{said}");
    place.install(&["--groups", "adm mail"]);
    assert!(place.read(drop_in).ends_with("[Service]\nSupplementaryGroups=adm mail\n"));
    let said = place.install(&[]);
    assert!(said.contains("groups.conf: kept") && place.at(drop_in).exists(), "{said}");
    place.install(&["--groups", ""]);
    assert!(!place.at(drop_in).exists(), "taken back");
}

#[test]
fn without_rights_nothing_is_done_and_it_says_so() {
    let Some(place) = Place::new() else { return };
    let mut command = if is_root() {
        std::fs::create_dir(place.root()).expect("root");
        open_up(&place.root());
        let mut command = as_user(Some(65_534), "/bin/sh".into());
        command.arg(place.folder.path().join("shipped/install.sh")).arg("--root").arg(place.root());
        command
    } else {
        let mut command = Command::new("/bin/sh");
        command.arg(place.folder.path().join("shipped/install.sh")).args(["--root", "/usr/share"]);
        command
    };
    refused(&command.output().expect("sh"), 1, "Nothing was changed.");
    if is_root() {
        assert!(place.files().is_empty());
    }
}

#[test]
fn a_host_without_systemd_gets_no_units_and_instructions_to_run() {
    let Some(place) = Place::new() else { return };
    // Only what the script needs, and no `systemctl`.
    let bin = place.folder.path().join("few");
    std::fs::create_dir(&bin).expect("bin");
    for name in ["cat", "chmod", "cmp", "cp", "dirname", "find", "id", "mkdir", "mktemp", "mv", "rm", "sort"]
    {
        let tool = ["/usr/bin", "/bin"].iter().map(|at| Path::new(at).join(name)).find(|tool| tool.exists());
        std::os::unix::fs::symlink(tool.expect(name), bin.join(name)).expect("link");
    }
    let said = succeed(place.script(&[]).env("PATH", &bin));
    assert!(said.contains("does not run systemd"), "{said}");
    assert!(said.contains(&format!("{} --home", place.at("usr/bin/par").display())), "{said}");
    assert!(said.contains(" serve\n"), "{said}");
    assert!(!place.at("usr/lib").exists());
}

#[test]
fn the_units_are_in_order() {
    let Some(place) = Place::new() else { return };
    let version = Command::new("systemd-analyze").arg("--version").output();
    let Some(version) = version.ok().filter(|o| o.status.success()).map(|o| text(&o.stdout)) else {
        eprintln!("skipped: systemd-analyze is not there");
        return;
    };
    place.install(&[]);
    let units = place.at("usr/lib/systemd/system");
    for name in ["par.service", "par-launcher@.service"] {
        let unit = std::fs::read_to_string(units.join(name)).expect("unit");
        let bin = place.at("usr/bin/").display().to_string();
        assert!(name == "par.service" || unit.contains("ExecStart=/usr/bin/par-launcher "), "{unit}");
        std::fs::write(units.join(name), unit.replace("/usr/bin/", &bin)).expect("unit");
    }
    let at = |name: &str| units.join(name).display().to_string();
    let files = ["par.service", "par.socket", "par-launcher.socket", "par-launcher@.service"].map(at);
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .args(&files)
        .env("MANPATH", place.at("usr/share/man"))
        .output()
        .expect("systemd-analyze");
    assert!(verified.status.success(), "{}", text(&verified.stderr));
    assert_eq!(text(&verified.stderr), "");
    for (name, most) in [("par.service", "15"), ("par-launcher@.service", "27")] {
        let scored = Command::new("systemd-analyze")
            .args(["security", "--offline=yes", &format!("--threshold={most}"), "--no-pager", &at(name)])
            .output()
            .expect("systemd-analyze");
        let last = text(&scored.stdout).lines().last().unwrap_or_default().to_owned();
        assert!(scored.status.success(), "{name} is above {most}: {last}");
        eprintln!("{last}");
        // Another systemd measures differently.
        if version.starts_with("systemd 252 ") {
            // Without the word and the face after the figure.
            let told = last.trim_end_matches(|c: char| !c.is_ascii_digit());
            let install = include_str!("../../docs/install.md");
            assert!(install.contains(&format!("{told} ")), "docs/install.md says otherwise than `{told}`");
        }
    }
}
