//! The protocols. Each writes a request and reads an answer, whole or in pieces, and has no socket,
//! no clock and no key.
//!
//! # Layout
//!
//! * `schema`: a tool's JSON Schema, as each protocol takes it. `fields`: pieces of JSON that
//!   several protocols have.
//! * `openai`: chat completions. `responses`: OpenAI's Responses. `anthropic`: Messages. `gemini`:
//!   generateContent. `ollama`: Ollama's own chat.

mod fields;
pub(super) mod schema;
pub(super) mod openai;
pub(super) mod responses;
pub(super) mod anthropic;
pub(super) mod gemini;
pub(super) mod ollama;
