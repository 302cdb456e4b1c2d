//! How much of PAR's source the launcher, and the child of a call, can reach.
//!
//! Counted from `launcher_main.rs`, module by module. A module is reached if reached code names it,
//! or names something in it. A re-export (`pub use`) is followed only for the names that are used,
//! so that naming one type of a room brings in the module of that type, not the room. A method
//! belongs to its type: a module with an inherent `impl` for a reached module's type is reached
//! too. A reached module counts with all its lines except those of tests, including comments. This
//! is more than what is linked: a linker leaves functions out, and this count does not.

use super::source::{File, declared, files, leaves, paths, shown, top};
use std::collections::{BTreeMap, BTreeSet};

/// The rooms that a launcher may consist of.
const ROOMS: [&str; 5] = ["launcher", "tools", "config", "call", "types"];
/// The page gives the lines rounded up to a multiple of this.
const STEP: usize = 500;

#[test]
fn the_launcher_reaches_what_the_page_says() {
    let files = files();
    let house = House::new(&files);
    let mut reached = BTreeSet::new();
    house.reach(&[vec!["launcher".to_owned(), "main".to_owned()]], &mut reached);
    let (mut lines, mut code) = (0, 0);
    let mut by_room: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for module in &reached {
        let file = house.files[module];
        let own = file.text.lines().count() - file.test_lines;
        lines += own;
        code += file.code.lines().filter(|line| !line.trim().is_empty()).count();
        let room = file.room().expect("a room");
        let counted = by_room.entry(room).or_default();
        *counted = (counted.0 + 1, counted.1 + own);
    }
    println!("{} files, {lines} lines, {code} of them code: {by_room:?}", reached.len());
    let foreign =
        reached.iter().filter(|module| !ROOMS.contains(&house.files[*module].room().expect("a room")));
    let foreign: Vec<String> = foreign.map(|module| shown(&house.files[module].path)).collect();
    assert!(foreign.is_empty(), "the launcher reaches {}", foreign.join(", "));
    for must in ["launcher/child/init", "launcher/sys", "tools/builtin/search_files", "config/mod"] {
        let is_it = |module: &Vec<String>| shown(&house.files[module].path).contains(must);
        assert!(reached.iter().any(is_it), "{must} is not found to be reached: the count is wrong");
    }
    let told = lines.next_multiple_of(STEP);
    let told = format!("{},{:03} lines of PAR's source", told / 1_000, told % 1_000);
    let page = std::fs::read_to_string(top().join("docs/threat-model.md")).expect("page");
    assert!(page.replace('\n', " ").contains(&told), "docs/threat-model.md does not say `{told}` ({lines})");
}

type Path = Vec<String>;

struct House<'a> {
    files: BTreeMap<Path, &'a File>,
    /// The re-exports of each module: the name, possibly `*`, and the whole path.
    shows: BTreeMap<Path, Vec<(String, Path)>>,
    /// The paths that the code of each module names, each from the top.
    names: BTreeMap<Path, Vec<Path>>,
    /// For each module, the modules with methods of its types.
    methods: BTreeMap<Path, Vec<Path>>,
}

impl<'a> House<'a> {
    fn new(files: &'a [File]) -> Self {
        let files_by: BTreeMap<Path, &File> =
            files.iter().filter(|file| !file.is_test()).map(|file| (file.module(), file)).collect();
        let children = declared(files);
        let (shows, names, methods) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut house = Self { files: files_by, shows, names, methods };
        let mut rest = BTreeMap::new();
        for (module, file) in &house.files {
            let own: &[String] = children.get(module).map_or(&[], Vec::as_slice);
            let (code, shown) = without_shown(&file.code);
            let from_top = |path: &Path| absolute(module, own, path);
            let shown = shown.iter().map(|path| (path.last().cloned().unwrap_or_default(), from_top(path)));
            house.shows.insert(module.clone(), shown.collect());
            rest.insert(module.clone(), (code, own));
        }
        for (module, (code, own)) in rest {
            let mut named: Vec<Path> = paths(&code).iter().map(|path| absolute(&module, own, path)).collect();
            // Modules by their plain names: children, and imported ones.
            let mut heads: BTreeMap<String, Path> = own
                .iter()
                .map(|child| (child.clone(), [module.as_slice(), std::slice::from_ref(child)].concat()))
                .collect();
            for path in &named {
                if let (Some(last), Some(whole)) = (path.last(), house.module(path)) {
                    heads.insert(last.clone(), whole);
                }
            }
            for (head, whole) in &heads {
                for path in led_by(&code, head) {
                    named.push([whole.as_slice(), &path[1..]].concat());
                }
            }
            for path in &named {
                let is_own = |name: &String| code.contains(&format!("impl {name} {{"));
                if path.last().is_some_and(is_own)
                    && let Some(home) = house.home(path)
                    && home != module
                {
                    house.methods.entry(home).or_default().push(module.clone());
                }
            }
            house.names.insert(module, named);
        }
        house
    }

    /// The module at `path`, unless it is an item of a module.
    fn module(&self, path: &Path) -> Option<Path> {
        self.files.contains_key(path).then(|| path.clone())
    }

    /// Every module on `path`; the one that holds its item comes last.
    fn follow(&self, path: &Path, through: &mut Vec<Path>) {
        let depth = (1..=path.len()).take_while(|depth| self.files.contains_key(&path[..*depth])).last();
        let Some(depth) = depth else { return };
        let module = path[..depth].to_vec();
        if through.contains(&module) {
            return;
        }
        let Some(item) = path.get(depth) else {
            return through.push(module);
        };
        let shown: Vec<&(String, Path)> = self.shows[&module].iter().collect();
        let named: Vec<&Path> =
            shown.iter().filter(|(name, _)| name == item || name == "*").map(|(_, to)| to).collect();
        through.push(module);
        for to in named {
            let star = to.last().is_some_and(|last| last == "*");
            let mut to = if star { to[..to.len() - 1].to_vec() } else { to.clone() };
            if star {
                to.push(item.clone());
            }
            to.extend(path[depth + 1..].iter().cloned());
            self.follow(&to, through);
        }
    }

    /// The module that holds the item of `path`.
    fn home(&self, path: &Path) -> Option<Path> {
        let mut through = Vec::new();
        self.follow(path, &mut through);
        through.pop()
    }

    fn reach(&self, from: &[Path], reached: &mut BTreeSet<Path>) {
        let mut next: Vec<Path> = from.to_vec();
        while let Some(path) = next.pop() {
            let mut through = Vec::new();
            self.follow(&path, &mut through);
            for module in through {
                if reached.insert(module.clone()) {
                    next.extend(self.names[&module].iter().cloned());
                    next.extend(self.methods.get(&module).into_iter().flatten().cloned());
                }
            }
        }
    }
}

/// `path` from the top, as read in `module` with these children.
fn absolute(module: &[String], children: &[String], path: &Path) -> Path {
    let mut at = module.to_vec();
    let mut words = path.as_slice();
    match words.first().map(String::as_str) {
        Some("crate") => {
            at.clear();
            words = &words[1..];
        }
        Some("self") => words = &words[1..],
        Some("super") => {
            while words.first().is_some_and(|word| word == "super") {
                at.pop();
                words = &words[1..];
            }
        }
        Some(first) if children.iter().any(|child| child == first) => {}
        // A path of another crate.
        _ => return path.clone(),
    }
    // `{self, …}` names the module before it.
    at.extend(words.iter().filter(|word| *word != "self").cloned());
    at
}

/// `code` without its `pub use` statements, and the paths in them.
fn without_shown(code: &str) -> (String, Vec<Path>) {
    let (mut kept, mut shown) = (String::new(), Vec::new());
    let mut rest = code;
    while let Some(at) = rest.find("pub") {
        let (before, from) = rest.split_at(at);
        kept.push_str(before);
        let words = from["pub".len()..].trim_start();
        let words = match words.strip_prefix('(') {
            Some(within) => within.split_once(')').map_or("", |(_, words)| words).trim_start(),
            None => words,
        };
        if let (Some(tree), Some(end)) = (words.strip_prefix("use "), from.find(';')) {
            leaves(tree, &[], &mut shown);
            rest = &from[end..];
        } else {
            kept.push_str("pub");
            rest = &from["pub".len()..];
        }
    }
    kept.push_str(rest);
    (kept, shown)
}

/// Paths in `code` that begin with the plain word `head`.
fn led_by(code: &str, head: &str) -> Vec<Path> {
    let mut found = Vec::new();
    let mark = format!("{head}::");
    let mut at = 0;
    while let Some(by) = code[at..].find(&mark) {
        let begin = at + by;
        let before = code[..begin].chars().next_back();
        if !before.is_some_and(|c| c == ':' || c == '_' || c.is_alphanumeric()) {
            leaves(&code[begin..], &[], &mut found);
        }
        at = begin + mark.len();
    }
    found
}

#[test]
fn names_are_followed_to_their_modules() {
    let file = |path: &str, code: &str| File {
        path: path.into(),
        text: code.to_owned(),
        code: code.to_owned(),
        test_lines: 0,
    };
    let files = [
        file("a/mod.rs", "mod low; mod high; mod never; pub use low::Low; pub use never::Never;"),
        file("a/low.rs", "pub struct Low; use crate::b;\nfn f() { b::go(); }"),
        file("a/never.rs", "pub struct Never;"),
        file("a/high.rs", "use super::low::Low;\nimpl Low { fn more() {} }"),
        file("b/mod.rs", "mod one; mod two; pub use one::go; pub use two::stop;"),
        file("b/one.rs", "pub fn go() {}"),
        file("b/two.rs", "pub fn stop() {}"),
    ];
    let house = House::new(&files);
    let mut reached = BTreeSet::new();
    house.reach(&[vec!["a".to_owned(), "Low".to_owned()]], &mut reached);
    let reached: Vec<String> = reached.iter().map(|module| module.join("/")).collect();
    assert_eq!(reached, ["a", "a/high", "a/low", "b", "b/one"]);
}
