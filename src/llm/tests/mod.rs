//! The protocols against scripted servers, and against recorded answers of real servers.

pub(super) mod scripted;
mod frames;
mod recorded;
mod faults;
mod divided;
mod states;
mod schemas;
mod both;
mod served;
mod openai_recorded;
mod others_recorded;
mod openai_served;
mod anthropic_recorded;
mod anthropic_served;
