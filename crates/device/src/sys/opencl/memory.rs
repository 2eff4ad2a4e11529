//! Memory objects.

use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use super::Context;
use super::api::{self, Api, Id};
use crate::Failure;

/// A memory object, released when it is dropped.
pub(crate) struct Memory {
    api: &'static Api,
    pub(crate) id: Id,
    _context: Arc<Context>,
}

/// The bytes of a new buffer.
pub(crate) enum Content<'a> {
    /// Any.
    Nothing,
    /// A copy of these. There are as many.
    Copied(&'a [u8]),
    /// Those of a piece that the caller keeps for as long as the buffer is in use, where they lie.
    Host(*mut c_void),
}

impl Memory {
    /// A buffer of `bytes`, at least one.
    pub(crate) fn new(
        api: &'static Api,
        context: &Arc<Context>,
        bytes: usize,
        content: Content<'_>,
    ) -> Result<Self, Failure> {
        let (flags, host) = match content {
            Content::Nothing => (0, ptr::null_mut()),
            Content::Copied(all) => (api::MEM_COPY_HOST_PTR, all.as_ptr().cast_mut().cast()),
            Content::Host(host) => (api::MEM_USE_HOST_PTR, host),
        };
        let flags = api::MEM_READ_WRITE | flags;
        let mut code = 0;
        // SAFETY: the context is valid. `host`, if given, is `bytes` long. The call copies and does
        // not write it, or the caller keeps it as long as the buffer is in use.
        let id =
            unsafe { (api.create_buffer)(context.context, flags, bytes.max(1), host, &mut code) };
        Self::made(api, context, id, code, bytes)
    }

    /// A part of it, as a buffer. Devices require a certain alignment of `start`.
    pub(crate) fn part(&self, start: usize, bytes: usize) -> Result<Self, Failure> {
        let region = [start, bytes.max(1)];
        let mut code = 0;
        // SAFETY: cl_buffer_region is two size_t, origin and size; the range was checked.
        let id = unsafe {
            let kind = api::BUFFER_CREATE_TYPE_REGION;
            (self.api.create_sub_buffer)(
                self.id,
                api::MEM_READ_WRITE,
                kind,
                region.as_ptr().cast(),
                &mut code,
            )
        };
        Self::made(self.api, &self._context, id, code, bytes)
    }

    fn made(
        api: &'static Api,
        context: &Arc<Context>,
        id: Id,
        code: i32,
        wanted: usize,
    ) -> Result<Self, Failure> {
        match code {
            api::SUCCESS => Ok(Self { api, id, _context: context.clone() }),
            -6..=-4 | -61 => Err(Failure::OutOfMemory { wanted, free: None }),
            _ => Err(Failure::Work(format!("no buffer: {}", api::name_of(code)))),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by clCreateBuffer or clCreateSubBuffer, released once.
        unsafe { (self.api.release_mem)(self.id) };
    }
}
