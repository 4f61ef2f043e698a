//! The targets of templates as socket addresses.

use crate::socket::Address;
use crate::template::Template;
use std::collections::HashMap;
use std::net::SocketAddr;

/// The addresses of templates, each converted once.
#[derive(Default)]
pub(crate) struct Targets {
    /// By template: its target's number and address; None if it cannot be sent to.
    known: Vec<Option<(u32, Address)>>,
    numbers: HashMap<SocketAddr, u32>,
    /// By number.
    addresses: Vec<SocketAddr>,
}

impl Targets {
    /// The number of a template's target. Templates with the same address share a target.
    /// None if it has no address, or the address family does not fit a socket with this
    /// `ipv4`.
    #[inline]
    pub fn find(
        &mut self,
        template: u32,
        templates: &[Template],
        ipv4: Option<bool>,
    ) -> Option<u32> {
        let place = template as usize;
        while self.known.len() <= place {
            let next = templates.get(self.known.len())?;
            let to = next
                .to
                .as_ref()
                .ok()
                .filter(|to| ipv4.is_none_or(|ipv4| to.is_ipv4() == ipv4))
                .copied();
            let number = to.map(|to| self.number(to));
            self.known.push(number.zip(to.map(Address::new)));
        }
        self.known[place].as_ref().map(|(number, _)| *number)
    }

    fn number(&mut self, to: SocketAddr) -> u32 {
        let Self { numbers, addresses, .. } = self;
        *numbers.entry(to).or_insert_with(|| {
            addresses.push(to);
            addresses.len() as u32 - 1
        })
    }

    /// The addresses of all targets in the order of their numbers.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.addresses.iter().copied()
    }

    /// The address of the target of a template that `find` has returned before.
    #[inline]
    pub fn name(&self, template: u32) -> Option<&Address> {
        self.known.get(template as usize)?.as_ref().map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_of_one_address_have_one_target() {
        let template = |to: &str| Template {
            to: to.parse().map_err(|_| to.to_owned()),
            bytes: Vec::new(),
            number_at: 0,
            coap: None,
        };
        let all = ["10.0.0.1:1", "[::1]:1", "none", "10.0.0.2:1", "10.0.0.1:1"].map(template);
        let mut targets = Targets::default();
        assert!(targets.name(0).is_none());
        let found: Vec<_> = (0..6).map(|place| targets.find(place, &all, Some(true))).collect();
        assert_eq!(found, [Some(0), None, None, Some(1), Some(0), None]);
        assert_eq!(Targets::default().find(1, &all, None), Some(1));
        assert_eq!(targets.name(3).unwrap().get(), Some("10.0.0.2:1".parse().unwrap()));
        assert!(targets.name(1).is_none());
        let addresses: Vec<String> = targets.addresses().map(|to| to.to_string()).collect();
        assert_eq!(addresses, ["10.0.0.1:1", "10.0.0.2:1"]);
    }
}
