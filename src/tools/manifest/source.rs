//! Where a manifest's file declares an argument, for messages; and the schema that a model is
//! shown.

use super::tool::Manifest;
use serde_json::Value;
use toml::de::DeTable;

impl Manifest {
    /// The file's name in messages: `tools.d/deploy.toml`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("tools.d/{}", self.file.file_name().unwrap_or_default().display())
    }

    /// The offset in the file at which `argument` is declared, or else that of `input`. `None` if
    /// the file has no `input`.
    #[must_use]
    pub fn declared(&self, argument: Option<&str>) -> Option<usize> {
        let (file, _) = DeTable::parse_recoverable(&self.text);
        let input = file.get_ref().get_key_value("input")?;
        let all = input.1.get_ref().get("properties").and_then(|all| all.get_ref().as_table());
        let of_argument = argument.and_then(|name| all?.get_key_value(name));
        Some(of_argument.map_or(input.0.span().start, |(name, _)| name.span().start))
    }

    /// The schema of the arguments without PAR's own keywords, which a provider may not know.
    #[must_use]
    pub fn input_shown(&self) -> Value {
        let mut input = self.input.clone();
        for (_, property) in input.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
        {
            if let Some(words) = property.as_object_mut() {
                words.remove("opaque");
            }
        }
        input
    }
}
