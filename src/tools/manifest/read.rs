//! Reads the file into its raw form, and collects every fault on the way.

use super::error::{InFile, ManifestError};
use super::fields::TableFields;
use super::raw::{RawManifest, RawResource, RawSandbox};
use super::words::Limits;
use serde_json::Value;
use toml::de::DeTable;

/// The line to paste for a member that is missing.
const CLASS: &str = "class = \"read\"    # read, write, exec, net or admin";
const RISK: &str = "risk = \"low\"    # low, medium or high";
const SUMMARY: &str = "summary = \"One sentence for the model and for people.\"";
const UNTRUSTED: &str = "untrusted_output = true    # a run that reads the output is tainted";
const SANDBOX: &str = "[sandbox]\nread = []    # folders that the tool may read";
const LIMITS: &str = "[limits]\nwall_ms_max = 10000\noutput_bytes_max = 65536\nmemory_bytes_max = 268435456\nprocesses_max = 8";
const TYPE: &str = "type = \"Host\"    # Path, Project, Service, Job or Host";
const INPUT: &str = "[input]\ntype = \"object\"\nadditionalProperties = false";
const ON_PATH: &str = "[resource]\ntype = \"Path\"\nfrom = \"/path\"\ncanonical = \"path\"";
const ON_HOST: &str = "[resource]\ntype = \"Host\"\nis = \"localhost\"    # the call is about this host";

impl RawManifest {
    /// Reads the file's text. What could not be read is absent, and is among the faults.
    ///
    /// # Errors
    ///
    /// The text is not TOML.
    pub(super) fn read(file: InFile<'_>) -> Result<(Self, Vec<ManifestError>), ManifestError> {
        let table = DeTable::parse(file.text).map_err(|e| file.toml(&e))?;
        let mut fields = TableFields::of_file(file, table.into_inner());
        let mut found = Vec::new();
        let stem = file.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("my_tool");
        let name = fields.required("name", &format!("name = \"{stem}\""));
        let input: Option<Value> = fields.required("input", INPUT);
        let is_on_path = input.as_ref().is_some_and(|input| input.pointer("/properties/path").is_some());
        let resource = fields.table("resource", "[resource]", if is_on_path { ON_PATH } else { ON_HOST });
        let sandbox = fields.table("sandbox", "[sandbox]", SANDBOX);
        let limits = fields.table("limits", "[limits]", LIMITS);
        let front = fields.optional("front");
        let sandbox = sandbox.map(|table| read_sandbox(table, &mut found));
        let raw = Self {
            name,
            summary: fields.required("summary", SUMMARY),
            class: fields.required("class", CLASS),
            risk: fields.required("risk", RISK),
            builtin: fields.optional("builtin"),
            front,
            command: fields.optional("command"),
            interpreter: fields.optional("interpreter"),
            script: fields.optional("script"),
            args: fields.optional("args"),
            runtime: fields.optional("runtime"),
            output: fields.or_default("output"),
            stdin: fields.or_default("stdin"),
            untrusted_output: fields.required("untrusted_output", UNTRUSTED),
            recursive: fields.or_default("recursive"),
            sensitive: fields.or_default("sensitive"),
            sends: fields.optional("sends"),
            resource: resource.and_then(|table| read_resource(table, &mut found)),
            is_sandbox_whole: matches!(&sandbox, Some((_, true))),
            sandbox: sandbox.map(|(sandbox, _)| sandbox).unwrap_or_default(),
            limits: limits.and_then(|table| read_limits(table, front.is_some(), &mut found)),
            input,
            output_schema: fields.optional("output_schema"),
            unsure: Vec::new(),
        };
        let unsure = fields.unsure();
        found.extend(fields.finish());
        Ok((Self { unsure, ..raw }, found))
    }
}

fn read_resource(mut fields: TableFields<'_>, found: &mut Vec<ManifestError>) -> Option<RawResource> {
    let r#type: Option<String> = fields.required("type", TYPE);
    let raw = r#type.map(|r#type| RawResource {
        r#type,
        from: fields.optional("from"),
        canonical: fields.optional("canonical"),
        is: fields.optional("is"),
        members: fields.optional("members"),
        content: fields.optional("content"),
        copy_in: fields.optional("copy_in"),
    });
    let is_whole = fields.is_whole();
    found.extend(fields.finish());
    raw.filter(|_| is_whole)
}

/// The table, and whether all of it could be read.
fn read_sandbox(mut fields: TableFields<'_>, found: &mut Vec<ManifestError>) -> (RawSandbox, bool) {
    let raw = RawSandbox {
        read: fields.or_default("read"),
        write: fields.or_default("write"),
        exec: fields.or_default("exec"),
        code: fields.or_default("code"),
        modes: fields.or_default("modes"),
        connect: fields.or_default("connect"),
        addresses: fields.or_default("addresses"),
        proc: fields.or_default("proc"),
        secrets: fields.or_default("secrets"),
        groups: fields.or_default("groups"),
    };
    let is_whole = fields.is_whole();
    found.extend(fields.finish());
    (raw, is_whole)
}

/// A tool without a child has no memory and no processes of its own.
fn read_limits(
    mut fields: TableFields<'_>,
    is_front: bool,
    found: &mut Vec<ManifestError>,
) -> Option<Limits> {
    let child = |line| (!is_front).then_some(line);
    let wall = fields.number("wall_ms_max", 3_600_000, Some("wall_ms_max = 10000"));
    let output = fields.number("output_bytes_max", 1 << 20, Some("output_bytes_max = 65536"));
    let memory = fields.number("memory_bytes_max", 1 << 40, child("memory_bytes_max = 268435456"));
    let processes = fields.number("processes_max", 1 << 16, child("processes_max = 8"));
    let file = fields.number("file_bytes_max", 1 << 40, None);
    let network = fields.number("network_bytes_max", 1 << 40, None);
    let written = fields.number("written_bytes_max", 1 << 50, None);
    let files = fields.number("written_files_max", 1 << 40, None);
    found.extend(fields.finish());
    Some(Limits {
        wall_ms_max: wall?,
        output_bytes_max: usize::try_from(output?).ok()?,
        memory_bytes_max: memory?,
        processes_max: processes?,
        file_bytes_max: file?,
        network_bytes_max: network?,
        written_bytes_max: written?,
        written_files_max: files?,
    })
}
