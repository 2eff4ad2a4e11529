//! The tables of a chain file that belong to no function, each below the command line's settings.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use warpline_nf::config::{Diagnostic, Layer, SourceText};
use warpline_nf::{Diagnostics, PORTS_MAX, Section};
use warpline_sched::Sharing;

use super::{CHAINS_MAX, File};
use crate::peer_keys::PeerKeys;
use crate::port_tables::{self, PortTable};
use crate::route_tables::{self, RouteTable};
use crate::table_lists;
use crate::tenants::{self, ArbiterTable, TenantTable};

impl<'a> File<'a> {
    /// The ports of all chains.
    pub(super) fn ports(&self, peers: &mut PeerKeys, mistakes: &mut Diagnostics) -> Vec<PortTable> {
        let mut ports = Vec::new();
        let list = (port_tables::TABLE, PORTS_MAX);
        let tables = table_lists::tables(self.source, self.table.get_ref(), list, mistakes);
        for (table, span) in tables {
            let own = port_tables::name_of(table).map(|name| format!("port.{name}"));
            let layers = self.layers(own.as_deref().unwrap_or(""), table, span.clone());
            let mut section = Section::new(layers, "[port]", self.folder, mistakes);
            let needs = self.needs_input;
            ports.extend(port_tables::read(
                &mut section,
                span,
                (&ports, peers),
                self.folder,
                needs,
            ));
        }
        ports
    }

    /// The routes of all chains.
    pub(super) fn routes(&self, mistakes: &mut Diagnostics) -> Vec<RouteTable> {
        let list = (route_tables::TABLE, route_tables::TABLES_MAX);
        let tables = table_lists::tables(self.source, self.table.get_ref(), list, mistakes);
        let mut routes = Vec::new();
        for (table, span) in tables {
            let layers = self.layers("", table, span.clone());
            let mut section = Section::new(layers, "[route]", self.folder, mistakes);
            routes.extend(route_tables::read(&mut section, span));
        }
        routes
    }

    /// How devices are shared.
    pub(super) fn arbiter(&self, mistakes: &mut Diagnostics) -> ArbiterTable {
        let is_set = self.overrides.iter().any(|(set, _)| set.table == tenants::ARBITER);
        let is_given = self.table.get_ref().get(tenants::ARBITER).is_some() || is_set;
        let empty = DeTable::new();
        ArbiterTable::read(&mut self.section(tenants::ARBITER, &empty, mistakes), is_given)
    }

    /// The tenants of all devices.
    pub(super) fn tenants(&self, mistakes: &mut Diagnostics) -> Vec<TenantTable> {
        let list = (tenants::TENANT, Sharing::TENANTS_MAX);
        let tables = table_lists::tables(self.source, self.table.get_ref(), list, mistakes);
        let mut all = Vec::new();
        for (table, span) in tables {
            let layers = self.layers("", table, span.clone());
            let mut section = Section::new(layers, "[tenant]", self.folder, mistakes);
            let opens = !self.options.is_simulated;
            all.extend(TenantTable::read(&mut section, (span, opens), &all));
        }
        all
    }

    /// The table `name` of all chains; `empty` if the file has none.
    pub(super) fn section<'s>(
        &'s self,
        name: &'static str,
        empty: &'s DeTable<'s>,
        mistakes: &'s mut Diagnostics,
    ) -> Section<'s> {
        let own = self.table.get_ref().get(name).map(|value| (value.get_ref(), value.span()));
        let (table, span) = match own {
            Some((DeValue::Table(table), span)) => (table, span),
            Some((_, span)) => {
                mistakes.push(self.source.mistake(span, format!("`{name}` is a table")));
                (empty, 0..0)
            }
            None => (empty, 0..0),
        };
        Section::new(self.layers(name, table, span), name, self.folder, mistakes)
    }

    pub(super) fn chain_tables(
        &self,
        mistakes: &mut Diagnostics,
    ) -> Vec<(&'a DeTable<'a>, Range<usize>)> {
        let Some(value) = self.table.get_ref().get("chain") else {
            mistakes.push(no_chain(self.source));
            return Vec::new();
        };
        let items: Vec<&Spanned<DeValue<'a>>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        if items.len() > CHAINS_MAX {
            let reported = format!("{} chains: a file has {CHAINS_MAX} at most", items.len());
            mistakes.push(self.source.mistake(items[CHAINS_MAX].span(), reported));
        }
        let mut tables = Vec::new();
        for item in items.into_iter().take(CHAINS_MAX) {
            match item.get_ref() {
                DeValue::Table(table) => tables.push((table, item.span())),
                _ => mistakes.push(self.source.mistake(item.span(), "`chain` is a table")),
            }
        }
        tables
    }

    pub(super) fn layers(
        &self,
        name: &str,
        table: &'a DeTable<'a>,
        span: Range<usize>,
    ) -> Vec<Layer<'a>> {
        let set = self.overrides.iter().filter(|(o, _)| o.table == name);
        let set =
            set.map(|(o, table)| Layer { source: &o.source, table: table.get_ref(), span: 0..0 });
        std::iter::once(Layer { source: self.source, table, span }).chain(set).collect()
    }
}

/// The mistake of a file without `[chain]`.
pub(super) fn no_chain(source: &SourceText) -> Diagnostic {
    let help = "a chain file begins with [chain] and `functions = [...]`, and names files of rules";
    source.whole("[chain] is missing").help(help)
}
