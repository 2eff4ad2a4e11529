//! The heads of the structures of intel-ipsec-mb, and the numbers of its algorithms.

use core::ffi::{c_int, c_uint, c_void};

use super::gcm_key::GcmKeyData;

/// Bytes of the key data of GCM: 1024 before 1.4, 1280 since.
pub(super) const GCM_KEY_LEN: usize = 1280;
/// Bytes of the context of a call of GCM.
pub(super) const GCM_CONTEXT_LEN: usize = 88;
pub(super) const CIPHER_CBC: c_uint = 1;
pub(super) const CIPHER_CNTR: c_uint = 2;
pub(super) const CIPHER_NULL: c_uint = 3;
pub(super) const DIR_ENCRYPT: c_uint = 1;
pub(super) const DIR_DECRYPT: c_uint = 2;
pub(super) const AUTH_HMAC_SHA_1: c_uint = 1;
pub(super) const AUTH_HMAC_SHA_256: c_uint = 3;
pub(super) const AUTH_MD5: c_uint = 7;
pub(super) const AUTH_NULL: c_uint = 8;
pub(super) const ORDER_CIPHER_HASH: c_uint = 1;
pub(super) const ORDER_HASH_CIPHER: c_uint = 2;
pub(super) const STATUS_COMPLETED: c_uint = 3;

/// The head of `IMB_JOB`.
#[repr(C)]
pub(super) struct JobHead {
    pub(super) enc_keys: *const c_void,
    pub(super) dec_keys: *const c_void,
    pub(super) key_len: u64,
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
    pub(super) cipher_start: u64,
    pub(super) cipher_len: u64,
    pub(super) hash_start: u64,
    pub(super) hash_len: u64,
    pub(super) iv: *const u8,
    pub(super) iv_len: u64,
    pub(super) tag: *mut u8,
    pub(super) tag_len: u64,
    pub(super) inner: *const c_void,
    pub(super) outer: *const c_void,
    pub(super) third: *const c_void,
    pub(super) status: c_uint,
    pub(super) cipher_mode: c_uint,
    pub(super) direction: c_uint,
    pub(super) hash_alg: c_uint,
    pub(super) chain_order: c_uint,
    pub(super) user_data: *mut c_void,
}

pub(super) type JobCall = unsafe extern "C" fn(*mut ManagerHead) -> *mut JobHead;
pub(super) type GcmPre = unsafe extern "C" fn(*const c_void, *mut GcmKeyData);
/// Key, context, output, input and its length, nonce, additional data and its length, tag and its
/// length.
pub(super) type GcmCall = unsafe extern "C" fn(
    *const GcmKeyData,
    *mut GcmContext,
    *mut u8,
    *const u8,
    u64,
    *const u8,
    *const u8,
    u64,
    *mut u8,
    u64,
);

/// The context of a call of GCM.
#[repr(C, align(16))]
pub(super) struct GcmContext(pub(super) [u8; GCM_CONTEXT_LEN]);

/// The head of `IMB_MGR`.
#[repr(C)]
pub(super) struct ManagerHead {
    pub(super) flags: u64,
    pub(super) features: u64,
    pub(super) reserved: [u64; 5],
    pub(super) used_arch: u32,
    pub(super) errno: c_int,
    pub(super) get_next_job: Option<JobCall>,
    pub(super) submit_job: Option<JobCall>,
    pub(super) submit_job_nocheck: Option<JobCall>,
    pub(super) get_completed_job: Option<JobCall>,
    pub(super) flush_job: Option<JobCall>,
    pub(super) others: [*const c_void; 19],
    /// Of 128, 192 and 256 bits.
    pub(super) gcm_enc: [Option<GcmCall>; 3],
    pub(super) gcm_dec: [Option<GcmCall>; 3],
    pub(super) more_of_gcm: [*const c_void; 18],
    pub(super) gcm_pre: [Option<GcmPre>; 3],
}
