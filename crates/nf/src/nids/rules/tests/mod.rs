//! Rules as text, and what they mean.
