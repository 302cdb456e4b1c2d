//! The protocols against scripted servers, and against recorded answers of real servers.

pub(super) mod scripted;
mod recorded;
mod both;
mod served;
mod openai_recorded;
mod others_recorded;
mod openai_served;
mod anthropic_recorded;
mod anthropic_served;
