//! What quickstart prints at its end: where the dashboard is, and what to do next.

use super::key::{DAYS, NAME};
use crate::cli::show::shell_word;
use crate::config::{Home, is_on_search_path};
use std::path::{Path, PathBuf};

/// How another terminal reaches this program and this home.
pub(super) struct NextSteps {
    root: PathBuf,
    /// The flag that names the home, if one did.
    flag: Option<String>,
    /// The settings that another terminal needs, each as `NAME=value`.
    settings: Vec<String>,
}

impl NextSteps {
    /// To be called before the process locks itself: it looks at its own program.
    pub(super) fn new(home: &Home) -> Self {
        let mut settings = Vec::new();
        // Any other etc/ was named by a flag or is the service's: no variable names it.
        if home.etc == home.root.join("etc") {
            settings.push(format!("PAR_HOME={}", shell_word(&home.root)));
        }
        let program = std::env::current_exe().ok();
        let folder = program.as_deref().and_then(Path::parent);
        if let Some(folder) = folder.filter(|folder| !is_on_search_path(folder)) {
            settings.push(format!("PATH={}:$PATH", shell_word(folder)));
        }
        let flag = home.is_named.then(|| format!(" --home {}", shell_word(&home.root)));
        Self { root: home.root.clone(), flag, settings }
    }

    /// The next steps at a server that listens on `url`.
    pub(super) fn steps(&self, url: &str, key: &str) -> String {
        let export = match self.settings.as_slice() {
            [] => String::new(),
            settings => format!("  export {}\n", settings.join(" ")),
        };
        format!(
            "
Look:  {url}/ui/   (log in with the key above)

Try, in another terminal:
{export}  par run 'deploy(project=\"demo\", version=\"1.0.1\")'     # waits for a person: you
  par approval list                                     # then: par approval approve ID
  par login                                             # or answer it on the dashboard
  par audit show decision:deny                          # what was refused, and by which rule

From a program:
  export PAR_KEY={key}
  curl -s {url}/agent/run -H \"Authorization: Bearer $PAR_KEY\" \\
    -H 'content-type: application/json' -d '{{\"message\": \"how is this server doing?\"}}'

Next:  a rule and a tool of your own, and a model: README.md

Ctrl-C stops the server."
        )
    }

    /// What stays when the server stops.
    pub(super) fn farewell(&self) -> String {
        // Without the flag, the commands would look for another home.
        let flag = self.flag.as_deref().unwrap_or_default();
        format!(
            "\nThe server stops. Its home {} stays, with the ledger and all keys. The key `{NAME}` expires \
             {DAYS} days after this start; the next quickstart replaces it.\n\
             Start again: par{flag} serve        Revoke the key: par{flag} key revoke {NAME}",
            self.root.display()
        )
    }
}
