//! A tool or a rule with its cases: added, checked, and shown.

use super::added::Added;
use super::case::NewCase;
use crate::cli::exit::{self, Fail};
use crate::cli::{compose, show};
use crate::config::Config;
use crate::policy::CaseFailure;
use crate::rules;
use crate::types::text;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What is to be added to `etc/`.
#[derive(Debug, Default)]
pub(in crate::cli) struct Proposal {
    /// The command, for the first line of each file.
    pub(in crate::cli) command: &'static str,
    /// The name of the policy file and of its cases, without the ending.
    pub(in crate::cli) stem: String,
    /// The file name and the text of a manifest.
    pub(in crate::cli) manifest: Option<(String, String)>,
    /// Existing manifests with their new text.
    pub(in crate::cli) changed: Vec<(PathBuf, String)>,
    /// Policies, the least first: the first that makes the cases hold is written, and none if they
    /// hold already.
    pub(in crate::cli) rules: Vec<String>,
    /// `[groups]` of the cases: a group and its one member.
    pub(in crate::cli) groups: Vec<(String, String)>,
    pub(in crate::cli) cases: Vec<NewCase>,
    /// What to do next, one command a line.
    pub(in crate::cli) next: Vec<String>,
}

impl Proposal {
    /// Adds it, checks it as a start would, and shows what it allows. If a check fails, everything
    /// is taken back.
    pub(in crate::cli) fn add(mut self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        if let Err(e) = rules::load_rules(config) {
            return Err(Fail::usage(format!(
                "nothing was added, because the rules do not load as they are:\npar: {}",
                e.0.join("\npar: ")
            )));
        }
        let etc = &config.home.etc;
        let tests = etc.join("policies/tests");
        let case_file = tests.join(format!("{}.toml", self.stem));
        let rule_file = etc.join(format!("policies/{}.cedar", self.stem));
        for path in [&case_file, &rule_file] {
            if path.symlink_metadata().is_ok() {
                return Err(Fail::usage(format!(
                    "{} exists already: nothing is overwritten",
                    path.display()
                )));
            }
        }
        let mut added = Added::default();
        if let Some((name, text)) = &self.manifest {
            added.make(&etc.join("tools.d").join(name), text)?;
        }
        for (path, text) in &self.changed {
            added.change(path, text)?;
        }
        if !tests.exists() {
            std::fs::create_dir(&tests).map_err(|e| Fail::failed(format!("{}: {e}", tests.display())))?;
        }
        added.make(&case_file, &self.cases_text())?;
        let mut rule = None;
        if self.holds(config)? {
            if self.manifest.is_none() && self.changed.is_empty() {
                return Err(Fail::usage("the rules in force already do exactly this: nothing was added"));
            }
        } else {
            for text in std::mem::take(&mut self.rules) {
                let whole = format!("// Written by `par {}`.\n\n{text}", self.command);
                match rule {
                    None => added.make(&rule_file, &whole)?,
                    Some(_) => added.change(&rule_file, &whole)?,
                }
                rule = Some(text);
                if self.holds(config)? {
                    break;
                }
            }
        }
        if self.expect_other_gates(config)? {
            added.change(&case_file, &self.cases_text())?;
        }
        self.keep_what_holds(config)?;
        added.change(&case_file, &self.cases_text())?;
        compose::load_rules(config).map_err(|e| taken_back(&e.what))?;
        self.show(config, &added.keep(), rule.as_deref(), is_json)
    }

    fn cases_text(&self) -> String {
        let mut text = format!(
            "# Written by `par {}`. Every load runs these cases: change the rule and its cases together.\n",
            self.command
        );
        if !self.groups.is_empty() {
            text += "\n[groups]\n";
            for (group, member) in &self.groups {
                text += &format!("{} = [{}]\n", super::case::text(group), super::case::text(member));
            }
        }
        text.extend(self.cases.iter().map(NewCase::toml));
        text
    }

    /// The cases that fail, among all cases.
    fn failures(&self, config: &Config) -> Result<Vec<CaseFailure>, Fail> {
        let rules = rules::load_unproven(config).map_err(|e| taken_back(&e.0.join("\npar: ")))?;
        Ok(rules.bundle.prove(&rules.catalog, &rules::folders(config)))
    }

    fn is_own(&self, failure: &CaseFailure) -> bool {
        failure.place.file == format!("policies/tests/{}.toml", self.stem)
    }

    fn is_needed(&self, failure: &CaseFailure) -> bool {
        let is_it = |case: &&NewCase| case.name == failure.name;
        self.is_own(failure) && self.cases.iter().find(is_it).is_some_and(|case| case.is_needed)
    }

    /// Whether the own cases hold, or another rule asks a person first.
    fn holds(&self, config: &Config) -> Result<bool, Fail> {
        let is_gated = |failure: &CaseFailure| {
            let is_plain =
                |case: &NewCase| case.name == failure.name && case.expect == "allow" && case.more.is_empty();
            failure.got.starts_with("needs_approval") && self.cases.iter().any(is_plain)
        };
        Ok(self.failures(config)?.iter().all(|failure| !self.is_needed(failure) || is_gated(failure)))
    }

    /// If another rule asks a person first, that is what the case expects. Returns whether it was
    /// so.
    fn expect_other_gates(&mut self, config: &Config) -> Result<bool, Fail> {
        let failures = self.failures(config)?;
        let gated: Vec<&CaseFailure> = failures
            .iter()
            .filter(|failure| self.is_own(failure) && failure.got.starts_with("needs_approval"))
            .collect();
        let mut is_changed = false;
        for case in self.cases.iter_mut().filter(|case| case.expect == "allow" && case.more.is_empty()) {
            if gated.iter().any(|failure| failure.name == case.name) {
                case.expect = "needs_approval";
                case.name += ", once a person approves as another rule asks";
                is_changed = true;
            }
        }
        Ok(is_changed)
    }

    /// Leaves out the own cases that other rules answer otherwise. Any other case must hold.
    fn keep_what_holds(&mut self, config: &Config) -> Result<(), Fail> {
        let failures = self.failures(config)?;
        let (spare, bad): (Vec<CaseFailure>, Vec<CaseFailure>) =
            failures.into_iter().partition(|failure| self.is_own(failure) && !self.is_needed(failure));
        if !bad.is_empty() {
            let reasons: Vec<String> = bad.iter().map(ToString::to_string).collect();
            return Err(taken_back(&reasons.join("\npar: ")));
        }
        self.cases.retain(|case| !spare.iter().any(|failure| failure.name == case.name));
        Ok(())
    }

    fn show(
        &self,
        config: &Config,
        files: &[PathBuf],
        rule: Option<&str>,
        is_json: bool,
    ) -> Result<u8, Fail> {
        let shown =
            |path: &PathBuf| path.strip_prefix(&config.home.root).unwrap_or(path).display().to_string();
        if is_json {
            let cases: Vec<Value> =
                self.cases.iter().map(|case| json!({ "name": case.name, "expect": case.expect })).collect();
            let files: Vec<&PathBuf> = files.iter().collect();
            show::json(&json!({ "written": files, "cases": cases, "next": self.next }))?;
            return Ok(exit::OK);
        }
        for path in files {
            show::line(&format!("wrote {}", shown(path)))?;
        }
        if let Some(rule) = rule {
            show::line("")?;
            rule.trim_end().lines().try_for_each(|line| show::line(&format!("    {line}")))?;
        } else {
            show::line("\nNo rule was needed: the rules in force permit it already.")?;
        }
        show::line("\nEvery load now checks:")?;
        let width = self.cases.iter().map(|case| case.expect.len()).max().unwrap_or_default();
        for case in &self.cases {
            show::line(&format!("  {:<width$}  {}", case.expect, text::visible_line(&case.name)))?;
        }
        show::line("\nNext:")?;
        self.next.iter().try_for_each(|line| show::line(&format!("  {line}")))?;
        Ok(exit::OK)
    }
}

fn taken_back(why: &str) -> Fail {
    Fail::usage(format!("{why}\npar: nothing was added: every file is as it was"))
}
