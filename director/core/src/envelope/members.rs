//! A set of members in bytes: a list or a bitmap, whichever is shorter.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MemberId;

/// Bit of the first two bytes: a bitmap follows, of as many bytes as the other bits say. Otherwise they
/// are the number of members in a list.
const BITMAP: u16 = 1 << 15;

/// The bytes of a set of members; their numbers are below 65,535.
pub fn encode(members: &[MemberId]) -> Vec<u8> {
    let bitmap_len = members.iter().max().map_or(0, |last| *last as usize / 8 + 1);
    if 2 * members.len() <= bitmap_len {
        let list = members.iter().flat_map(|member| (*member as u16).to_be_bytes());
        return (members.len() as u16).to_be_bytes().into_iter().chain(list).collect();
    }
    let mut bytes = (BITMAP | bitmap_len as u16).to_be_bytes().to_vec();
    bytes.resize(2 + bitmap_len, 0);
    for member in members {
        bytes[2 + *member as usize / 8] |= 1 << (member % 8);
    }
    bytes
}

/// Takes a set of members from the start of `rest`; returns whether it has this member, or `None` if
/// there is no set.
pub fn take_contains(rest: &mut &[u8], member: u16) -> Option<bool> {
    let (head, after) = rest.split_first_chunk()?;
    let head = u16::from_be_bytes(*head);
    let length = usize::from(head & !BITMAP);
    let is_bitmap = head & BITMAP != 0;
    let (set, after) = after.split_at_checked(if is_bitmap { length } else { 2 * length })?;
    *rest = after;
    Some(match is_bitmap {
        true => set.get(usize::from(member / 8)).is_some_and(|byte| byte >> (member % 8) & 1 == 1),
        false => set.chunks_exact(2).any(|own| own == member.to_be_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_has_its_members_and_no_others(
            set in prop::collection::btree_set(0_u32..65_535, 0..40),
            near in prop::collection::btree_set(0_u32..60, 0..40),
            other in 0_u16..65_535,
        ) {
            for set in [set, near] {
                let members: Vec<MemberId> = set.iter().copied().collect();
                let mut bytes = encode(&members);
                bytes.extend(b"rest");
                for member in members.iter().map(|member| *member as u16).chain([other]) {
                    let mut rest = &bytes[..];
                    let expected = set.contains(&u32::from(member));
                    prop_assert_eq!(take_contains(&mut rest, member), Some(expected));
                    prop_assert_eq!(rest, b"rest");
                }
                // No longer than either form.
                prop_assert!(bytes.len() <= 2 + 2 * members.len() + 4);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64), member: u16) {
            let mut rest = &bytes[..];
            let _ = take_contains(&mut rest, member);
        }
    }
}
