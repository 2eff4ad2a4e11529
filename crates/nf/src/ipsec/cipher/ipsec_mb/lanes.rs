//! What the library does in lanes, many packets at a time: CBC, CTR and HMAC.

use aes::hazmat::mix_columns;
use warpline_native::ipsec_mb::{self as native, Direction, Hash, Manager};
use zeroize::Zeroizing;

use super::plan::Plan;
use super::{Auth, Cipher, Job, KeyRow, Keys, Note, is_equal};
use crate::ipsec::cipher::key_row::ROUND_KEYS_MAX;

/// Seals what is not of GCM. A packet that the library gave up, well-formed as it was, must not go out plain: it is
/// blanked.
pub(super) fn seal_lanes(
    manager: &mut Manager,
    keys: Keys<'_>,
    jobs: &mut [Job<'_>],
    notes: &mut [Note],
) {
    let mut begun = 0;
    let done = manager.run(jobs.iter_mut().zip(&mut *notes).filter_map(|(job, note)| {
        let plan = note.lanes_plan()?;
        begun += 1;
        let tag_at = (plan.auth != Auth::None).then_some(plan.icv);
        library_job(keys, job, note, plan, Direction::Seal, (plan.cipher, plan.auth), tag_at)
    }));
    if done == begun {
        return;
    }
    for (job, note) in jobs.iter_mut().zip(notes) {
        if let Some(plan) = note.lanes_plan()
            && !note.outcome.is_done()
        {
            job.esp[plan.text..].fill(0);
        }
    }
}

/// Opens what is not of GCM, by one job each, or, for who `is_wary`, the HMACs of all and then the ciphers of what is
/// authentic. Says whether one was not.
pub(super) fn open_lanes(
    manager: &mut Manager,
    keys: Keys<'_>,
    jobs: &mut [Job<'_>],
    notes: &mut [Note],
    is_wary: bool,
) -> bool {
    manager.run(jobs.iter_mut().zip(&mut *notes).filter_map(|(job, note)| {
        let plan = note.lanes_plan()?;
        let cipher = if is_wary { Cipher::Null } else { plan.cipher };
        library_job(keys, job, note, plan, Direction::Open, (cipher, plan.auth), None)
    }));
    let mut forged = false;
    for (job, note) in jobs.iter_mut().zip(&mut *notes) {
        let Some(plan) = note.lanes_plan() else { continue };
        if plan.high_len() == 4 {
            job.esp[plan.icv..][..4].copy_from_slice(&note.icv_start);
        }
        job.is_authentic =
            note.outcome.tag().is_some_and(|tag| is_equal(tag, &job.esp[plan.icv..]));
        forged |= !job.is_authentic;
    }
    if is_wary {
        decrypt(manager, keys, jobs, notes);
    } else if forged {
        restore(manager, keys, jobs, notes);
    }
    forged
}

/// Decrypts what is authentic.
fn decrypt(manager: &mut Manager, keys: Keys<'_>, jobs: &mut [Job<'_>], notes: &mut [Note]) {
    let is_left = |job: &Job<'_>, plan: &Plan| job.is_authentic && plan.cipher != Cipher::Null;
    manager.run(jobs.iter_mut().zip(&mut *notes).filter_map(|(job, note)| {
        let plan = note.lanes_plan().filter(|plan| is_left(job, plan))?;
        library_job(keys, job, note, plan, Direction::Open, (plan.cipher, Auth::None), None)
    }));
    for (job, note) in jobs.iter_mut().zip(notes).filter(|(_, note)| note.lanes_plan().is_some()) {
        job.is_authentic &= note.outcome.is_done();
    }
}

/// Ciphers again what was decrypted and is not authentic.
fn restore(manager: &mut Manager, keys: Keys<'_>, jobs: &mut [Job<'_>], notes: &mut [Note]) {
    for (job, note) in jobs.iter_mut().zip(notes) {
        let is_left = note.outcome.is_done() && !job.is_authentic;
        let (Some(plan), Some(row)) = (note.lanes_plan().filter(|_| is_left), keys.row(job)) else {
            continue;
        };
        let encrypting = Encrypting::of(row, plan.cipher);
        let round_keys = encrypting.keys.get(..=usize::from(row.rounds)).unwrap_or_default();
        let cipher = cipher_of(plan.cipher, round_keys, &note.iv);
        let ciphered = plan.text..plan.icv;
        manager.run(core::iter::once(native::Job {
            direction: Direction::Seal,
            cipher,
            hash: Hash::None,
            packet: job.esp,
            ciphered,
            hashed: 0..0,
            tag_at: None,
            outcome: &mut note.outcome,
        }));
    }
}

/// The round keys that encrypt, of a row that opens.
#[repr(align(16))]
struct Encrypting {
    keys: Zeroizing<[[u8; 16]; ROUND_KEYS_MAX]>,
}

impl Encrypting {
    fn of(row: &KeyRow, cipher: Cipher) -> Self {
        let mut keys = Zeroizing::new(row.round_keys);
        if cipher == Cipher::Cbc
            && let Some(own) = keys.get_mut(..=usize::from(row.rounds))
        {
            // FIPS 197, 5.3.5, undone.
            own.reverse();
            if let [_, inner @ .., _] = own {
                inner.iter_mut().for_each(|key| mix_columns(key.into()));
            }
        }
        Self { keys }
    }
}

/// The library's job that does a cipher and an HMAC as `plan` says, with the keys of a job's row.
#[inline(always)]
fn library_job<'a>(
    keys: Keys<'a>,
    job: &'a mut Job<'_>,
    note: &'a mut Note,
    plan: Plan,
    direction: Direction,
    (cipher, auth): (Cipher, Auth),
    tag_at: Option<usize>,
) -> Option<native::Job<'a>> {
    let row = keys.row(job)?;
    let round_keys = row.round_keys.get(..=usize::from(row.rounds)).unwrap_or_default();
    Some(native::Job {
        direction,
        cipher: cipher_of(cipher, round_keys, &note.iv),
        hash: match auth {
            Auth::None => Hash::None,
            Auth::Sha1 => Hash::Sha1(&row.inner, &row.outer),
            Auth::Sha256 => Hash::Sha256(&row.inner, &row.outer),
        },
        packet: job.esp,
        ciphered: plan.text..plan.icv,
        hashed: 0..plan.icv + plan.high_len(),
        tag_at,
        outcome: &mut note.outcome,
    })
}

#[inline(always)]
fn cipher_of<'a>(
    cipher: Cipher,
    round_keys: &'a [[u8; 16]],
    iv: &'a [u8; 16],
) -> native::Cipher<'a> {
    match cipher {
        Cipher::Null | Cipher::Gcm => native::Cipher::Null,
        Cipher::Cbc => native::Cipher::Cbc { round_keys, iv },
        Cipher::Ctr => native::Cipher::Ctr { round_keys, counter: iv },
    }
}
