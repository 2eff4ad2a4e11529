//! The library's work in lanes, many packets at a time: CBC, CTR and HMAC.

use warpline_native::ipsec_mb::{self as native, Direction, Hash, Manager};

use super::plan::Plan;
use super::{Auth, Cipher, Job, Keys, Note, is_equal};

/// Seals all but GCM. A well-formed packet that the library gave up must not leave in the clear: it
/// is blanked.
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

/// Opens all but GCM: first the HMACs of all, then the ciphers of the authentic ones.
pub(super) fn open_lanes(
    manager: &mut Manager,
    keys: Keys<'_>,
    jobs: &mut [Job<'_>],
    notes: &mut [Note],
) {
    manager.run(jobs.iter_mut().zip(&mut *notes).filter_map(|(job, note)| {
        let plan = note.lanes_plan()?;
        let parts = (Cipher::Null, plan.auth);
        library_job(keys, job, note, plan, Direction::Open, parts, None)
    }));
    for (job, note) in jobs.iter_mut().zip(&mut *notes) {
        let Some(plan) = note.lanes_plan() else { continue };
        if plan.high_len() == 4 {
            job.esp[plan.icv..][..4].copy_from_slice(&note.icv_start);
        }
        job.is_authentic =
            note.outcome.tag().is_some_and(|tag| is_equal(tag, &job.esp[plan.icv..]));
    }
    let is_left = |job: &Job<'_>, plan: &Plan| job.is_authentic && plan.cipher != Cipher::Null;
    manager.run(jobs.iter_mut().zip(&mut *notes).filter_map(|(job, note)| {
        let plan = note.lanes_plan().filter(|plan| is_left(job, plan))?;
        let parts = (plan.cipher, Auth::None);
        library_job(keys, job, note, plan, Direction::Open, parts, None)
    }));
    for (job, note) in jobs.iter_mut().zip(notes).filter(|(_, note)| note.lanes_plan().is_some()) {
        job.is_authentic &= note.outcome.is_done();
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
        cipher: match cipher {
            Cipher::Null | Cipher::Gcm => native::Cipher::Null,
            Cipher::Cbc => native::Cipher::Cbc { round_keys, iv: &note.iv },
            Cipher::Ctr => native::Cipher::Ctr { round_keys, counter: &note.iv },
        },
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
