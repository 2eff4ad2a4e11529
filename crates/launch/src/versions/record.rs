//! The places where each field of one packet has its newest value.

use warpline_packet::{Field, FieldSet};

/// A place that holds fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The batch, and the packet's room in the lane's memory.
    Host,
    /// The room in the mirror of this number.
    Mirror(usize),
    /// The launch's table in the lane's memory.
    Table,
    /// The launch's table on its device.
    TableThere,
}

/// See the module. A field is *current* in a place that holds its newest version.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The number that ingress gave the packet, or its cause.
    pub(super) ingress: u64,
    pub(super) is_made: bool,
    host: FieldSet,
    table: FieldSet,
    table_there: FieldSet,
    mirrors: Vec<FieldSet>,
}

impl Record {
    /// A packet that the host alone has.
    pub(super) fn new(ingress: u64, is_made: bool, mirrors: usize) -> Self {
        Self {
            ingress,
            is_made,
            host: FieldSet::ALL,
            table: FieldSet::EMPTY,
            table_there: FieldSet::EMPTY,
            mirrors: vec![FieldSet::EMPTY; mirrors],
        }
    }

    /// The same packet in another room, to which the host carried its frame.
    pub(super) fn moved(mut self) -> Self {
        self.mirrors.fill(FieldSet::EMPTY);
        self
    }

    /// The fields that are current in a place.
    pub(super) fn current(&self, place: Holder) -> FieldSet {
        match place {
            Holder::Host => self.host,
            Holder::Table => self.table,
            Holder::TableThere => self.table_there,
            Holder::Mirror(number) => self.mirrors.get(number).copied().unwrap_or_default(),
        }
    }

    fn current_mut(&mut self, place: Holder) -> Option<&mut FieldSet> {
        match place {
            Holder::Host => Some(&mut self.host),
            Holder::Table => Some(&mut self.table),
            Holder::TableThere => Some(&mut self.table_there),
            Holder::Mirror(number) => self.mirrors.get_mut(number),
        }
    }

    /// `fields` were copied: a stale field is as stale where it was copied to.
    pub(super) fn copy(&mut self, from: Holder, to: Holder, fields: FieldSet) {
        self.set(to, fields, self.current(from));
    }

    /// `fields` of a place were put aside when these of them were `current`.
    pub(super) fn set(&mut self, place: Holder, fields: FieldSet, current: FieldSet) {
        if let Some(own) = self.current_mut(place) {
            *own = *own & !fields | current & fields;
        }
    }

    /// `fields` were written: every other place has an older version.
    pub(super) fn write(&mut self, place: Holder, fields: FieldSet) {
        let tables = [&mut self.host, &mut self.table, &mut self.table_there];
        tables.into_iter().chain(&mut self.mirrors).for_each(|own| *own = *own & !fields);
        self.set(place, fields, fields);
    }

    /// A launch has a table of its own, with nothing in it.
    pub(super) fn clear_tables(&mut self) {
        (self.table, self.table_there) = (FieldSet::EMPTY, FieldSet::EMPTY);
    }

    /// The first of `fields` that is stale in a place, and where it is current.
    pub(super) fn stale(&self, place: Holder, fields: FieldSet) -> Option<(Field, Option<Holder>)> {
        let field = (fields & !self.current(place)).iter().next()?;
        let mirrors = (0..self.mirrors.len()).map(Holder::Mirror);
        let mut all = [Holder::Host].into_iter().chain(mirrors).chain(TABLES);
        Some((field, all.find(|&place| self.current(place).contains(field))))
    }
}

const TABLES: [Holder; 2] = [Holder::TableThere, Holder::Table];
