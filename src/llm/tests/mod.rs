//! The protocols against servers that say what a script has, and against answers that real servers gave.

pub(super) mod scripted;
mod recorded;
mod both;
mod served;
mod openai_recorded;
mod openai_served;
mod anthropic_recorded;
mod anthropic_served;
