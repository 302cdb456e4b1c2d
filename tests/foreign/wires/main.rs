//! The same question on each wire, answered by servers that others wrote: the steps and the answer
//! are the same, whole and streamed.

mod aimock;
mod oracles;
mod par;
