//! Names of models in the configuration.

/// The name of the model that `[llm]` describes by itself. No table `[models.NAME]` has it.
pub const UNNAMED_MODEL: &str = "default";
