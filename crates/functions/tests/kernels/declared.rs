//! A kernel that touches a field which its function does not declare for it does not compile, and
//! the message names function and field. For each function each declared field is taken away.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use warpline_device::{Failure, Source, compile_cuda_for};
use warpline_functions::definition;
use warpline_nf::{Function, Kernels};
use warpline_packet::{Binding, Field, FieldSet, ReadWrite};
use warpline_verify::build;

use crate::driver::devices;
use crate::form_files::FILES;
use crate::forms::FORMS;
use crate::sys::vouched::source;

/// Fields that are declared for kernels and that no text names: `run` reads or writes them besides.
/// Reads of a kernel that writes the whole frame, and so has pointers into it, are not listed.
const UNUSED: [(&str, Field, bool); 2] =
    [("firewall.cl", Field::Verdict, false), ("router.cl", Field::NextHop, false)];

/// One function for each text of kernels and each function that has it.
fn functions() -> BTreeMap<(&'static str, &'static str), Box<dyn Function>> {
    let folder = PathBuf::from(format!("{}/declared", env!("CARGO_TARGET_TMPDIR")));
    fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in FILES {
        fs::write(folder.join(name), text).expect("a file");
        fs::set_permissions(folder.join(name), Permissions::from_mode(0o600)).expect("a mode");
    }
    let mut all = BTreeMap::new();
    for form in FORMS {
        let definition = definition(form.function).expect("a function");
        let (function, _) = build(definition, form.table, &folder);
        let Some(kernels) = function.kernels() else { continue };
        if let Entry::Vacant(entry) = all.entry((kernels.name(), form.function)) {
            assert_eq!(refused(&kernels), None, "{} as it is", form.name);
            entry.insert(function);
        }
    }
    all
}

/// The messages of the host's compiler where it refuses `kernels`.
fn refused(kernels: &Kernels) -> Option<String> {
    let host = devices().into_iter().find(|one| one.description().id == "host")?;
    log_of(host.compile(&source(kernels, &Binding::MIRROR)).err())
}

fn log_of(failure: Option<Failure>) -> Option<String> {
    match failure? {
        Failure::Compile { log } => Some(log),
        other => Some(other.to_string()),
    }
}

fn without(access: ReadWrite, field: Field, is_written: bool) -> ReadWrite {
    let others = !FieldSet::of(&[field]);
    match is_written {
        true => ReadWrite::new(access.reads, access.writes & others),
        false => ReadWrite::new(access.reads & others, access.writes),
    }
}

/// Each field that kernels declare, read or written; geometry has its place in every launch's
/// table.
fn declared(access: ReadWrite) -> Vec<(Field, bool)> {
    let of = |set: FieldSet, is_written| {
        let fields = set & !FieldSet::GEOMETRY;
        fields.iter().map(move |field| (field, is_written)).collect::<Vec<_>>()
    };
    [of(access.reads, false), of(access.writes, true)].concat()
}

fn stem(name: &str) -> &str {
    name.trim_end_matches(".cl")
}

fn name_of(function: &str, (field, is_written): (Field, bool)) -> String {
    let does = if is_written { "writes" } else { "reads" };
    let function = stem(function);
    format!("{function}_does_not_declare_that_it_{does}_{}", field.name().replace('-', "_"))
}

#[test]
fn kernels_that_touch_undeclared_fields_do_not_compile() {
    let all = functions();
    assert!(all.len() >= 8, "{:?}", all.keys());
    let (mut refusals, mut unused) = (0, Vec::new());
    let mut of_each_kind = [None, None];
    for ((name, _), function) in &all {
        let kernels = function.kernels().expect("kernels");
        let access = function.kernel_access();
        let refused = take_each(name, &kernels, access, &mut unused);
        refusals += refused.len();
        let picked = &mut of_each_kind[usize::from(has_pointers(access))];
        *picked = refused.into_iter().next().or(picked.take());
    }
    for picked in of_each_kind {
        let (fewer, wanted) = picked.expect("kernels with pointers and without");
        on_other_compilers(&fewer, &wanted);
    }
    println!("{refusals} refused");
    assert_eq!(unused, UNUSED);
    assert!(refusals > 60, "{refusals}");
}

/// Whether kernels with this access reach bytes by pointers, and so declare the whole frame.
fn has_pointers(access: ReadWrite) -> bool {
    access.writes.covers(FieldSet::FRAME)
}

/// Compiles `kernels` without each field that they declare. Gives those that the compiler refused,
/// each with the name that its message contains. Fields without which it compiles go to `unused`.
fn take_each(
    name: &'static str,
    kernels: &Kernels,
    access: ReadWrite,
    unused: &mut Vec<(&'static str, Field, bool)>,
) -> Vec<(Kernels, String)> {
    let mut all = Vec::new();
    let has_pointers = has_pointers(access);
    for (field, is_written) in declared(access) {
        let fewer = kernels.clone().declaring(without(access, field, is_written));
        let Some(log) = refused(&fewer) else {
            if !has_pointers || is_written || !FieldSet::FRAME.contains(field) {
                unused.push((name, field, is_written));
            }
            continue;
        };
        let reads_all = format!("{}_does_not_declare_that_it_reads_the_whole_frame", stem(name));
        let wanted = name_of(name, (field, is_written));
        let is_by_pointer = has_pointers && !log.contains(&wanted);
        let wanted = if is_by_pointer { reads_all } else { wanted };
        assert!(log.contains(&wanted), "{wanted}: {log}");
        all.push((fewer, wanted));
    }
    all
}

/// OpenCL's compiler and NVRTC refuse `kernels`, too, and their messages contain `wanted`. Each
/// takes seconds, so they get few kernels.
fn on_other_compilers(kernels: &Kernels, wanted: &str) {
    let source: Source = source(kernels, &Binding::MIRROR);
    for device in devices() {
        let log = log_of(device.compile(&source).err()).unwrap_or_default();
        assert!(log.contains(wanted), "{}: {wanted}: {log}", device.description());
    }
    match compile_cuda_for(&source, 80) {
        Err(Failure::NoCompiler(why)) => println!("skipped: {why}"),
        other => {
            let log = log_of(other.err()).unwrap_or_default();
            assert!(log.contains(wanted), "NVRTC: {wanted}: {log}");
        }
    }
}
