//! A tool as the launcher holds it: folders, programs and script opened once, its ruleset made
//! once.

use crate::call::Given;
use crate::launcher::confine::identity::Memberships;
use crate::launcher::confine::layers::{Connects, PathRule};
use crate::launcher::confine::protection::Runs;
use crate::launcher::confine::seccomp::filters::{Does, of_program};
use crate::launcher::host::machine::Machine;
use crate::launcher::protocol::{ProgramDigest, RefusedTool, Report, SkippedRoot};
use crate::launcher::secrets::{Vault, sealed};
use crate::launcher::view::files::{name_of, open_path};
use crate::launcher::view::own_proc;
use crate::tools::builtin::host::{ProcNames, proc_names};
use crate::tools::{
    Builtin, CodeFile, CodeTree, Connect, Manifest, Modes, ProcView, Runner, Runtime, Script, WriteRoot,
};
use crate::types::Digest;
use landlock::{AccessFs, BitFlags, RulesetCreated};
use nix::sched::CloneFlags;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use seccompiler::BpfProgram;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;

/// The proxy's port. In the call's own namespace it is always free.
pub(crate) const PROXY_PORT: u16 = 3_128;
/// Why a tool is not run after one of its programs changed.
pub(crate) const CHANGED: &str =
    "a program of the tool changed since it was loaded: `par reload` loads and records what is there now";
const ELF: &[u8] = b"\x7fELF";

/// One tool, ready to be called.
#[derive(Debug)]
pub(crate) struct OpenTool {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) roots: Vec<Root>,
    /// Folders to change, in the manifest's order.
    pub(crate) writes: Vec<WriteFolder>,
    pub(crate) program: Option<OpenProgram>,
    /// Other programs that the program may start.
    pub(crate) exec: Vec<OpenProgram>,
    /// Its folders of code, in the manifest's order.
    trees: Vec<OwnedFd>,
    /// A sealed memfd of the script's bytes as they were loaded.
    pub(crate) script: Option<OwnedFd>,
    /// The last filter of its program.
    pub(crate) filter: BpfProgram,
    /// A sealed memfd of each secret that the program is given, in the manifest's order.
    pub(crate) secrets: Vec<OwnedFd>,
    /// The Unix groups of its calls.
    pub(crate) memberships: Memberships,
    /// The combined proof of the secrets, if there are any.
    pub(crate) proof: Option<Digest>,
    /// The ruleset of prepare, if it is the same for every call.
    ruleset: Option<RulesetCreated>,
}

/// A folder to change, or the folder that contains such folders.
#[derive(Debug)]
pub(crate) struct WriteFolder {
    /// Its canonical path.
    pub(crate) canonical: String,
    pub(crate) fd: OwnedFd,
    /// Whether the call changes only the folder in it that the resource's id names.
    pub(crate) by_id: bool,
}

/// A granted folder that exists.
#[derive(Debug)]
pub(crate) struct Root {
    /// Its canonical path.
    pub(crate) canonical: String,
    pub(crate) fd: OwnedFd,
    rights: BitFlags<AccessFs>,
}

/// A program, opened once.
#[derive(Debug)]
pub(crate) struct OpenProgram {
    pub(crate) fd: OwnedFd,
    sha256: Digest,
    stat: Stat,
}

impl OpenTool {
    /// Opens what `manifest` names. An error is a refusal of this tool on this machine.
    pub(crate) fn open(
        manifest: &Arc<Manifest>,
        machine: &Machine,
        vault: &Vault,
        report: &mut Report,
    ) -> Result<Self, String> {
        let (program, exec, script) = open_runner(manifest, machine)?;
        let trees = manifest.trees.iter().map(open_tree).collect::<Result<_, _>>()?;
        let mut skip = |path: &std::path::Path| {
            report.skipped.push(SkippedRoot { tool: manifest.name.clone(), path: path.to_owned() });
        };
        if let (ProcView::Own, Some(Err(reason))) = (manifest.proc, &machine.own_proc) {
            return Err(format!(
                "the tool needs its own `/proc`, which this machine does not provide: {reason}"
            ));
        }
        let memberships = Memberships::of(&manifest.groups, machine.identity.is_some(), &machine.own_groups)?;
        let (secrets, proof) = vault.give(&manifest.secrets)?;
        let mut roots = Vec::new();
        for path in &manifest.read {
            if path.starts_with("/proc") {
                return Err(format!("`{}`: `/proc` cannot be granted to a tool", path.display()));
            }
            match Root::open(path, manifest, machine) {
                Some(root) => roots.push(root),
                None => skip(path),
            }
        }
        let mut writes = Vec::new();
        for root in &manifest.write {
            match WriteFolder::open(root, machine) {
                Some(folder) => writes.push(folder),
                None => skip(&root.folder),
            }
        }
        for Connect::Unix(path) in &manifest.connect {
            if machine.paths.tree.find_plain(path).is_err() && !does_without_sockets(&manifest.runner) {
                skip(path);
            }
        }
        for program in program.iter().chain(&exec) {
            let sha256 = program.sha256.hex();
            report.programs.push(ProgramDigest { tool: manifest.name.clone(), sha256 });
        }
        let filter = of_program(Does {
            writes: !writes.is_empty(),
            connects: manifest.is_proxied(),
            ignores_modes: manifest.modes == Modes::Ignore,
        });
        let manifest = manifest.clone();
        let mut tool = Self {
            manifest,
            roots,
            writes,
            program,
            exec,
            trees,
            script,
            secrets,
            memberships,
            proof,
            filter,
            ruleset: None,
        };
        tool.ruleset = match tool.manifest.proc {
            ProcView::Own => None,
            ProcView::None | ProcView::Host => Some(tool.first_ruleset(machine, None)?),
        };
        Ok(tool)
    }

    /// The ruleset of prepare: every folder, the programs with their libraries, and the call's own
    /// `/proc`, which makes the ruleset specific to one call.
    fn first_ruleset(&self, machine: &Machine, proc: Option<PathRule<'_>>) -> Result<RulesetCreated, String> {
        let rights = machine.landlock.work_rights();
        let changed = self.writes.iter().map(|folder| PathRule { at: folder.fd.as_fd(), rights });
        let kept = self.kept_grants(machine);
        let grants =
            self.root_grants().chain(changed).chain(self.program_grants(machine)).chain(proc).chain(kept);
        // For a tool that is connected at go, only the last ruleset refuses connecting to sockets.
        let connects = Connects { port: self.port(), unix: !self.manifest.connect.is_empty() };
        machine.landlock.ruleset_of(&grants.collect::<Vec<_>>(), connects)
    }

    /// The ruleset of prepare for a call; made once for all calls that have no `/proc` of their
    /// own.
    pub(crate) fn ruleset_for(
        &self,
        machine: &Machine,
        proc: Option<PathRule<'_>>,
    ) -> Result<RulesetCreated, String> {
        match &self.ruleset {
            Some(made) => made.try_clone().map_err(|e| format!("landlock: {e}")),
            None => self.first_ruleset(machine, proc),
        }
    }

    /// Whether the tool has no folder that it may change.
    pub(crate) fn writes_nothing(&self) -> bool {
        self.manifest.write.is_empty()
    }

    /// What the program itself needs in addition to the object.
    pub(crate) fn program_grants<'a>(&'a self, machine: &'a Machine) -> impl Iterator<Item = PathRule<'a>> {
        let rights = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        let trees = self.trees.iter().map(move |folder| PathRule { at: folder.as_fd(), rights });
        program_grants(&self.manifest, self.program.iter().chain(&self.exec), machine).chain(trees)
    }

    /// The names in the host's `/proc` that the tool reads.
    pub(crate) fn proc_names(&self) -> ProcNames {
        match (self.manifest.proc, &self.manifest.runner) {
            (ProcView::Host, Runner::Builtin(which)) => proc_names(*which),
            _ => ProcNames { files: &[], of_process: &[] },
        }
    }

    /// What the tool may read of the host's `/proc`.
    pub(crate) fn kept_grants<'a>(&self, machine: &'a Machine) -> Vec<PathRule<'a>> {
        machine.supplies.kept.grants(&self.proc_names())
    }

    /// All that the tool may read, for a call that is not about one object in it.
    pub(crate) fn root_grants(&self) -> impl Iterator<Item = PathRule<'_>> {
        self.roots.iter().map(Root::grant)
    }

    /// The folders of `read`, for a builtin that reads in them and is not about one object there.
    pub(crate) fn system_roots(&self) -> &[Root] {
        match &self.manifest.runner {
            Runner::Builtin(which) if which.reads_in_folders() => &self.roots,
            _ => &[],
        }
    }

    /// Whether every program is unchanged since it was hashed. Costs one `fstat` each.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.program.iter().chain(&self.exec).all(OpenProgram::is_unchanged)
    }

    /// Checks that everything in the folders of code is as it was when it was hashed. Costs one
    /// `fstatat` for each file.
    pub(crate) fn check_trees(&self) -> Result<(), String> {
        self.manifest.trees.iter().zip(&self.trees).try_for_each(|(tree, folder)| tree.compare(folder))
    }

    /// Whether a call's child reads the mount table before it is confined; the table is as of that
    /// moment.
    pub(crate) fn looks_at_mounts(&self) -> bool {
        self.manifest.recursive && self.program.is_some()
    }

    /// The kind of its calls.
    pub(crate) fn runs(&self) -> Runs {
        match &self.program {
            None => Runs::Builtin,
            Some(_) if self.manifest.is_proxied() => Runs::Proxied,
            Some(_) => Runs::Program,
        }
    }

    /// The namespaces of a call.
    pub(crate) fn namespaces(&self, machine: &Machine) -> CloneFlags {
        let mut all = machine.per_call;
        all.set(CloneFlags::CLONE_NEWNET, self.manifest.is_proxied());
        if self.has_own_proc() { all | own_proc::NAMESPACES } else { all }
    }

    /// Whether each call has its own `/proc`.
    pub(crate) fn has_own_proc(&self) -> bool {
        self.manifest.proc == ProcView::Own
    }

    /// The port that a call may connect to.
    pub(crate) fn port(&self) -> Option<u16> {
        self.manifest.is_proxied().then_some(PROXY_PORT)
    }

    /// Every descriptor that a child of this tool needs.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        let programs = self.program.iter().chain(&self.exec).map(|program| &program.fd);
        let roots = self.roots.iter().map(|root| &root.fd);
        let memory = self.script.iter().chain(&self.secrets);
        programs
            .chain(&self.trees)
            .chain(roots)
            .chain(self.writes.iter().map(|folder| &folder.fd))
            .chain(memory)
    }

    /// What a call has in addition to its arguments, for the record.
    pub(crate) fn given(&self) -> Given {
        let connect = self.manifest.connect.iter().map(ToString::to_string).collect();
        let (groups, groups_shared) = self.memberships.told();
        Given { secrets: self.manifest.secrets.clone(), connect, groups, groups_shared }
    }

    /// The right that this tool has on an object that is, or is not, a folder. A program whose
    /// manifest does not say that it reads below its resource gets only the names: what lies there
    /// was not decided on.
    pub(crate) fn right(&self, folder: bool) -> BitFlags<AccessFs> {
        match &self.manifest.runner {
            Runner::Program(_) if folder && !self.manifest.recursive => AccessFs::ReadDir.into(),
            runner => rights(runner, folder),
        }
    }
}

/// Whether a call is made without the sockets that are missing.
pub(crate) fn does_without_sockets(runner: &Runner) -> bool {
    matches!(runner, Runner::Builtin(which) if which.does_without_sockets())
}

/// Program, programs that it may start, and script.
type Runnable = (Option<OpenProgram>, Vec<OpenProgram>, Option<OwnedFd>);

/// Opens what `manifest` runs; a builtin is nothing to open.
fn open_runner(manifest: &Manifest, machine: &Machine) -> Result<Runnable, String> {
    let runs = if manifest.is_proxied() { Runs::Proxied } else { Runs::Program };
    match &manifest.runner {
        Runner::Builtin(_) => Ok((None, Vec::new(), None)),
        Runner::Front(_) => Err("it runs in the front".to_owned()),
        Runner::Program(_) if machine.has_namespaces() && machine.held.level(runs).is_none() => {
            let shortfalls = machine.held.shortfalls(runs).join("; ");
            Err(format!("a protection of programs is missing on this machine: {shortfalls}"))
        }
        Runner::Program(program) if machine.has_namespaces() => {
            let mut code = manifest.code.iter().map(|file| OpenProgram::open(file, machine));
            let first = code.next().ok_or_else(|| "the manifest names no program".to_owned())??;
            let script = program.script.as_ref().map(seal).transpose()?;
            Ok((Some(first), code.collect::<Result<_, _>>()?, script))
        }
        Runner::Program(_) => {
            Err("programs need a PID namespace and an empty network namespace, which this machine does \
                     not provide"
                .to_owned())
        }
    }
}

/// Opens every tool of the catalog that runs here; the report names those that cannot be called.
pub(crate) fn open_all(
    manifests: impl Iterator<Item = Arc<Manifest>>,
    machine: &Machine,
    vault: &Vault,
    report: &mut Report,
) -> Vec<OpenTool> {
    let mut tools = Vec::new();
    // The front runs its own tools; here they are only reported, with their digests.
    for manifest in manifests.filter(|manifest| manifest.front().is_none()) {
        match OpenTool::open(&manifest, machine, vault, report) {
            Ok(tool) => tools.push(tool),
            Err(reason) => report.refused.push(RefusedTool { tool: manifest.name.clone(), reason }),
        }
    }
    tools
}

fn program_grants<'a>(
    manifest: &Manifest,
    programs: impl Iterator<Item = &'a OpenProgram>,
    machine: &'a Machine,
) -> impl Iterator<Item = PathRule<'a>> {
    let dynamic = matches!(&manifest.runner, Runner::Program(program) if program.runtime == Runtime::Dynamic);
    let libraries = machine.supplies.libraries.iter().filter(move |_| dynamic);
    let libraries = libraries.map(|(fd, rights)| PathRule { at: fd.as_fd(), rights: *rights });
    // Programs expect these devices.
    let devices = match &manifest.runner {
        Runner::Program(_) => {
            let null = PathRule {
                at: machine.supplies.null.as_fd(),
                rights: AccessFs::ReadFile | AccessFs::WriteFile,
            };
            vec![null, PathRule { at: machine.supplies.random.as_fd(), rights: AccessFs::ReadFile.into() }]
        }
        Runner::Builtin(_) | Runner::Front(_) => Vec::new(),
    };
    let rights = AccessFs::Execute | AccessFs::ReadFile;
    programs.map(move |open| PathRule { at: open.fd.as_fd(), rights }).chain(libraries).chain(devices)
}

/// Opens a folder of code. It has to be the one that was read with the manifest, and only root or
/// the user that started PAR may be able to change what is in it.
fn open_tree(tree: &CodeTree) -> Result<OwnedFd, String> {
    if let Some(obstacle) = tree.obstacle() {
        return Err(obstacle.to_owned());
    }
    let at = |e: &dyn std::fmt::Display| format!("code folder `{}`: {e}", tree.path().display());
    let folder = open_path(tree.path()).map_err(|e| at(&e))?;
    tree.compare(&folder).map(|()| folder)
}

/// The script in sealed memory. It outlives the file.
fn seal(script: &Script) -> Result<OwnedFd, String> {
    sealed("script", script.bytes()).map_err(|e| format!("script `{}`: {e}", script.name()))
}

impl WriteFolder {
    /// `None` if the folder is missing or has no canonical name.
    fn open(root: &WriteRoot, machine: &Machine) -> Option<Self> {
        let fd = open_path(&root.folder).ok()?;
        let canonical = name_of(&machine.paths.proc, &fd)?;
        let folder = FileType::from_raw_mode(fstat(&fd).ok()?.st_mode) == FileType::Directory;
        folder.then_some(Self { canonical, fd, by_id: root.by_id })
    }
}

fn rights(runner: &Runner, folder: bool) -> BitFlags<AccessFs> {
    match (runner, folder) {
        (Runner::Builtin(Builtin::ListDir | Builtin::LargestPaths), true) => AccessFs::ReadDir.into(),
        (
            Runner::Builtin(
                Builtin::ReadFile
                | Builtin::FileInfo
                | Builtin::ReadConfig
                | Builtin::CertificateFile
                | Builtin::TailFile,
            ),
            _,
        ) => AccessFs::ReadFile.into(),
        (Runner::Builtin(Builtin::SearchFiles | Builtin::DiffFiles) | Runner::Program(_), false) => {
            AccessFs::ReadFile.into()
        }
        (Runner::Builtin(Builtin::SearchFiles | Builtin::DiffFiles) | Runner::Program(_), true) => {
            AccessFs::ReadFile | AccessFs::ReadDir
        }
        (Runner::Builtin(which), true) if which.reads_in_folders() => AccessFs::ReadFile | AccessFs::ReadDir,
        (Runner::Builtin(which), false) if which.reads_in_folders() => AccessFs::ReadFile.into(),
        // The others have no folders.
        (Runner::Builtin(_) | Runner::Front(_), _) => BitFlags::EMPTY,
    }
}

impl Root {
    /// `None` if the folder is absent or has no canonical name, or the tool has no right on it.
    fn open(path: &std::path::Path, manifest: &Manifest, machine: &Machine) -> Option<Self> {
        let fd = open_path(path).ok()?;
        let canonical = name_of(&machine.paths.proc, &fd)?;
        let folder = FileType::from_raw_mode(fstat(&fd).ok()?.st_mode) == FileType::Directory;
        let rights = rights(&manifest.runner, folder);
        (!rights.is_empty()).then_some(Self { canonical, fd, rights })
    }

    pub(crate) fn grant(&self) -> PathRule<'_> {
        PathRule { at: self.fd.as_fd(), rights: self.rights }
    }

    /// Whether `canonical` is this folder or lies in it.
    pub(crate) fn holds(&self, canonical: &str) -> bool {
        std::path::Path::new(canonical).starts_with(&self.canonical)
    }
}

impl OpenProgram {
    /// Opens, checks and hashes a program. It has to be the one that was read with the manifest,
    /// and only root or the user that started PAR may be able to change it.
    fn open(code: &CodeFile, machine: &Machine) -> Result<Self, String> {
        let path = code.path();
        let at = |e: &dyn std::fmt::Display| format!("program `{}`: {e}", path.display());
        let fd = open_path(path).map_err(|e| at(&e))?;
        let stat = fstat(&fd).map_err(|e| at(&e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(at(&"not a regular file"));
        }
        let link = format!("self/fd/{}", fd.as_raw_fd());
        let file = openat(&machine.paths.proc, link, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| at(&e))?;
        let sha256 = hash(&file).map_err(|e| at(&e))?;
        if let Some(obstacle) = code.obstacle() {
            return Err(obstacle.to_owned());
        }
        if code.digest() != Some(sha256) {
            return Err(at(&"it changed while the manifest was loaded: load again"));
        }
        Ok(Self { fd, sha256, stat })
    }

    /// Whether the file is unchanged since it was hashed, by size and times of change.
    fn is_unchanged(&self) -> bool {
        let times = |stat: &Stat| {
            (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
        };
        fstat(&self.fd).is_ok_and(|now| times(&now) == times(&self.stat))
    }
}

fn hash(file: &OwnedFd) -> Result<Digest, String> {
    use sha2::Digest as _;
    let mut hash = sha2::Sha256::new();
    let mut buffer = vec![0_u8; 64 << 10];
    let mut total = 0_u64;
    loop {
        let read = rustix::io::read(file, &mut buffer).map_err(|e| e.to_string())?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if total == 0 && !bytes.starts_with(ELF) {
            return Err("not an ELF program".to_owned());
        }
        if read == 0 {
            return Ok(Digest(hash.finalize().into()));
        }
        total = total.saturating_add(read as u64);
        if total > CodeFile::BYTES_MAX {
            return Err(format!("larger than {} bytes", CodeFile::BYTES_MAX));
        }
        hash.update(bytes);
    }
}
