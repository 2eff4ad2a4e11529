//! Views of the headers in a frame.
