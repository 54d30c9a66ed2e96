use super::*;
use crate::wire::ruby::samples;
use proptest::prelude::*;

proptest! {
    #[test]
    fn what_was_written_is_read(datum in samples::datum()) {
        let text = write(&datum);
        prop_assert_eq!(read(text.as_bytes()), Ok(datum), "{}", text);
    }
}
