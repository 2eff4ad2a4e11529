//! Runs jobs: fills the library's own slots, submits them, and takes the results.

use core::ffi::{c_uint, c_void};
use core::fmt;
use core::ptr::{NonNull, null, null_mut};

use zeroize::Zeroize;

use super::layout::*;
use super::{GcmKey, Library};
use crate::Missing;
use crate::ipsec_mb::{Cipher, Direction, Hash, Job, JobOutcome};

/// Bytes of GCM's tags.
const GCM_TAG_LEN: usize = 16;

/// Runs the jobs of a thread. It stays with its thread, and is empty between two calls.
pub struct Manager {
    library: &'static Library,
    head: NonNull<ManagerHead>,
    pub(super) functions: Functions,
    context: GcmContext,
}

/// Those of a manager for this processor.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    get_next_job: JobCall,
    submit_job: JobCall,
    flush_job: JobCall,
    gcm_enc: [GcmCall; 3],
    gcm_dec: [GcmCall; 3],
    pub(super) gcm_pre: [GcmPre; 3],
}

impl Functions {
    fn of(head: &ManagerHead) -> Option<Self> {
        Some(Self {
            get_next_job: head.get_next_job?,
            submit_job: head.submit_job_nocheck?,
            flush_job: head.flush_job?,
            gcm_enc: all(head.gcm_enc)?,
            gcm_dec: all(head.gcm_dec)?,
            gcm_pre: all(head.gcm_pre)?,
        })
    }
}

fn all<T: Copy>([a, b, c]: [Option<T>; 3]) -> Option<[T; 3]> {
    Some([a?, b?, c?])
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("library", &self.library).finish_non_exhaustive()
    }
}

impl Manager {
    /// Allocates one, for the best instructions that this processor has.
    ///
    /// # Errors
    ///
    /// There is no memory, or the library has no code for this processor.
    pub fn new(library: &'static Library) -> Result<Self, Missing> {
        // SAFETY: flags of 0 are the defaults; the function returns zeroed memory of the right
        // length, or null.
        let Some(head) = NonNull::new(unsafe { (library.alloc)(0) }) else {
            return Err(Missing("no memory for a manager of intel-ipsec-mb".into()));
        };
        // SAFETY: the manager was allocated for this. The second argument receives the instruction
        // set in use and may be null. The head can be read then; functions that were not set are
        // null.
        let (errno, functions) = unsafe {
            (library.init)(head.as_ptr(), null_mut());
            (head.as_ref().errno, Functions::of(head.as_ref()))
        };
        match functions.filter(|_| errno == 0) {
            Some(functions) => {
                Ok(Self { library, head, functions, context: GcmContext([0; GCM_CONTEXT_LEN]) })
            }
            None => {
                // SAFETY: it came from `alloc`, and nothing else knows it.
                unsafe { (library.free)(head.as_ptr()) };
                let reason = format!("intel-ipsec-mb can't work on this processor (error {errno})");
                Err(Missing(reason))
            }
        }
    }

    /// Runs jobs and returns when all are done, each with its outcome. Malformed ones are left as
    /// they are and reported as not done. The library keeps no reference to the caller's memory
    /// afterwards, even if `jobs` panics. Returns the number of jobs that were done.
    #[inline]
    pub fn run<'a>(&mut self, jobs: impl Iterator<Item = Job<'a>>) -> usize {
        let mut queue = Queue { manager: self, done: 0 };
        for job in jobs {
            job.outcome.is_done = false;
            if job.is_well_formed() {
                queue.submit(job);
            }
        }
        queue.flush();
        queue.done
    }

    /// AES-GCM: ciphers `text` in place and returns the tag over `aad` and the ciphertext, both
    /// ways. Opening decrypts whether the tag matches or not; sealing again restores the old bytes.
    #[inline]
    pub fn gcm(
        &mut self,
        direction: Direction,
        key: &GcmKey,
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
    ) -> [u8; GCM_TAG_LEN] {
        let calls = match direction {
            Direction::Seal => &self.functions.gcm_enc,
            Direction::Open => &self.functions.gcm_dec,
        };
        let mut tag = [0; GCM_TAG_LEN];
        let (bytes, len) = (text.as_mut_ptr(), text.len() as u64);
        // SAFETY: the key was made for this size of key and for this processor, which all managers
        // use. Text, data, nonce (12 bytes) and tag are borrowed and have the stated lengths;
        // output may be input. The context is as long as in all of `VERSIONS`.
        unsafe {
            calls[key.size](
                &*key.data,
                &mut self.context,
                bytes,
                bytes,
                len,
                nonce.as_ptr(),
                aad.as_ptr(),
                aad.len() as u64,
                tag.as_mut_ptr(),
                tag.len() as u64,
            );
        }
        tag
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.context.0.zeroize();
        // SAFETY: it came from `alloc`, is freed once, and no job is in it.
        unsafe { (self.library.free)(self.head.as_ptr()) }
    }
}

/// Jobs under way: emptied before what they point to is given back, in a panic as well.
struct Queue<'m> {
    manager: &'m mut Manager,
    done: usize,
}

impl Queue<'_> {
    /// `job` is well-formed.
    #[inline(always)]
    fn submit(&mut self, job: Job<'_>) {
        let Manager { head, functions: Functions { get_next_job, submit_job, .. }, .. } =
            *self.manager;
        // SAFETY: the manager is initialized and used by this thread alone. The next job's slot is
        // one of its own, and its head is written in full; these algorithms don't read the rest.
        // Every part is within the packet, which is borrowed alone for as long as the queue lives,
        // as `Manager::run` empties it before the borrows can end. Lengths, keys and alignments are
        // those that the library takes unchecked (`Job::is_well_formed`).
        unsafe {
            let slot = get_next_job(head.as_ptr());
            fill(slot, job);
            let returned = submit_job(head.as_ptr());
            self.settle(returned);
        }
    }

    fn flush(&mut self) {
        let Manager { head, functions: Functions { flush_job, .. }, .. } = *self.manager;
        loop {
            // SAFETY: as in `submit`: what the jobs under way point to is still borrowed.
            let is_empty = unsafe {
                let returned = flush_job(head.as_ptr());
                self.settle(returned);
                returned.is_null()
            };
            if is_empty {
                return;
            }
        }
    }

    /// # Safety
    ///
    /// `returned` is null or was given back by the manager just now, and its caller's borrow lives.
    #[inline]
    unsafe fn settle(&mut self, returned: *mut JobHead) {
        if returned.is_null() {
            return;
        }
        // SAFETY: a slot of the manager, filled by `fill`, which stored the address of an outcome
        // there.
        unsafe {
            let outcome = (*returned).user_data.cast::<JobOutcome>();
            (*outcome).is_done = (*returned).status == STATUS_COMPLETED;
            self.done += usize::from((*outcome).is_done);
        }
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// # Safety
///
/// `slot` can be written, as far as the head goes.
#[inline(always)]
unsafe fn fill(slot: *mut JobHead, job: Job<'_>) {
    let outcome: *mut JobOutcome = job.outcome;
    let tag_len = job.hash.tag_len();
    let bytes = job.packet.as_mut_ptr();
    let (direction, chain_order) = match job.direction {
        Direction::Seal => (DIR_ENCRYPT, ORDER_CIPHER_HASH),
        Direction::Open => (DIR_DECRYPT, ORDER_HASH_CIPHER),
    };
    let (hash_alg, inner, outer) = hash_parts(job.hash);
    // The library takes no empty text.
    let cipher = if job.ciphered.is_empty() { Cipher::Null } else { job.cipher };
    let (cipher_mode, keys, key_len, iv) = cipher_parts(cipher);
    let tag = match job.tag_at {
        // SAFETY: the place lies in the packet.
        Some(at) if hash_alg != AUTH_NULL => unsafe { bytes.add(at) },
        // SAFETY: the address of a field of a borrowed value.
        _ => unsafe { (&raw mut (*outcome).tag).cast() },
    };
    let head = JobHead {
        enc_keys: keys,
        dec_keys: keys,
        key_len,
        src: bytes,
        // Without a cipher nothing is known of the part, nor is it looked at.
        dst: bytes.wrapping_add(job.ciphered.start),
        cipher_start: job.ciphered.start as u64,
        cipher_len: job.ciphered.len() as u64,
        hash_start: job.hashed.start as u64,
        hash_len: job.hashed.len() as u64,
        iv,
        iv_len: 16,
        tag,
        tag_len: tag_len as u64,
        inner,
        outer,
        third: null(),
        status: 0,
        cipher_mode,
        direction,
        hash_alg,
        chain_order,
        user_data: outcome.cast(),
    };
    // SAFETY: as this function's.
    unsafe { slot.write(head) }
}

/// The number of a hash, and its two states.
#[inline(always)]
fn hash_parts(hash: Hash<'_>) -> (c_uint, *const c_void, *const c_void) {
    let (alg, inner, outer) = match hash {
        Hash::None => return (AUTH_NULL, null(), null()),
        Hash::Md5(inner, outer) => (AUTH_MD5, inner, outer),
        Hash::Sha1(inner, outer) => (AUTH_HMAC_SHA_1, inner, outer),
        Hash::Sha256(inner, outer) => (AUTH_HMAC_SHA_256, inner, outer),
    };
    (alg, inner.as_ptr().cast(), outer.as_ptr().cast())
}

/// The number of a cipher, its round keys, the length of their key in bytes, and the first block.
#[inline(always)]
fn cipher_parts(cipher: Cipher<'_>) -> (c_uint, *const c_void, u64, *const u8) {
    let (mode, round_keys, block) = match cipher {
        Cipher::Null => return (CIPHER_NULL, null(), 0, null()),
        Cipher::Cbc { round_keys, iv } => (CIPHER_CBC, round_keys, iv),
        Cipher::Ctr { round_keys, counter } => (CIPHER_CNTR, round_keys, counter),
    };
    // Keys of `n` rounds are of `4 n - 24` bytes (FIPS 197, table 3).
    (mode, round_keys.as_ptr().cast(), 4 * round_keys.len() as u64 - 28, block.as_ptr())
}
