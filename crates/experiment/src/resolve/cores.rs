//! Resolves CPU cores, in the kernel's list format.

use crate::file::Group;
use crate::problem::Problem;
use crate::read::Sink;

/// Cores of `0` or `2-4`. `None` for other texts.
fn range(text: &str) -> Option<std::ops::RangeInclusive<u32>> {
    // The bound keeps `0-4294967295` from becoming a list of that length.
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|core| *core < 4_096);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(first..=last)
}

/// Reports invalid lists of cores.
pub(super) fn check(group: &Group, sink: &mut Sink) {
    for at in group.cores.iter().flat_map(|cores| &cores.value.0) {
        if range(&at.value).is_none() {
            let problem =
                Problem::new(format!("`{}` is not a list of cores", at.value)).at(at.place);
            sink.add(problem.label("write for example `1`, `0-3` or `[0, 2-3]`"));
        }
    }
}

/// Cores of a checked group, without duplicates; empty for all.
pub(super) fn of(group: &Group) -> Vec<u32> {
    let texts = group.cores.iter().flat_map(|cores| &cores.value.0);
    let mut all: Vec<u32> = texts.filter_map(|at| range(&at.value)).flatten().collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_listed_as_the_kernel_does() {
        assert_eq!(range("3"), Some(3..=3));
        assert_eq!(range("0-2"), Some(0..=2));
        for text in ["", "a", "2-0", "-1", "1-", "5000", "0-99999"] {
            assert_eq!(range(text), None, "{text}");
        }
    }
}
